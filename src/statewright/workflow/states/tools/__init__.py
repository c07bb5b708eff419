"""Tools of workflows: Python functions and built-in tools by name, with their credentials.

Arguments from models and responses of services are untrusted, so a tool has only the access that its project grants.
"""

from statewright.workflow.states.tools.builtin import ToolSettings
from statewright.workflow.states.tools.guard import Guard, parse_allowed_host, read_url
from statewright.workflow.states.tools.integrations import (
    Integrations,
    base_url,
    check_origin,
    integration_snippet,
    read_variable,
)
from statewright.workflow.states.tools.registry import ToolRegistry, split_reference, tool_snippet

__all__ = [
    "Guard",
    "Integrations",
    "ToolRegistry",
    "ToolSettings",
    "base_url",
    "check_origin",
    "integration_snippet",
    "parse_allowed_host",
    "read_url",
    "read_variable",
    "split_reference",
    "tool_snippet",
]

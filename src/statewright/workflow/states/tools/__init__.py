"""Tools of workflows: Python functions and built-in tools by name, with their credentials.

Arguments from models and responses of services are untrusted, so a tool reaches no further than its project allows.
"""

from statewright.redaction import is_secret_name
from statewright.workflow.states.tools.builtin import ToolSettings
from statewright.workflow.states.tools.guard import Guard, check_host, read_url
from statewright.workflow.states.tools.integrations import (
    Integrations,
    base_url,
    check_origin,
    integration_stanza,
    read_variable,
)
from statewright.workflow.states.tools.registry import ToolRegistry, check_reference, tool_stanza

__all__ = [
    "Guard",
    "Integrations",
    "ToolRegistry",
    "ToolSettings",
    "base_url",
    "check_host",
    "check_origin",
    "check_reference",
    "integration_stanza",
    "is_secret_name",
    "read_url",
    "read_variable",
    "tool_stanza",
]

"""Tools of workflows: Python functions and built-in tools by name, with their credentials.

Models and answers of services are untrusted: a tool reaches no further than its project allows.
"""

from statewright.http import Url
from statewright.redaction import is_secret_name
from statewright.workflow.states.tools.guard import Guard, check_host, read_url
from statewright.workflow.states.tools.integrations import (
    FROM_ENVIRONMENT,
    Integrations,
    integration_stanza,
)
from statewright.workflow.states.tools.registry import ToolRegistry, check_reference, tool_stanza
from statewright.workflow.states.tools.settings import ToolSettings

__all__ = [
    "FROM_ENVIRONMENT",
    "Guard",
    "Integrations",
    "ToolRegistry",
    "ToolSettings",
    "Url",
    "check_host",
    "check_reference",
    "integration_stanza",
    "is_secret_name",
    "read_url",
    "tool_stanza",
]

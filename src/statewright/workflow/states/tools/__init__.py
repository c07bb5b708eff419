"""Tools: functions of Python and what is built in, by name, with the credentials that they are given.

Models and the texts of services are not to be trusted here: a tool reaches no further than its project allows.
"""

from statewright.workflow.states.tools.guard import check_host
from statewright.workflow.states.tools.imports import check_reference
from statewright.workflow.states.tools.integrations import Integrations, integration_stanza, is_secret_name
from statewright.workflow.states.tools.registry import WITHOUT_MCP, ToolRegistry, tool_stanza
from statewright.workflow.states.tools.settings import ToolSettings

__all__ = [
    "WITHOUT_MCP",
    "Integrations",
    "ToolRegistry",
    "ToolSettings",
    "check_host",
    "check_reference",
    "integration_stanza",
    "is_secret_name",
    "tool_stanza",
]

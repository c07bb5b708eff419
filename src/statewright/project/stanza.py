"""What to add to the project file for an id that is nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from statewright.project.lines import written_path
from statewright.workflow.states.mcp import server_stanza
from statewright.workflow.states.tools import integration_stanza, tool_stanza


def _section(kind: str, id: str, *lines: str) -> str:  # noqa: A002
    return "\n".join((f"[{kind}.{written_path((id,))}]", *lines))


STANZAS: Final[dict[str, Callable[[str], str]]] = {
    "assistant": lambda id: _section("assistants", id, 'system_prompt = "You are ..."'),  # noqa: A006
    "integration": integration_stanza,
    "datasource": lambda id: _section("datasources", id, 'folder = "documents"', 'glob = "**/*.md"'),  # noqa: A006
    "tool": tool_stanza,
    "mcp": server_stanza,
    "model": lambda id: _section("models", id, 'name = "openai:gpt-5"'),  # noqa: A006
    "workflow": lambda id: _section("workflows", id, 'file = "workflow.yaml"'),  # noqa: A006
}

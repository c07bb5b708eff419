"""What holds for all calls of one tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from statewright.agents.tools.tool import ToolContext
from statewright.errors import ToolError

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What every provider of models takes as the name of a tool."""
Approval = bool | Callable[[Mapping[str, Any], ToolContext], bool]
"""Whether somebody has to agree before a call is made: always, never, or as a function of its arguments says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """How a tool is called."""

    approve: Approval = False
    timeout: float | None = None
    """Seconds after which a call is given up; the model is told."""
    strict: bool | None = None
    """Whether the provider holds its model to the schema of the arguments; None leaves it to the provider's adapter."""
    in_order: bool | None = None
    """Whether an agent of a network makes calls of it one after another; None: if it can write to the state."""
    return_direct: bool = False
    """Whether the agent ends with what the tool answers, without asking the model again."""


def check_name(name: str) -> str:
    """The name, if a tool can have it. Raises ToolError."""
    if _NAME.fullmatch(name):
        return name
    if ":" in name:
        raise ToolError(f"{name!r} cannot name a tool: names with a colon are kept for tools of MCP servers.")
    raise ToolError(
        f"{name[:80]!r} cannot name a tool. Names have up to 64 letters, digits, dashes and underscores, and begin "
        f"with a letter or an underscore."
    )

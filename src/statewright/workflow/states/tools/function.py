"""Python functions as tools."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from statewright.errors import ToolError
from statewright.runtime.thread_calls import call_in_thread
from statewright.workflow.states.tools.docstring import read_docstring
from statewright.workflow.states.tools.signature import Signature
from statewright.workflow.states.tools.tool import ToolContext

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What every provider of models takes as the name of a tool."""


class ToolFunction:
    """A function as a tool: its name, docstring and annotations say what it is and what it takes.

    A plain function is called on a worker thread. A parameter annotated `ToolContext` is no argument of the tool.
    Raises ToolError for a function whose arguments cannot be described.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        never_from_context: Collection[str] = (),
    ) -> None:
        self.name = check_name(name or getattr(function, "__name__", type(function).__name__))
        told = read_docstring(inspect.getdoc(function))
        self.description = told.description if description is None else description
        self.never_from_context = frozenset(never_from_context)
        self._function = function
        self._signature = Signature(self.name, function, told.parameters)
        self.parameters: Mapping[str, Any] = self._signature.schema

    async def call(self, arguments: Mapping[str, Any], *, context: ToolContext) -> Any:
        """What the function answers. Raises ToolError for arguments that it does not take, and what it raises."""
        given = self._signature.read(arguments)
        if self._signature.context_name is not None:
            given[self._signature.context_name] = context
        if inspect.iscoroutinefunction(self._function):
            return await self._function(**given)
        answer = await call_in_thread(partial(self._function, **given))
        return await answer if inspect.isawaitable(answer) else answer

    def __repr__(self) -> str:
        return f"ToolFunction({self.name!r})"


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

"""The registry of the tools that a workflow may call.

Tools of the project take precedence over built-in ones. The module of a tool is imported on first use, so a workflow
neither waits for modules that it does not use nor fails because of them.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from statewright.agents import Tool, ToolFunction, check_name
from statewright.errors import ToolError, suggestion
from statewright.text import toml_key
from statewright.workflow.states.tools.builtin import ENABLED_BY, ToolSettings, builtin_tools


def import_function(name: str, reference: str, folder: Path | None) -> Callable[..., Any]:
    """Import the function of a tool from an installed module, or from a module in `folder`. Raises ToolError."""
    module_name, attribute = split_reference(name, reference)
    if folder is not None and str(folder) not in sys.path:
        # The folder is never removed from the path, because modules of the project may import each other later.
        sys.path.insert(0, str(folder))
    module = _import_module(name, module_name, folder)
    function = getattr(module, attribute, None)
    if function is None:
        names = cast("dict[str, Any]", vars(module))
        candidates = [name for name, value in names.items() if callable(value) and not name.startswith("_")]
        raise ToolError(
            f"Tool {name!r} is {reference!r}, but {module_name!r} contains no {attribute!r}. "
            + suggestion(attribute, candidates, noun="Functions")
        )
    if not callable(function) and not hasattr(function, "call"):
        raise ToolError(f"Tool {name!r} is {reference!r}, which is a {type(function).__name__}, not a function.")
    return cast("Callable[..., Any]", function)


def split_reference(name: str, text: str) -> tuple[str, str]:
    """Split a reference `module:function` into its two names. Raises ToolError for an invalid reference."""
    module_name, _, attribute = (part.strip() for part in text.partition(":"))
    if not (attribute.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise ToolError(
            f"Tool {name!r} is {text[:200]!r}, which is not a reference to a function. Write 'module:function'."
        )
    return module_name, attribute


def _import_module(name: str, module_name: str, folder: Path | None) -> Any:
    try:
        return importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        # The module itself or a package that contains it is missing, not a module that it imports.
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            location = f"neither in {folder} nor installed" if folder is not None else "not installed"
            raise ToolError(f"Tool {name!r} is in module {module_name!r}, which is {location}.") from None
        reason = f"{type(error).__name__}: {error}"
        raise ToolError(f"Module {module_name!r} of tool {name!r} cannot be imported: {reason}.") from error


# -- the registry

_SERVER_SEPARATOR: Final = ":"
"""Separates server and tool in the names of MCP tools, as in `server:tool`."""


class ToolRegistry:
    """The tools of a project, by name. Raises ToolError for invalid functions and settings."""

    def __init__(
        self, functions: Mapping[str, Callable[..., Any] | str] | None = None, settings: ToolSettings | None = None
    ) -> None:
        self.settings: Final = settings or ToolSettings()
        """The built-in tools that are enabled, and the permissions of tools."""
        self._tools: dict[str, Tool] = {tool.name: tool for tool in builtin_tools(self.settings)}
        self._references: dict[str, str] = {}
        self._lock = threading.Lock()
        for name, function in (functions or {}).items():
            self.register(function, name=name)

    def register(self, tool: Tool | Callable[..., Any] | str, *, name: str | None = None) -> None:
        """Add or replace a tool: a tool object, a function, or a reference `module:function`, which needs a name.

        Raises ToolError for an invalid name or function.
        """
        if isinstance(tool, str):
            self._tools.pop(check_name(name or tool), None)
            self._references[name or tool] = tool
            return
        new_tool = _as_tool(tool, name)
        self._references.pop(name or new_tool.name, None)
        self._tools[check_name(name or new_tool.name)] = new_tool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self._tools, *self._references}))

    def __contains__(self, name: object) -> bool:
        return name in self._tools or name in self._references

    def get(self, name: str) -> Tool:
        """Return a tool, importing its module if necessary. Raises a ToolError that explains how to add the tool."""
        if name in self._tools:
            return self._tools[name]
        if name not in self._references:
            raise ToolError(self._describe_missing(name))
        with self._lock:  # so that two threads do not create two tools
            if name not in self._tools:
                function = import_function(name, self._references[name], self.settings.folder)
                self._tools[name] = _as_tool(function, name)
        return self._tools[name]

    def subset(self, names: Iterable[str]) -> Mapping[str, Tool]:
        """Return a mapping of the named tools, each of which is loaded on access."""
        return _ToolSubset(self, names)

    def _describe_missing(self, name: str) -> str:
        if _SERVER_SEPARATOR in name:
            return (
                f"Tool {name!r} belongs to an MCP server. Declare the server with its name and config, under "
                f"mcp_server of a tool, or mcp_servers of an assistant."
            )
        if name in ENABLED_BY:
            return (
                f"Tool {name!r} is built in, but disabled. To enable it, write in statewright.toml:\n"
                f"[tools]\n{ENABLED_BY[name]}"
            )
        hint = suggestion(name, self.names, noun="Tools")
        return f"Tool {name!r} does not exist. {hint} To add it, write in statewright.toml:\n{tool_snippet(name)}"


class _ToolSubset(Mapping[str, Tool]):
    def __init__(self, registry: ToolRegistry, names: Iterable[str]) -> None:
        self._registry = registry
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Tool:
        if name not in self._names:
            raise KeyError(name)
        return self._registry.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def tool_snippet(name: str) -> str:
    """Return the lines of statewright.toml that define a tool."""
    function = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "function"
    return f'[tools]\n{toml_key(name)} = "my_tools:{function}"'


def _as_tool(tool: Tool | Callable[..., Any], name: str | None) -> Tool:
    if hasattr(tool, "call") and hasattr(tool, "parameters"):
        return cast(Tool, tool)
    return ToolFunction(cast("Callable[..., Any]", tool), name=name)

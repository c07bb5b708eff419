"""`module:function` as what it means."""

from __future__ import annotations

import importlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

from statewright.agents import Tool, ToolFunction, check_name
from statewright.errors import ToolError, suggestion
from statewright.workflow.states.tools.builtin import TURNED_ON_BY, builtin_tools
from statewright.workflow.states.tools.settings import ToolSettings


def import_function(name: str, text: str, folder: Path | None) -> Callable[..., Any]:
    """The function for a tool; modules are looked for in `folder` too. Raises ToolError that says what is missing."""
    module_name, attribute = check_reference(name, text)
    if folder is not None and str(folder) not in sys.path:
        # For good: a module of the project may import its neighbours later too.
        sys.path.insert(0, str(folder))
    module = _imported(name, module_name, folder)
    found = getattr(module, attribute, None)
    if found is None:
        held = cast("dict[str, Any]", vars(module))
        known = [one for one, value in held.items() if callable(value) and not one.startswith("_")]
        raise ToolError(
            f"Tool {name!r} is {text!r}, and {module_name} holds no {attribute!r}. "
            + suggestion(attribute, known, noun="It holds")
        )
    if not callable(found) and not hasattr(found, "call"):
        raise ToolError(f"Tool {name!r} is {text!r}, which is a {type(found).__name__} and no function.")
    return cast("Callable[..., Any]", found)


def check_reference(name: str, text: str) -> tuple[str, str]:
    """The module and the function that a text names. Raises ToolError if it names none."""
    module_name, _, attribute = (part.strip() for part in text.partition(":"))
    if not (attribute.isidentifier() and all(part.isidentifier() for part in module_name.split("."))):
        raise ToolError(f"Tool {name!r} is {text[:200]!r}, which names no function. Write it as 'module:function'.")
    return module_name, attribute


def _imported(name: str, module_name: str, folder: Path | None) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            where = f"neither in {folder} nor installed" if folder is not None else "not installed"
            raise ToolError(f"Tool {name!r} is in module {module_name!r}, which is {where}.") from None
        raise ToolError(f"Module {module_name!r} of tool {name!r} cannot be imported: {error}.") from error
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise ToolError(f"Module {module_name!r} of tool {name!r} cannot be imported: {told}.") from error


# -- The tools that a workflow may call, by name.
#
# A project's own tools come first, then those that are built in. Modules are imported when their tool is first wanted: a
# workflow need not wait for what it does not use, nor fail for it.

SERVER: Final = ":"
"""Stands between a server and its tool in names that are kept for MCP: `server:tool`."""


class ToolRegistry:
    """Tools by name. Raises ToolError for functions and settings that cannot be used."""

    def __init__(
        self, functions: Mapping[str, Callable[..., Any] | str] | None = None, settings: ToolSettings | None = None
    ) -> None:
        self._settings = settings or ToolSettings()
        self._tools: dict[str, Tool] = {tool.name: tool for tool in builtin_tools(self._settings)}
        self._texts: dict[str, str] = {}
        self._lock = threading.Lock()
        for name, function in (functions or {}).items():
            self.register(function, name=name)

    def register(self, tool: Tool | Callable[..., Any] | str, *, name: str | None = None) -> None:
        """Add a tool, a function or a text `module:function`, in the place of what has its name.

        Raises ToolError for a name or a function that cannot be used. A text needs a name.
        """
        if isinstance(tool, str):
            self._tools.pop(check_name(name or tool), None)
            self._texts[name or tool] = tool
            return
        made = _as_tool(tool, name)
        self._texts.pop(name or made.name, None)
        self._tools[check_name(name or made.name)] = made

    @property
    def settings(self) -> ToolSettings:
        """How far tools may go."""
        return self._settings

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self._tools, *self._texts}))

    def __contains__(self, name: object) -> bool:
        return name in self._tools or name in self._texts

    def get(self, name: str) -> Tool:
        """The tool of a name; a module is imported if need be. Raises ToolError that says how to get it."""
        if name in self._tools:
            return self._tools[name]
        if name not in self._texts:
            raise ToolError(self._nowhere(name))
        with self._lock:
            if name not in self._tools:
                function = import_function(name, self._texts[name], self._settings.folder)
                self._tools[name] = _as_tool(function, name)
        return self._tools[name]

    def some(self, names: Iterable[str]) -> Mapping[str, Tool]:
        """Some of the tools, each as `get` gives it when it is asked for."""
        return _Some(self, names)

    def _nowhere(self, name: str) -> str:
        if SERVER in name:
            return (
                f"Tool {name!r} is one of an MCP server. Declare the server: mcp_server of the tool, or mcp_servers of "
                f"the assistant, with its name and its config."
            )
        if name in TURNED_ON_BY:
            return (
                f"Tool {name!r} is built in, but turned off. To turn it on, write in statewright.toml:\n"
                f"[tools]\n{TURNED_ON_BY[name]}"
            )
        hint = suggestion(name, self.names, noun="Tools")
        return f"There is no tool {name!r}. {hint} To add it, write in statewright.toml:\n{tool_stanza(name)}"


class _Some(Mapping[str, Tool]):
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


def tool_stanza(name: str) -> str:
    """What to add to statewright.toml for a tool."""
    is_bare = re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None
    function = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "function"
    return f'[tools]\n{name if is_bare else json.dumps(name, ensure_ascii=False)} = "my_tools:{function}"'


def _as_tool(tool: Tool | Callable[..., Any], name: str | None) -> Tool:
    if hasattr(tool, "call") and hasattr(tool, "parameters"):
        return cast(Tool, tool)
    return ToolFunction(cast("Callable[..., Any]", tool), name=name)

"""Tools by name."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from statewright.agents import ToolContext, ToolFunction
from statewright.errors import ToolError
from statewright.workflow.states.tools import ToolRegistry, ToolSettings, tool_snippet


def add(one: int) -> int:
    return one + 1


def module(folder: Path, kind: str = "") -> str:
    return min(path.stem for path in folder.glob(f"own_*{kind}.py"))


def test_functions_are_found_by_name() -> None:
    registry = ToolRegistry({"increase": add})
    registry.register(add)
    registry.register(ToolFunction(add, name="third"))
    assert registry.names == ("add", "increase", "third")
    assert "add" in registry
    assert registry.get("increase").name == "increase"


def test_a_module_is_imported_when_its_tool_is_wanted(folder: Path) -> None:
    name = module(folder)
    registry = ToolRegistry({"triple": f"{name}:triple"}, ToolSettings(folder=folder))
    assert "triple" in registry
    assert name not in sys.modules
    tool = registry.get("triple")
    assert registry.get("triple") is tool
    assert asyncio.run(tool.call({"value": 2}, context=ToolContext())) == 6


def test_some_tools_are_imported_when_they_are_wanted(folder: Path) -> None:
    name = module(folder)
    registry = ToolRegistry(
        {"triple": f"{name}:triple", "lost": f"{name}:lost", "add": add}, ToolSettings(folder=folder)
    )
    some = registry.subset(["triple", "lost"])
    assert (list(some), len(some), "triple" in some, "add" in some) == (["triple", "lost"], 2, True, False)
    assert name not in sys.modules
    assert some["triple"] is registry.get("triple")
    with pytest.raises(ToolError):
        some["lost"]
    with pytest.raises(KeyError):
        some["add"]


def test_an_unknown_tool_shows_near_misses_and_the_snippet_to_add() -> None:
    with pytest.raises(ToolError) as caught:
        ToolRegistry({"read_graph": add}).get("read_grap")
    assert str(caught.value) == (
        "Tool 'read_grap' does not exist. Did you mean 'read_graph'? Tools: read_graph. To add it, write in "
        'statewright.toml:\n[tools]\nread_grap = "my_tools:read_grap"'
    )
    assert tool_snippet("a b") == '[tools]\n"a b" = "my_tools:a_b"'


def test_a_tool_of_a_server_has_to_be_declared_with_it() -> None:
    with pytest.raises(ToolError, match=r"belongs to an MCP server\. Declare the server with its name and config"):
        ToolRegistry().get("server:tool")


def test_names_that_cannot_be_are_refused() -> None:
    for tool in (add, "module:f"):
        with pytest.raises(ToolError, match="is not a valid tool name"):
            ToolRegistry({"a b": tool})


def test_a_tool_of_the_project_comes_before_a_built_in_one(tmp_path: Path) -> None:
    registry = ToolRegistry({"read_file": add}, ToolSettings(root=tmp_path))
    assert list(registry.get("read_file").parameters["properties"]) == ["one"]
    registry.register("module:f", name="read_file")
    with pytest.raises(ToolError, match="'module'"):
        registry.get("read_file")


def test_an_allow_list_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ToolError, match="is not a host"):
        ToolRegistry(settings=ToolSettings(allow_hosts=("https://example.com/",)))

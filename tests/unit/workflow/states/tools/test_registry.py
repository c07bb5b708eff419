"""The registry of tools."""

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


def module_name(folder: Path, kind: str = "") -> str:
    return min(path.stem for path in folder.glob(f"own_*{kind}.py"))


def test_functions_are_found_by_name() -> None:
    registry = ToolRegistry({"increase": add})
    registry.register(add)
    registry.register(ToolFunction(add, name="third"))
    assert registry.names == ("add", "increase", "third")
    assert "add" in registry
    assert registry.get("increase").name == "increase"


def test_a_module_is_imported_on_the_first_use_of_its_tool(folder: Path) -> None:
    name = module_name(folder)
    registry = ToolRegistry({"triple": f"{name}:triple"}, ToolSettings(folder=folder))
    assert "triple" in registry
    assert name not in sys.modules
    tool = registry.get("triple")
    assert registry.get("triple") is tool
    assert asyncio.run(tool.call({"value": 2}, context=ToolContext())) == 6


def test_a_subset_imports_tools_on_use(folder: Path) -> None:
    name = module_name(folder)
    registry = ToolRegistry(
        {"triple": f"{name}:triple", "lost": f"{name}:lost", "add": add}, ToolSettings(folder=folder)
    )
    subset = registry.subset(["triple", "lost"])
    assert (list(subset), len(subset), "triple" in subset, "add" in subset) == (["triple", "lost"], 2, True, False)
    assert name not in sys.modules
    assert subset["triple"] is registry.get("triple")
    with pytest.raises(ToolError):
        subset["lost"]
    with pytest.raises(KeyError):
        subset["add"]


def test_the_error_for_an_unknown_tool_has_suggestions_and_a_snippet() -> None:
    with pytest.raises(ToolError) as caught:
        ToolRegistry({"read_graph": add}).get("read_grap")
    assert str(caught.value) == (
        "Tool 'read_grap' does not exist. Did you mean 'read_graph'? Tools: read_graph. To add it, write in "
        'statewright.toml:\n[tools]\nread_grap = "my_tools:read_grap"'
    )
    assert tool_snippet("a b") == '[tools]\n"a b" = "my_tools:a_b"'


def test_a_tool_of_an_mcp_server_must_be_declared_with_the_server() -> None:
    with pytest.raises(ToolError, match=r"belongs to an MCP server\. Declare the server with its name and config"):
        ToolRegistry().get("server:tool")


def test_invalid_names_are_rejected() -> None:
    for tool in (add, "module:f"):
        with pytest.raises(ToolError, match="is not a valid tool name"):
            ToolRegistry({"a b": tool})


def test_a_tool_of_the_project_replaces_a_built_in_one(tmp_path: Path) -> None:
    registry = ToolRegistry({"read_file": add}, ToolSettings(root=tmp_path))
    assert list(registry.get("read_file").parameters["properties"]) == ["one"]
    registry.register("module:f", name="read_file")
    with pytest.raises(ToolError, match="'module'"):
        registry.get("read_file")


def test_an_invalid_list_of_allowed_hosts_is_rejected() -> None:
    with pytest.raises(ToolError, match="is not a host"):
        ToolRegistry(settings=ToolSettings(allow_hosts=("https://example.com/",)))

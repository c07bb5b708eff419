"""The tools that come with Statewright."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.errors import ToolError
from statewright.workflow.states.tools import ToolRegistry, ToolSettings
from statewright.workflow.states.tools.builtin import TURNED_ON_BY, builtin_tools


def test_what_can_be_turned_on_is_listed(tmp_path: Path) -> None:
    settings = ToolSettings(root=tmp_path, allow_hosts=("example.com",), allow_shell=True)
    assert {tool.name for tool in builtin_tools(settings)} == set(TURNED_ON_BY)
    assert list(builtin_tools(ToolSettings())) == []


def test_4_1_3_the_context_fills_nothing_optional_and_no_command(tmp_path: Path) -> None:
    settings = ToolSettings(root=tmp_path, allow_hosts=("example.com",), allow_shell=True)
    for tool in builtin_tools(settings):
        optional = set(tool.parameters["properties"]) - set(tool.parameters.get("required", ()))
        assert optional <= set(tool.never_from_context)
        assert "command" not in tool.parameters["properties"] or "command" in tool.never_from_context


@pytest.mark.parametrize(
    ("name", "line"),
    [("read_file", 'root = "."'), ("http_request", "allow_hosts = "), ("run_command", "allow_shell = true")],
)
def test_built_in_tools_are_off_until_they_are_turned_on(name: str, line: str) -> None:
    with pytest.raises(ToolError) as caught:
        ToolRegistry().get(name)
    assert f"[tools]\n{line}" in str(caught.value)


def test_settings_turn_built_in_tools_on(tmp_path: Path) -> None:
    settings = ToolSettings(root=tmp_path, allow_hosts=("example.com",), allow_shell=True)
    registry = ToolRegistry(settings=settings)
    assert registry.names == (
        "edit_file", "http_request", "list_files", "read_file", "run_command", "search_files", "write_file",
    )  # fmt: skip
    assert "command" in registry.get("run_command").never_from_context
    for name in registry.names:
        tool = registry.get(name)
        assert tool.description
        assert all("description" in one for one in tool.parameters["properties"].values())

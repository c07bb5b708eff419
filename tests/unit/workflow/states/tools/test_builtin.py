"""The built-in tools."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from statewright.agents import NO_CREDENTIALS, ToolContext, call_tool
from statewright.errors import ToolError
from statewright.workflow.states.tools import ToolRegistry, ToolSettings
from statewright.workflow.states.tools.builtin import ENABLED_BY, builtin_tools


def test_every_built_in_tool_can_be_enabled(tmp_path: Path) -> None:
    settings = ToolSettings(root=tmp_path, allow_hosts=("example.com",), allow_shell=True)
    assert {tool.name for tool in builtin_tools(settings)} == set(ENABLED_BY)
    assert list(builtin_tools(ToolSettings())) == []


def test_4_1_3_the_context_fills_neither_optional_arguments_nor_commands(tmp_path: Path) -> None:
    settings = ToolSettings(root=tmp_path, allow_hosts=("example.com",), allow_shell=True)
    for tool in builtin_tools(settings):
        optional = set(tool.parameters["properties"]) - set(tool.parameters.get("required", ()))
        assert optional <= set(tool.never_from_context)
        assert "command" not in tool.parameters["properties"] or "command" in tool.never_from_context


def test_commands_run_in_the_root_or_in_the_folder_of_the_tools(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    for settings, folder in (
        (ToolSettings(folder=tmp_path, allow_shell=True), tmp_path),
        (ToolSettings(root=tmp_path / "root", folder=tmp_path, allow_shell=True), tmp_path / "root"),
    ):
        tool = ToolRegistry(settings=settings).get("run_command")
        answer = asyncio.run(call_tool(tool, {"command": ["pwd"]}, context=ToolContext(NO_CREDENTIALS)))
        assert os.path.realpath(folder) + "\\n" in str(answer)


@pytest.mark.parametrize(
    ("name", "line"),
    [("read_file", 'root = "."'), ("http_request", "allow_hosts = "), ("run_command", "allow_shell = true")],
)
def test_built_in_tools_are_disabled_by_default(name: str, line: str) -> None:
    with pytest.raises(ToolError) as caught:
        ToolRegistry().get(name)
    assert f"[tools]\n{line}" in str(caught.value)


def test_settings_enable_built_in_tools(tmp_path: Path) -> None:
    settings = ToolSettings(root=tmp_path, allow_hosts=("example.com",), allow_shell=True)
    registry = ToolRegistry(settings=settings)
    assert registry.names == (
        "edit_file", "http_request", "list_files", "read_file", "run_command", "search_files", "write_file",
    )  # fmt: skip
    assert "command" in registry.get("run_command").never_from_context
    for name in registry.names:
        tool = registry.get(name)
        assert tool.description
        assert all("description" in schema for schema in tool.parameters["properties"].values())

"""What a project offers."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import read

from statewright.project import Project


def test_without_a_file_everything_is_empty_and_nothing_allowed(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert (project.mcp, project.models, project.defaults.provider) == ({}, {}, None)
    assert project.tool_registry().names == ()
    assert project.tool_registry().settings.mcp_commands == ()


def test_each_registry_of_tools_is_a_new_one(folder: Path) -> None:
    project = read('[tools]\ntriple = "own:triple"', folder)
    project.tool_registry().register(lambda: 1, name="other")
    assert project.tool_registry().names == ("triple",)

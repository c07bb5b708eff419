"""The model of a project."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import read

from statewright.project import Project


def test_a_project_without_a_file_is_empty_and_allows_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert (project.mcp, project.models, project.defaults.provider) == ({}, {}, None)
    assert project.tool_registry().names == ()
    assert project.tool_registry().settings.mcp_commands == ()


def test_each_tool_registry_is_a_new_object(folder: Path) -> None:
    project = read('[tools]\ntriple = "own:triple"', folder)
    project.tool_registry().register(lambda: 1, name="other")
    assert project.tool_registry().names == ("triple",)

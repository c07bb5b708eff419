"""Snippets that define a missing id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.project.conftest import read

from statewright.project import Kind, Project


@pytest.mark.parametrize(
    ("kind", "section"),
    [
        ("assistant", "assistants"), ("integration", "integrations"), ("datasource", "datasources"),
        ("workflow", "workflows"), ("mcp", "mcp"), ("model", "models"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["plain", "with space", 'quoted"', "8f14e45f-ea"])
def test_a_snippet_defines_the_missing_id(kind: Kind, section: str, name: str, folder: Path) -> None:
    snippet = Project(folder).snippet_for(kind, name)
    project: Any = read(snippet, folder)
    if kind == "integration":
        assert name in project.integrations
    else:
        assert name in getattr(project, section)


def test_a_snippet_defines_a_missing_tool(folder: Path) -> None:
    snippet = Project(folder).snippet_for("tool", "_read_graph")
    assert snippet == '[tools]\n_read_graph = "my_tools:read_graph"'
    assert "_read_graph" in read(snippet, folder).tool_registry()

"""Reading tables as models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statewright.project.reader import Reader
from statewright.project.tables import Count, Table


class Numbers(Table):
    x: Count = 1
    y: str = ""


class Named(Table):
    name: str


def test_valid_values_are_returned_and_invalid_ones_reported(tmp_path: Path) -> None:
    reader = Reader("[a]\nx = 1\ny = 2\nz = 3", tmp_path)
    assert reader.read(Numbers, {"x": 2, "y": 2, "z": 3}, ("a",)) == Numbers(x=2)
    assert [(problem.path, problem.line) for problem in reader.problems] == [("a.y", 3)]
    assert [(warning.path, warning.line) for warning in reader.warnings] == [("a.z", 4)]
    assert "Keys: x, y." in reader.warnings[0].suggestion


def test_an_unknown_key_is_a_problem_in_a_strict_table(tmp_path: Path) -> None:
    reader = Reader("", tmp_path)
    assert reader.read(Numbers, {"z": 3}, ("a",), strict=True) == Numbers()
    assert (len(reader.problems), reader.warnings) == (1, [])


@pytest.mark.parametrize("value", [{}, {"name": 1}, {"nam": "x"}, 5])
def test_a_table_without_a_required_value_is_none(value: Any, tmp_path: Path) -> None:
    reader = Reader("", tmp_path)
    assert reader.read(Named, value, ("a",)) is None
    assert len(reader.problems) == 1


@pytest.mark.parametrize("section", ["integrations", "mcp", "models"])
def test_4_1_11_values_in_sections_with_secrets_are_not_quoted(section: str, tmp_path: Path) -> None:
    reader = Reader("", tmp_path)
    reader.read(Numbers, {"y": ["hunter2"]}, (section, "a"))
    reader.read(dict[str, Any], "hunter2", (section,))
    reader.read(Numbers, {"y": ["visible"]}, ("defaults", "a"))
    *hidden, visible = reader.problems
    assert "hunter2" not in "".join(map(str, hidden))
    assert 'is a list: ["visible"].' in visible.message


def test_a_missing_file_is_a_warning(tmp_path: Path) -> None:
    reader = Reader("", tmp_path)
    assert reader.resolve_path("x", ("a",), exists=Path.is_dir, description="folder") == tmp_path / "x"
    assert reader.warnings[0].message == "Folder 'x' does not exist."


def test_a_missing_key_has_the_position_of_its_nearest_parent(tmp_path: Path) -> None:
    reader = Reader("[a]\nx = [1]", tmp_path)
    marks = [reader.find_position(("a", "x", 0)), reader.find_position(("a", "y")), reader.find_position(("b",))]
    assert marks == [(2, 1), (1, 1), (0, 0)]

"""Values taken out of the document."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.project.reader import COUNT, TEXT, Reader, suggest_key


def test_values_that_fit_are_taken_and_others_noted(tmp_path: Path) -> None:
    reader = Reader("[a]\nx = 1\ny = 2\nz = 3", tmp_path)
    assert reader.read_table({"x": 1, "y": 2, "z": 3}, ("a",), {"x": COUNT, "y": TEXT}) == {"x": 1}
    assert [(one.path, one.line) for one in reader.problems] == [("a.y", 3)]
    assert [(one.path, one.line) for one in reader.warnings] == [("a.z", 4)]


@pytest.mark.parametrize("section", ["integrations", "mcp", "models"])
def test_4_1_11_where_secrets_may_stand_nothing_is_quoted(section: str, tmp_path: Path) -> None:
    reader = Reader("", tmp_path)
    assert not reader.check_type(["hunter2"], (section, "a"), TEXT)
    assert not reader.check_type(["shown"], ("defaults", "a"), TEXT)
    hidden, shown = reader.problems
    assert "hunter2" not in hidden.message
    assert "shown" in shown.message


def test_what_is_not_there_is_a_warning(tmp_path: Path) -> None:
    reader = Reader("", tmp_path)
    assert reader.path("x", ("a",), is_wanted=Path.is_dir, noun="folder") == tmp_path / "x"
    assert reader.warnings[0].message == "There is no folder 'x'."


def test_a_hint_names_what_was_meant() -> None:
    assert suggest_key("modle", ["model", "name"]) == "Did you mean 'model'? Keys: model, name."
    assert suggest_key("modle", ["model"], listed=False) == "Did you mean 'model'? "

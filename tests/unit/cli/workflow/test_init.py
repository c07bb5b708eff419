"""`statewright init`: a project that runs, and nothing of the user's lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from statewright.cli.workflow.init import FILES


def test_the_project_is_written_and_can_be_run_checked_and_drawn(statewright: Any, folder: Path) -> None:
    ended = statewright("init", "new")
    assert (ended.code, ended.err) == (0, "")
    assert {file.name for file in (folder / "new").iterdir()} == set(FILES)
    assert statewright("check", "new/graph.py").code == 0
    run = statewright("run", "new/graph.py", "--input", "name=Ada")
    assert json.loads(run.out)["lines"] == ["Hello, Ada!", "Hello, Ada!", "That makes 2 greetings."]
    assert "greet" in statewright("draw", "new/graph.py").out


def test_what_to_do_next_is_said_with_the_path(statewright: Any, folder: Path) -> None:
    said = statewright("init", "some/where").out
    assert "statewright run some/where/graph.py --input name=Ada" in said
    assert [name for name in FILES if name not in said] == []
    assert "\n  statewright run 'with space/graph.py' --input name=Ada\n" in statewright("init", "with space").out


def test_the_present_folder_is_meant_where_none_is_given(statewright: Any, folder: Path) -> None:
    assert statewright("init").code == 0
    assert sorted(file.name for file in folder.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("present", [["graph.py"], ["README.md", "test_graph.py"]])
def test_files_that_are_there_are_named_and_none_is_written(statewright: Any, folder: Path, present: list[str]) -> None:
    for name in present:
        (folder / name).write_text("mine", encoding="utf-8")
    ended = statewright("init")
    assert (ended.code, ended.out) == (2, "")
    named = ended.err.removeprefix("Error: ").partition(" would be replaced")[0]
    assert sorted(named.split(", ")) == sorted(present)
    assert "--force" in ended.err
    assert sorted(file.name for file in folder.iterdir()) == sorted(present)
    assert {(folder / name).read_text(encoding="utf-8") for name in present} == {"mine"}


def test_files_that_are_there_are_replaced_when_told_to(statewright: Any, folder: Path) -> None:
    (folder / "graph.py").write_text("mine", encoding="utf-8")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    assert statewright("init", "--force").code == 0
    assert (folder / "graph.py").read_text(encoding="utf-8") == FILES["graph.py"]
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_made_is_named(statewright: Any, folder: Path) -> None:
    (folder / "taken").write_text("", encoding="utf-8")
    ended = statewright("init", "taken/inside")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Error: The project cannot be written to 'taken/inside'")

"""`statewright init`: it creates a project that runs, and replaces no files by mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from statewright.cli.serve.catalog import build_catalog
from statewright.cli.workflow.init import FILES
from statewright.project import load_project


def test_the_created_project_can_be_run_checked_and_drawn(statewright: Any, folder: Path) -> None:
    result = statewright("init", "new")
    assert (result.code, result.err) == (0, "")
    assert {file.name for file in (folder / "new").iterdir()} == set(FILES)
    assert statewright("check", "new/graph.py").code == 0
    run = statewright("run", "new/graph.py", "--input", "name=Ada")
    assert json.loads(run.out)["lines"] == ["Hello, Ada!", "Hello, Ada!", "That makes 2 greetings."]
    assert "greet" in statewright("draw", "new/graph.py").out


def test_the_next_command_has_the_path(statewright: Any, folder: Path) -> None:
    message = statewright("init", "some/where").out
    assert "statewright run some/where/graph.py --input name=Ada" in message
    assert [name for name in FILES if name not in message] == []
    assert "\n  statewright run 'with space/graph.py' --input name=Ada\n" in statewright("init", "with space").out


def test_the_created_project_can_be_served(statewright: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created = statewright("init", "with space").out
    assert created.endswith("Serve it with:\n  cd 'with space' && statewright dev\n")
    monkeypatch.chdir("with space")
    monkeypatch.syspath_prepend(Path.cwd())
    assert [served.name for served in build_catalog(load_project(Path.cwd())).served] == ["graph"]
    assert statewright("init", "--force").out.endswith("Serve it with:\n  statewright dev\n")


def test_the_default_folder_is_the_current_one(statewright: Any, folder: Path) -> None:
    assert statewright("init").code == 0
    assert sorted(file.name for file in folder.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("existing", [["graph.py"], ["README.md", "test_graph.py"]])
def test_existing_files_are_named_and_nothing_is_written(statewright: Any, folder: Path, existing: list[str]) -> None:
    for name in existing:
        (folder / name).write_text("mine", encoding="utf-8")
    result = statewright("init")
    assert (result.code, result.out) == (2, "")
    listed = result.err.removeprefix("Error: '.' already contains ").partition(". Pass")[0]
    assert sorted(listed.split(", ")) == sorted(existing)
    assert "--force" in result.err
    assert sorted(file.name for file in folder.iterdir()) == sorted(existing)
    assert {(folder / name).read_text(encoding="utf-8") for name in existing} == {"mine"}


def test_existing_files_are_replaced_with_force(statewright: Any, folder: Path) -> None:
    (folder / "graph.py").write_text("mine", encoding="utf-8")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    assert statewright("init", "--force").code == 0
    assert (folder / "graph.py").read_text(encoding="utf-8") == FILES["graph.py"]
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_created_is_reported_by_init(statewright: Any, folder: Path) -> None:
    (folder / "taken").write_text("", encoding="utf-8")
    result = statewright("init", "taken/inside")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: The project cannot be written to 'taken/inside'")

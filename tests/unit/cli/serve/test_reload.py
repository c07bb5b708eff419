"""Which changes concern a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.cli.serve.reload import WatchedFiles


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / "statewright.toml").write_text(
        '[graphs]\na = "a.yaml"\n[workflows.b]\nfile = "b.yml"\n', encoding="utf-8"
    )
    for name in ("a.yaml", "b.yml", "other.yaml"):
        (folder / name).touch()
    return folder.resolve()


@pytest.mark.parametrize(
    ("path", "is_meant"),
    [
        ("flow.py", True),
        ("pkg/deep/flow.py", True),
        ("statewright.toml", True),
        ("a.yaml", True),
        ("b.yml", True),
        ("other.yaml", False),
        ("report.json", False),
        (".statewright/runs.db-wal", False),
        (".venv/lib/x.py", False),
        ("pkg/__pycache__/flow.py", False),
        ("runs.db", False),
    ],
)
def test_a_project_watches_its_python_and_what_it_lists(project: Path, path: str, is_meant: bool) -> None:
    watched = WatchedFiles(None)
    assert watched.is_relevant(str(project / path)) is is_meant
    assert (watched.folder, watched.is_deep) == (project, True)


def test_a_lone_file_watches_itself_and_its_neighbours(folder: Path) -> None:
    watched = WatchedFiles("a.yaml")
    assert watched.is_relevant(str(folder.resolve() / "a.yaml"))
    assert watched.is_relevant(str(folder.resolve() / "tools.py"))
    assert not watched.is_relevant(str(folder.resolve() / "b.yaml"))
    assert not watched.is_deep


def test_a_project_that_is_wrong_for_now_is_watched_all_the_same(project: Path) -> None:
    (project / "statewright.toml").write_text("[graphs\n", encoding="utf-8")
    watched = WatchedFiles(None)
    assert watched.folder == project
    assert watched.is_relevant(str(project / "statewright.toml"))
    assert not watched.is_relevant(str(project / "a.yaml"))


def test_files_are_told_as_people_know_them(project: Path) -> None:
    assert WatchedFiles(None).display_path(str(project / "pkg/flow.py")) == "pkg/flow.py"
    assert WatchedFiles(None).display_path("/elsewhere/flow.py") == "/elsewhere/flow.py"

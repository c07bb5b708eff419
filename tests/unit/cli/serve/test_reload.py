"""Files whose changes reload a server."""

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
    ("path", "is_relevant"),
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
def test_a_project_watches_its_python_files_and_listed_workflows(project: Path, path: str, is_relevant: bool) -> None:
    watched = WatchedFiles(None)
    assert watched.is_relevant(str(project / path)) is is_relevant
    assert (watched.folder, watched.is_recursive) == (project, True)


def test_a_single_file_is_watched_with_its_neighbours(folder: Path) -> None:
    watched = WatchedFiles("a.yaml")
    assert watched.is_relevant(str(folder.resolve() / "a.yaml"))
    assert watched.is_relevant(str(folder.resolve() / "tools.py"))
    assert not watched.is_relevant(str(folder.resolve() / "b.yaml"))
    assert not watched.is_recursive


def test_a_temporarily_broken_project_is_watched(project: Path) -> None:
    (project / "statewright.toml").write_text("[graphs\n", encoding="utf-8")
    watched = WatchedFiles(None)
    assert watched.folder == project
    assert watched.is_relevant(str(project / "statewright.toml"))
    assert not watched.is_relevant(str(project / "a.yaml"))


def test_files_are_displayed_relative_to_the_project(project: Path) -> None:
    assert WatchedFiles(None).display_path(str(project / "pkg/flow.py")) == "pkg/flow.py"
    assert WatchedFiles(None).display_path("/elsewhere/flow.py") == "/elsewhere/flow.py"

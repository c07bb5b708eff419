"""Helpers that read project files from strings, and a folder for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.errors import WorkflowError
from statewright.project import Project, read_project


def read(text: str, folder: Path) -> Project:
    return read_project(text, folder / "statewright.toml")


def read_problems(text: str, folder: Path) -> list[str]:
    with pytest.raises(WorkflowError) as caught:
        read(text, folder)
    return [str(problem) for problem in caught.value.problems]


def read_warnings(text: str, folder: Path) -> list[str]:
    return [str(warning) for warning in read(text, folder).warnings]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "documents").mkdir()
    (tmp_path / "prompts/reader.md").write_text("You read.", encoding="utf-8")
    (tmp_path / "triage.yaml").touch()
    return tmp_path

"""Paths in the sections `[datasources]`, `[workflows]` and `[tools]`."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import read_problems, read_warnings


def test_missing_files_and_folders_cause_warnings(folder: Path) -> None:
    text = '[workflows.a]\nfile = "no.yaml"\n[datasources.b]\nfolder = "no"\n[tools]\nroot = "no"'
    assert [warning.split(": ", 1)[1] for warning in read_warnings(text, folder)] == [
        "File 'no.yaml' does not exist. Its path is relative to this file.",
        "Folder 'no' does not exist. Its path is relative to this file.",
        "Folder 'no' does not exist. Its path is relative to this file.",
    ]


def test_a_path_with_a_null_character_is_a_problem(folder: Path) -> None:
    assert read_problems('[datasources.a]\nfolder = "a\\u0000b"', folder) == [
        "In 'datasources.a.folder' (line 2, column 1): It is not a valid path."
    ]

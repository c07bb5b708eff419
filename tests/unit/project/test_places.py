"""`[datasources]` and `[workflows]`."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import problems, warnings


def test_files_and_folders_that_are_not_there_are_warnings(folder: Path) -> None:
    text = '[workflows.a]\nfile = "no.yaml"\n[datasources.b]\nfolder = "no"\n[tools]\nroot = "no"'
    assert [one.split(": ", 1)[1] for one in warnings(text, folder)] == [
        "File 'no.yaml' does not exist. Its path is relative to this file.",
        "Folder 'no' does not exist. Its path is relative to this file.",
        "Folder 'no' does not exist. Its path is relative to this file.",
    ]


def test_a_path_with_a_null_is_none(folder: Path) -> None:
    assert problems('[datasources.a]\nfolder = "a\\u0000b"', folder) == [
        "In 'datasources.a.folder' (line 2, column 1): It is not a valid path."
    ]

"""`[datasources.NAME]` and `[workflows.NAME]`: what lies beside the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from statewright.project.form import TEXT
from statewright.project.lines import Keys
from statewright.project.model import DataSource, ServedWorkflow
from statewright.project.reader import Reader

_DATASOURCE: Final = {"folder": TEXT, "glob": TEXT}
_WORKFLOW: Final = {"file": TEXT, "description": TEXT}


def read_datasource(name: str, given: Any, keys: Keys, reader: Reader) -> DataSource:
    """A folder of documents."""
    values = reader.table(given, keys, _DATASOURCE)
    if "folder" not in values and isinstance(given, dict) and "folder" not in given:
        reader.problem(keys, "It has no folder.", 'Write folder = "documents".')
    folder = reader.path(values.get("folder", "."), (*keys, "folder"), is_wanted=Path.is_dir, noun="folder")
    return DataSource(name, folder, values.get("glob", "**"))


def read_workflow(name: str, given: Any, keys: Keys, reader: Reader) -> ServedWorkflow:
    """A workflow that is served."""
    values = reader.table(given, keys, _WORKFLOW)
    if "file" not in values and isinstance(given, dict) and "file" not in given:
        reader.problem(keys, "It has no file.", f'Write file = "{name}.yaml".')
    file = reader.path(values.get("file", "."), (*keys, "file"), is_wanted=Path.exists, noun="file")
    return ServedWorkflow(name, file, values.get("description"))

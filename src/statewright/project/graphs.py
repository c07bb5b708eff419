"""The sections `[graphs]`, `[workflows]`, `[datasources]`, `[queues]` and `[spending_limits]` of a project file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from statewright.data.mappings import without_none
from statewright.data.problems import describe_kind
from statewright.project.reader import Reader
from statewright.project.schema import DataSource, QueueSettings, ServedGraph, ServedWorkflow
from statewright.project.tables import (
    DataSourceTable,
    GraphTable,
    LimitsTable,
    QueueTable,
    Sections,
    WorkflowTable,
    check_queue_name,
)
from statewright.project.toml_positions import Keys

_TARGET: Final = re.compile(r"(?:[^:]+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?::[^\W\d]\w*)?")
_WORKFLOW_SUFFIXES: Final = (".yaml", ".yml", ".json")


def read_graphs(entries: Mapping[str, Any], reader: Reader) -> dict[str, ServedGraph]:
    """Read `[graphs]`."""
    graphs = {name: _read_graph(name, value, ("graphs", name), reader) for name, value in entries.items()}
    return without_none(graphs)


def _read_graph(name: str, value: Any, keys: Keys, reader: Reader) -> ServedGraph | None:
    """Read an entry of `[graphs]`: a table, or a string in place of a table with only a `path` or a `file`.

    Returns None for an entry from which no graph can be built.
    """
    path_keys, file_keys = (*keys, "path"), (*keys, "file")
    if isinstance(value, str):
        value, path_keys, file_keys = {"file" if _is_workflow_file(value) else "path": value}, keys, keys
    elif not isinstance(value, dict):
        kind = describe_kind(value)
        reader.add_problem(keys, f"It must be a string or a table, but is {kind}.", 'Write "module:graph".')
        return None
    table = reader.read(GraphTable, value, keys, strict=True)
    if table is None:
        return None
    _check_path_and_file(name, cast("dict[str, Any]", value), table, keys, reader)
    return ServedGraph(
        name=name,
        target=_read_target(table.path, path_keys, reader) if table.path is not None else None,
        file=_read_file(table.file, file_keys, reader) if table.file is not None else None,
        description=table.description,
        on_failure=table.on_failure,
        version=table.version,
        queue=table.queue,
        at=reader.find_position(keys),
    )


def check_names(sections: Sections, reader: Reader) -> None:
    """Report graphs that have the same name as a workflow."""
    for name in sections.graphs:
        if name in sections.workflows:
            reader.add_problem(("graphs", name), f"[workflows.{name}] has the same name.", "Rename one of them.")


def _check_path_and_file(name: str, value: Mapping[str, Any], table: GraphTable, keys: Keys, reader: Reader) -> None:
    """Report an entry that does not have exactly one of `path` and `file`, or has a file and a version.

    `value` is the entry as written in the file; `table` lacks its invalid keys.
    """
    if "path" in value and "file" in value:
        reader.add_problem(keys, "It has both a path and a file.", "Keep one of them.")
    elif "path" not in value and "file" not in value:
        reader.add_problem(
            keys, "It has neither a path nor a file.", f'Write path = "module:graph", or file = "{name}.yaml".'
        )
    elif "file" in value and table.version is not None:
        reader.add_problem((*keys, "version"), "The version of a file is computed from its content.", "Remove it.")


def _is_workflow_file(text: str) -> bool:
    return Path(text).suffix.lower() in _WORKFLOW_SUFFIXES


def _read_target(text: str, keys: Keys, reader: Reader) -> str:
    if _is_workflow_file(text) or not _TARGET.fullmatch(text):
        advice = "Move it to 'file'." if _is_workflow_file(text) else "Write it as 'module:graph' or 'file.py:graph'."
        reader.add_problem(keys, f"{text!r} is not a reference to a Python graph.", advice)
    return text


def _read_file(text: str, keys: Keys, reader: Reader) -> Path:
    if not _is_workflow_file(text):
        advice = "Move the reference to a Python graph to 'path'." if ".py" in text else "Name a YAML or JSON file."
        reader.add_problem(keys, f"{text!r} does not end in .yaml, .yml or .json.", advice)
    return reader.resolve_path(text, keys, exists=Path.is_file, description="file")


# -- data sources and workflows


def build_datasource(name: str, table: DataSourceTable, keys: Keys, reader: Reader) -> DataSource:
    """Build a data source. Its folder is resolved relative to the project file."""
    folder = reader.resolve_path(table.folder, (*keys, "folder"), exists=Path.is_dir, description="folder")
    return DataSource(name, folder, table.glob)


def build_workflow(name: str, table: WorkflowTable, keys: Keys, reader: Reader) -> ServedWorkflow:
    """Build a served workflow. Its file is resolved relative to the project file."""
    file = reader.resolve_path(table.file, (*keys, "file"), exists=Path.exists, description="file")
    return ServedWorkflow(name, file, table.description)


# -- queues


def read_queues(entries: Mapping[str, Any], reader: Reader) -> dict[str, QueueSettings]:
    """Read `[queues]`, and report tags that are listed by two queues."""
    queues: dict[str, QueueSettings] = {}
    queue_by_tag: dict[str, str] = {}
    for name, value in entries.items():
        keys = ("queues", name)
        try:
            check_queue_name(name)
        except ValueError as error:
            reader.add_problem(keys, *error.args)
        table = reader.read(QueueTable, value, keys, strict=True)
        if table is None:
            continue
        for tag in table.tags:
            other = queue_by_tag.setdefault(tag, name)
            if other != name:
                reader.add_problem((*keys, "tags"), f"[queues.{other}] lists the tag {tag!r}, too.", "Remove it there.")
        queues[name] = QueueSettings(
            max_running=table.max_running, starts_per_minute=table.starts_per_minute, tags=table.tags
        )
    return queues


# -- spending limits

_OTHER_WORKSPACES: Final = "*"
_SECTION: Final = "spending_limits"


def read_spending_limits(values: Mapping[str, Any], reader: Reader) -> dict[str, Mapping[str, float]]:
    """Read `[spending_limits]` as daily limits by workspace.

    Limits directly in the section apply to all workspaces that have no table, and are returned under the name `*`.
    """
    tables = {name: cast("Any", value) for name, value in values.items() if isinstance(value, dict)}
    other_limits = {name: value for name, value in values.items() if name not in tables}
    if other_limits and _OTHER_WORKSPACES in tables:
        reader.add_problem(
            (_SECTION, _OTHER_WORKSPACES),
            "[spending_limits] itself also sets the limits of all other workspaces.",
            "Set them in only one of the two tables.",
        )
    by_workspace = {name: _read_limits(table, (_SECTION, name), reader) for name, table in tables.items()}
    if other_limits:
        by_workspace[_OTHER_WORKSPACES] = _read_limits(other_limits, (_SECTION,), reader)
    return {name: limits for name, limits in by_workspace.items() if limits}


def _read_limits(table: Any, keys: Keys, reader: Reader) -> Mapping[str, float]:
    if not table:
        reader.add_problem(keys, "It sets no limits.", f"Limits: {', '.join(LimitsTable.model_fields)}.")
    limits = reader.read(LimitsTable, table, keys, strict=True)
    return limits.model_dump(exclude_unset=True) if limits is not None else {}

"""The sections about serving: graphs, workflows, data sources, handlers, the server and spending limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from statewright.errors import InvalidConfig
from statewright.project.reader import (
    AMOUNT,
    COUNT,
    DURABILITY,
    DURATION,
    METRICS_ACCESS,
    PORT,
    TEXT,
    TEXTS,
    Keys,
    Reader,
    kind_of,
)
from statewright.project.schema import DataSource, ServedGraph, ServedWorkflow, Serving
from statewright.storage.locations import path_of

_GRAPH: Final = {
    "path": TEXT,
    "file": TEXT,
    "description": TEXT,
    "on_failure": TEXT,
    "version": TEXT,
}
_TARGET: Final = re.compile(r"(?:[^:]+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?::[^\W\d]\w*)?")
_FILE: Final = (".yaml", ".yml", ".json")


def read_graph(name: str, value: Any, keys: Keys, reader: Reader) -> ServedGraph:
    """Read an entry of `[graphs]`: its location as a string, or a table with more settings."""
    at = {key: (*keys, key) for key in _GRAPH}
    if isinstance(value, str):
        value = {"file" if _is_file(value) else "path": value}
        at = dict.fromkeys(_GRAPH, keys)
    elif not isinstance(value, dict):
        reader.add_problem(keys, f"It must be a string or a table, and is {kind_of(value)}.", 'Write "module:graph".')
        return ServedGraph(name=name)
    values = reader.read_table(value, keys, _GRAPH, strict=True)
    _check_source(name, cast("dict[str, Any]", value), values, keys, reader)
    return ServedGraph(
        name=name,
        target=_target(values["path"], at["path"], reader) if "path" in values else None,
        file=_file(values["file"], at["file"], reader) if "file" in values else None,
        description=values.get("description"),
        on_failure=values.get("on_failure"),
        version=values.get("version"),
        at=reader.mark(keys),
    )


def check_names(graphs: Mapping[str, ServedGraph], workflows: Mapping[str, Any], reader: Reader) -> None:
    """Report names that are used by a graph and a workflow."""
    for name in graphs:
        if name in workflows:
            reader.add_problem(
                ("graphs", name), f"There is a [workflows.{name}] too.", "Give one of them another name."
            )


def _check_source(name: str, value: Mapping[str, Any], values: Mapping[str, Any], keys: Keys, reader: Reader) -> None:
    if "path" in value and "file" in value:
        reader.add_problem(keys, "It has both a path and a file.", "Keep one of them.")
    elif "path" not in value and "file" not in value:
        reader.add_problem(
            keys, "It has neither a path nor a file.", f'Write path = "module:graph", or file = "{name}.yaml".'
        )
    elif "file" in value and "version" in values:
        reader.add_problem((*keys, "version"), "The version of a file is computed from its content.", "Remove it.")


def _is_file(text: str) -> bool:
    return Path(text).suffix.lower() in _FILE


def _target(text: str, keys: Keys, reader: Reader) -> str:
    if _is_file(text) or not _TARGET.fullmatch(text):
        advice = "Write it under file." if _is_file(text) else "Write it as 'module:graph' or 'file.py:graph'."
        reader.add_problem(keys, f"{text!r} is not a reference to a graph in Python.", advice)
    return text


def _file(text: str, keys: Keys, reader: Reader) -> Path:
    if not _is_file(text):
        advice = "A graph of Python stands under path." if ".py" in text else "Give a file of YAML or JSON."
        reader.add_problem(keys, f"{text!r} does not end in .yaml, .yml or .json.", advice)
    return reader.path(text, keys, is_wanted=Path.is_file, noun="file")


# -- data sources and workflows

_DATASOURCE: Final = {"folder": TEXT, "glob": TEXT}
_WORKFLOW: Final = {"file": TEXT, "description": TEXT}


def read_datasource(name: str, value: Any, keys: Keys, reader: Reader) -> DataSource:
    """Read `[datasources.NAME]`: a folder of documents."""
    values = reader.read_table(value, keys, _DATASOURCE)
    if "folder" not in values and isinstance(value, dict) and "folder" not in value:
        reader.add_problem(keys, "It has no folder.", 'Write folder = "documents".')
    folder = reader.path(values.get("folder", "."), (*keys, "folder"), is_wanted=Path.is_dir, noun="folder")
    return DataSource(name, folder, values.get("glob", "**"))


def read_workflow(name: str, value: Any, keys: Keys, reader: Reader) -> ServedWorkflow:
    """Read `[workflows.NAME]`: a workflow that is served."""
    values = reader.read_table(value, keys, _WORKFLOW)
    if "file" not in values and isinstance(value, dict) and "file" not in value:
        reader.add_problem(keys, "It has no file.", f'Write file = "{name}.yaml".')
    file = reader.path(values.get("file", "."), (*keys, "file"), is_wanted=Path.exists, noun="file")
    return ServedWorkflow(name, file, values.get("description"))


# -- handlers

_HANDLERS: Final = {"modules": TEXTS}


def read_handlers(value: Any, reader: Reader) -> tuple[str, ...]:
    """Read `[handlers]`: modules with functions that steps may call."""
    modules: list[str] = reader.read_table(value, ("handlers",), _HANDLERS, strict=True).get("modules", [])
    for module in modules:
        if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
            advice = "Write it as Python imports it, such as 'outreach.handlers'."
            reader.add_problem(("handlers", "modules"), f"{module!r} is not a valid module name.", advice)
    return tuple(dict.fromkeys(modules))


# -- the server

_SERVE: Final = {
    "host": TEXT,
    "port": PORT,
    "database": TEXT,
    "cors_origins": TEXTS,
    "allowed_hosts": TEXTS,
    "max_body": COUNT,
    "capacity": COUNT,
    "durability": DURABILITY,
    "drain": DURATION,
    "retention_days": COUNT,
    "webhook_hosts": TEXTS,
    "metrics": METRICS_ACCESS,
    "metrics_host": TEXT,
    "metrics_port": PORT,
    "keep_alive": DURATION,
    "read_timeout": DURATION,
    "write_timeout": DURATION,
    "max_connections": COUNT,
    "max_streams": COUNT,
}
_LISTS: Final = ("cors_origins", "allowed_hosts", "webhook_hosts")


def read_serving(value: Any, reader: Reader) -> Serving:
    """Read `[serve]`."""
    values = reader.read_table(value, ("serve",), _SERVE, strict=True)
    if "database" in values:
        values["database"] = _database(values["database"], reader)
    for name in _LISTS:
        values[name] = tuple(values.get(name, ()))
    return Serving(**values)


def _database(name: str, reader: Reader) -> Any:
    if "\0" in name or not name:
        reader.add_problem(("serve", "database"), "It is not a valid path.", "Name a file, such as 'runs.db'.")
        return None
    try:
        return reader.folder / path_of(name)
    except InvalidConfig as error:
        problem, _, advice = str(error).partition(". ")
        reader.add_problem(("serve", "database"), f"{problem}.", advice)
        return None


# -- spending limits

OTHERS: Final = "*"
"""Stands for all workspaces that are not named."""
_LIMITS: Final = {"tokens_per_day": COUNT, "cost_per_day": AMOUNT, "requests_per_day": COUNT}
_SECTION: Final = "spending_limits"


def read_spending_limits(section: Any, reader: Reader) -> dict[str, Mapping[str, float]]:
    """Read `[spending_limits]`: daily limits by workspace. Values of the section itself are for all others."""
    values = reader.read_entries(section, (_SECTION,))
    tables = {name: cast("Any", value) for name, value in values.items() if isinstance(value, dict)}
    own = {name: value for name, value in values.items() if name not in tables}
    if own and OTHERS in tables:
        reader.add_problem(
            (_SECTION, OTHERS),
            "The section says itself what holds for all other workspaces.",
            "Put everything that does into one of the two places.",
        )
    by_workspace = {name: _limits(table, (_SECTION, name), reader) for name, table in tables.items()}
    if own:
        by_workspace[OTHERS] = reader.read_table(own, (_SECTION,), _LIMITS, strict=True)
    return {name: limits for name, limits in by_workspace.items() if limits}


def _limits(table: Any, keys: Keys, reader: Reader) -> Mapping[str, float]:
    if not table:
        reader.add_problem(keys, "It limits nothing.", f"Give it some of {', '.join(_LIMITS)}.")
    return reader.read_table(table, keys, _LIMITS, strict=True)

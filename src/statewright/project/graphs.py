"""`[graphs]`: what can be run durably, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from statewright.project.form import TEXT, kind_of
from statewright.project.lines import Keys
from statewright.project.model import ServedGraph
from statewright.project.reader import Reader

_GRAPH: Final = {
    "path": TEXT,
    "file": TEXT,
    "description": TEXT,
    "on_failure": TEXT,
    "version": TEXT,
}
_TARGET: Final = re.compile(r"(?:[^:]+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?::[^\W\d]\w*)?")
_FILE: Final = (".yaml", ".yml", ".json")


def read_graph(name: str, given: Any, keys: Keys, reader: Reader) -> ServedGraph:
    """A graph: a text that says where it is, or a table that says more."""
    at = {key: (*keys, key) for key in _GRAPH}
    if isinstance(given, str):
        given = {"file" if _is_file(given) else "path": given}
        at = dict.fromkeys(_GRAPH, keys)
    elif not isinstance(given, dict):
        reader.problem(keys, f"It must be a text or a table, and is {kind_of(given)}.", 'Write "module:graph".')
        return ServedGraph(name=name)
    values = reader.table(given, keys, _GRAPH, strict=True)
    _check_place(name, cast("dict[str, Any]", given), values, keys, reader)
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
    """Note names that two have."""
    for name in graphs:
        if name in workflows:
            reader.problem(("graphs", name), f"There is a [workflows.{name}] too.", "Give one of them another name.")


def _check_place(name: str, given: Mapping[str, Any], values: Mapping[str, Any], keys: Keys, reader: Reader) -> None:
    if "path" in given and "file" in given:
        reader.problem(keys, "It has both a path and a file.", "Keep one of them.")
    elif "path" not in given and "file" not in given:
        reader.problem(
            keys, "It has neither a path nor a file.", f'Write path = "module:graph", or file = "{name}.yaml".'
        )
    elif "file" in given and "version" in values:
        reader.problem((*keys, "version"), "A file has its version from its content.", "Leave it away.")


def _is_file(text: str) -> bool:
    return Path(text).suffix.lower() in _FILE


def _target(text: str, keys: Keys, reader: Reader) -> str:
    if _is_file(text) or not _TARGET.fullmatch(text):
        advice = "Write it under file." if _is_file(text) else "Write it as 'module:graph' or 'file.py:graph'."
        reader.problem(keys, f"{text!r} is no place of a graph in Python.", advice)
    return text


def _file(text: str, keys: Keys, reader: Reader) -> Path:
    if not _is_file(text):
        advice = "A graph of Python stands under path." if ".py" in text else "Give a file of YAML or JSON."
        reader.problem(keys, f"{text!r} does not end in .yaml, .yml or .json.", advice)
    return reader.path(text, keys, is_wanted=Path.is_file, noun="file")

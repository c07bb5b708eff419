"""Validation of the project file: typed values, and problems with the lines of their keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from statewright.errors import Problem, nearest
from statewright.workflow.states.language.yaml.nodes import Mark


class Reader:
    """Extracts values from the document and collects problems and warnings."""

    def __init__(self, text: str, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._lines = find_lines(text)

    def add_problem(self, keys: Keys, message: str, suggestion: str = "") -> None:
        self.problems.append(Problem(format_path(keys), *self.mark(keys), message, suggestion))

    def add_warning(self, keys: Keys, message: str, suggestion: str = "") -> None:
        self.warnings.append(Problem(format_path(keys), *self.mark(keys), message, suggestion))

    def line(self, keys: Keys) -> int:
        """Return the line of a key or of its nearest parent; 0 if unknown."""
        above = (keys[:count] for count in range(len(keys), 0, -1))
        return next((self._lines[path] for path in above if path in self._lines), 0)

    def mark(self, keys: Keys) -> Mark:
        return Mark(self.line(keys), 1 if self.line(keys) else 0)

    def read_table(
        self, table: Any, keys: Keys, forms: Mapping[str, ValueType], *, strict: bool = False
    ) -> dict[str, Any]:
        """Return the valid values of a table. An unknown key is a warning, or a problem if `strict`."""
        accepted: dict[str, Any] = {}
        note = self.add_problem if strict else self.add_warning
        for name, value in self.read_entries(table, keys).items():
            if name not in forms:
                note((*keys, name), f"The key {name!r} is not known.", suggest_key(name, forms))
            elif self.check_type(value, (*keys, name), forms[name]):
                accepted[name] = value
        return accepted

    def read_entries(self, table: Any, keys: Keys) -> dict[str, Any]:
        return cast("dict[str, Any]", table) if self.check_type(table, keys, TABLE) else {}

    def check_type(self, value: Any, keys: Keys, form: ValueType) -> bool:
        if form.accepts(value):
            return True
        # Sections that may contain secrets are never quoted, not even in part.
        quoted = "" if keys[0] in ("integrations", "mcp", "models") else f": {json.dumps(value, default=str)[:80]}"
        self.add_problem(keys, f"It must be {form.name}, and is {kind_of(value)}{quoted}.")
        return False

    def path(self, name: str, keys: Keys, *, is_wanted: Callable[[Path], bool], noun: str) -> Path:
        """Return a path relative to the file.

        A missing file is only a warning, because a command may not need it.
        """
        path = self.folder / name
        if "\0" in name:
            self.add_problem(keys, "It is not a valid path.")
        elif not is_wanted(path):
            self.add_warning(keys, f"There is no {noun} {name!r}.", "Its path is relative to this file.")
        return path


def suggest_key(name: str, names: Collection[str], *, listed: bool = True) -> str:
    """Return a hint for an unknown key: the nearest known key, and the list of keys."""
    guess = nearest(name[:60], names)
    return (f"Did you mean {guess!r}? " if guess else "") + (f"Keys: {', '.join(names)}." if listed else "")


# -- types of values


class ValueType(NamedTuple):
    """A type of values: its name in messages and its check."""

    name: str
    accepts: Callable[[Any], bool]


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[Any]", value))


def _is_concurrency(value: Any) -> bool:
    return _is_count(value) and value <= 100


def _is_duration(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_amount(value: Any) -> bool:
    return _is_number(value) and 0 < value < inf


def _is_port(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535


def _is_durability(value: Any) -> bool:
    return value in ("sync", "async")


def _is_metrics_access(value: Any) -> bool:
    return value in ("open", "keys", "off")


def _is_temperature(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 2


TEXT: Final = ValueType("a string", _of(str))
BOOLEAN: Final = ValueType("true or false", _of(bool))
COUNT: Final = ValueType("a whole number of at least 1", _is_count)
CONCURRENCY: Final = ValueType("a whole number from 1 to 100", _is_concurrency)
TEMPERATURE: Final = ValueType("a number from 0 to 2", _is_temperature)
AMOUNT: Final = ValueType("a number above 0", _is_amount)
DURATION: Final = ValueType("a number of seconds above 0", _is_duration)
PORT: Final = ValueType("a whole number from 0 to 65535", _is_port)
DURABILITY: Final = ValueType("'sync' or 'async'", _is_durability)
METRICS_ACCESS: Final = ValueType("'open', 'keys' or 'off'", _is_metrics_access)
TEXTS: Final = ValueType("a list of strings", _is_texts)
LIST: Final = ValueType("a list", _of(list))
TABLE: Final = ValueType("a table", _of(dict))


def kind_of(value: Any) -> str:
    """Return the name of the type of a TOML value."""
    kinds = {bool: "a boolean", str: "a string", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(cast("type[Any]", type(value)), "a date or time")


# -- lines of keys

Keys = tuple[str, ...]
"""Path of a value: the tables from the outermost, then the key."""
_HEADER: Final = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_ENTRY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_KEY: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def find_lines(text: str) -> dict[Keys, int]:
    """Find the line of each key with regular expressions, because the parser reports no positions."""
    lines: dict[Keys, int] = {}
    table: Keys = ()
    is_in_text = False
    for number, line in enumerate(text.splitlines(), 1):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if not is_in_text and header:
            table = _keys_in(header[1])
            lines.setdefault(table, number)
        elif not is_in_text and entry:
            keys = _keys_in(entry[1])
            for count in range(1, len(keys) + 1):
                lines.setdefault((*table, *keys[:count]), number)
        if (line.count('"""') + line.count("'''")) % 2:
            is_in_text = not is_in_text
    return lines


def _keys_in(text: str) -> Keys:
    return tuple(key.strip("\"'") for key in _KEY.findall(text))


def format_path(keys: Keys) -> str:
    """Return the path of a value in TOML notation."""
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in keys)

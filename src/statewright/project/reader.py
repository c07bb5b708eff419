"""Values taken out of the project file, and what is wrong with them noted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from statewright.errors import Problem, nearest
from statewright.workflow.states.model import Mark


class Reader:
    """Takes values out of the document, and notes what is wrong with them."""

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
        """Where a key stands, or what is nearest above it; 0 if that is nowhere."""
        above = (keys[:count] for count in range(len(keys), 0, -1))
        return next((self._lines[one] for one in above if one in self._lines), 0)

    def mark(self, keys: Keys) -> Mark:
        return Mark(self.line(keys), 1 if self.line(keys) else 0)

    def read_table(
        self, given: Any, keys: Keys, forms: Mapping[str, ValueType], *, strict: bool = False
    ) -> dict[str, Any]:
        """The values of a table that are what they must be. A key that is not known is odd; `strict`, it is wrong."""
        found: dict[str, Any] = {}
        note = self.add_problem if strict else self.add_warning
        for name, value in self.read_entries(given, keys).items():
            if name not in forms:
                note((*keys, name), f"The key {name!r} is not known.", suggest_key(name, forms))
            elif self.check_type(value, (*keys, name), forms[name]):
                found[name] = value
        return found

    def read_entries(self, given: Any, keys: Keys) -> dict[str, Any]:
        return cast("dict[str, Any]", given) if self.check_type(given, keys, TABLE) else {}

    def check_type(self, value: Any, keys: Keys, form: ValueType) -> bool:
        if form.accepts(value):
            return True
        # Where secrets may stand not even a part of a value is quoted.
        found = "" if keys[0] in ("integrations", "mcp", "models") else f": {json.dumps(value, default=str)[:80]}"
        self.add_problem(keys, f"It must be {form.name}, and is {kind_of(value)}{found}.")
        return False

    def path(self, name: str, keys: Keys, *, is_wanted: Callable[[Path], bool], noun: str) -> Path:
        """A path that counts from the file.

        That nothing is there is odd, and no problem of those who do not need it.
        """
        place = self.folder / name
        if "\0" in name:
            self.add_problem(keys, "It is no path.")
        elif not is_wanted(place):
            self.add_warning(keys, f"There is no {noun} {name!r}.", "Its path is relative to this file.")
        return place


def suggest_key(name: str, known: Collection[str], *, listed: bool = True) -> str:
    """A sentence or two that help to find what a key should have been."""
    guess = nearest(name[:60], known)
    return (f"Did you mean {guess!r}? " if guess else "") + (f"Keys: {', '.join(known)}." if listed else "")


# -- What values of the project file must be.


class ValueType(NamedTuple):
    """What a value must be."""

    name: str
    accepts: Callable[[Any], bool]


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value))


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


TEXT: Final = ValueType("a text", _of(str))
BOOLEAN: Final = ValueType("true or false", _of(bool))
COUNT: Final = ValueType("a whole number of at least 1", _is_count)
CONCURRENCY: Final = ValueType("a whole number from 1 to 100", _is_concurrency)
TEMPERATURE: Final = ValueType("a number from 0 to 2", _is_temperature)
AMOUNT: Final = ValueType("a number above 0", _is_amount)
DURATION: Final = ValueType("a number of seconds above 0", _is_duration)
PORT: Final = ValueType("a whole number from 0 to 65535", _is_port)
DURABILITY: Final = ValueType("'sync' or 'async'", _is_durability)
METRICS_ACCESS: Final = ValueType("'open', 'keys' or 'off'", _is_metrics_access)
TEXTS: Final = ValueType("a list of texts", _is_texts)
LIST: Final = ValueType("a list", _of(list))
TABLE: Final = ValueType("a table", _of(dict))


def kind_of(value: Any) -> str:
    """What a value of TOML is called."""
    kinds = {bool: "a boolean", str: "a text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(cast("type[Any]", type(value)), "a date or time")


# -- Where things stand in the project file, as far as a look at its text tells, and how they are named.

Keys = tuple[str, ...]
"""The way to a value: tables from the outermost, then the key."""
_HEADER: Final = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_ENTRY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_KEY: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def find_lines(text: str) -> dict[Keys, int]:
    """The line of each key, as far as a look at the text tells. The parser does not say where it found what."""
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


def _keys_in(written: str) -> Keys:
    return tuple(one.strip("\"'") for one in _KEY.findall(written))


def format_path(keys: Keys) -> str:
    """A way to a value as TOML writes it."""
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in keys)

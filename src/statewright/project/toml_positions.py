"""Lines of the keys of a TOML file, and paths in its notation.

Neither tomllib nor tomlkit reports positions. A statement of TOML, which is a header or a key with its value, is valid
on its own and begins a line, so the parser itself finds where each of them ends and which keys it has.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final, cast

Keys = tuple[str | int, ...]
"""Path of a value: the tables from the outermost, then the key."""
_END_OF_TEXT: Final = re.compile(r"""\"""|'''|^\s*\]""")
_END_OF_LIST: Final = re.compile(r"[\]}]\s*(#.*)?$")
"""The last line of a statement of several lines matches one of these. Others are not parsed, which would be slow."""


def find_lines(text: str) -> dict[Keys, int]:
    """Return the line of each table and key. The document must be valid TOML."""
    lines: dict[Keys, int] = {}
    table: Keys = ()
    first, statement = 1, ""
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            first = number
        is_in_text = statement.count('"""') % 2 or statement.count("'''") % 2
        if statement and not (_END_OF_TEXT if is_in_text else _END_OF_LIST).search(line):
            statement += f"{line}\n"
            continue
        statement += f"{line}\n"
        try:
            paths = list(_paths(tomllib.loads(statement)))
        except tomllib.TOMLDecodeError:  # it continues on the next line
            continue
        if statement.lstrip().startswith("["):
            table = paths[-1]
            lines.setdefault(table, first)
        else:
            for path in paths:
                lines.setdefault((*table, *path), first)
        statement = ""
    return lines


def _paths(values: dict[str, Any], above: Keys = ()) -> Iterator[Keys]:
    for key, value in values.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from _paths(cast("dict[str, Any]", value), (*above, key))


def format_path(keys: Keys) -> str:
    """Return the path of a value in TOML notation."""
    parts = map(str, keys)
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in parts)

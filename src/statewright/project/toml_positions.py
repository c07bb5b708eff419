"""The lines on which the tables and keys of a TOML file are defined, and paths in TOML notation.

Neither tomllib nor tomlkit reports positions. But each TOML statement (a table header, or a key with its value) begins
on a new line, and is a valid document by itself. So lines are collected until tomllib accepts them: these lines are one
statement, and the parsed document contains the keys that it defines.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final, cast

from statewright.text import toml_key

Keys = tuple[str | int, ...]
"""The path of a value: the names of its tables, from the outermost to the innermost, and then its key."""

# The last line of a multi-line statement matches one of these. The parser is not tried after other lines, because
# parsing a long statement again after each of its lines would take quadratic time. Quotes are only counted, so that a
# comment with three quotes looks like the start of a string. Therefore a closing bracket may also end a string.
_END_OF_STRING: Final = re.compile(r"""\"""|'''|^\s*\]""")
_END_OF_LIST: Final = re.compile(r"[\]}]\s*(#.*)?$")


def find_lines(text: str) -> dict[Keys, int]:
    """Return the line of each table and key. The document must be valid TOML."""
    lines: dict[Keys, int] = {}
    table: Keys = ()
    first_line, statement = 1, ""
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            first_line = number
        is_in_string = statement.count('"""') % 2 or statement.count("'''") % 2
        may_end = not statement or (_END_OF_STRING if is_in_string else _END_OF_LIST).search(line)
        statement += f"{line}\n"
        if not may_end:
            continue
        try:
            paths = list(_iter_paths(tomllib.loads(statement)))
        except tomllib.TOMLDecodeError:  # the statement continues on the next line
            continue
        if statement.lstrip().startswith("["):
            table = paths[-1]  # `[a.b]` alone is parsed as nested tables, the innermost of which is last
            lines.setdefault(table, first_line)
        else:
            for path in paths:
                lines.setdefault((*table, *path), first_line)
        statement = ""
    return lines


def _iter_paths(values: dict[str, Any], parents: Keys = ()) -> Iterator[Keys]:
    for key, value in values.items():
        yield (*parents, key)
        if isinstance(value, dict):
            yield from _iter_paths(cast("dict[str, Any]", value), (*parents, key))


def format_path(keys: Keys) -> str:
    """Return the path of a value in TOML notation."""
    return ".".join(toml_key(str(key)) for key in keys)

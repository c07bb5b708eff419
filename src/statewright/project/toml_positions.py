"""Lines of the keys of a TOML file, and paths in its notation.

Neither tomllib nor tomlkit reports positions. But a statement of TOML, that is a header or a key with its value, begins
a line and is a valid document on its own. So lines are added until the parser accepts them: this is where the statement
ends, and the parsed document has its keys.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final, cast

from statewright.text import toml_key

Keys = tuple[str | int, ...]
"""Path of a value: the tables from the outermost, then the key."""
_END_OF_TEXT: Final = re.compile(r"""\"""|'''|^\s*\]""")
_END_OF_LIST: Final = re.compile(r"[\]}]\s*(#.*)?$")
"""The last line of a statement of several lines matches one of these. The parser is not tried on other lines, since
parsing a long statement once for each of its lines would take quadratic time."""


def find_lines(text: str) -> dict[Keys, int]:
    """Return the line of each table and key. The document must be valid TOML."""
    lines: dict[Keys, int] = {}
    table: Keys = ()
    first_line, statement = 1, ""
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            first_line = number
        is_in_text = statement.count('"""') % 2 or statement.count("'''") % 2
        if statement and not (_END_OF_TEXT if is_in_text else _END_OF_LIST).search(line):
            statement += f"{line}\n"
            continue
        statement += f"{line}\n"
        try:
            paths = list(_iter_paths(tomllib.loads(statement)))
        except tomllib.TOMLDecodeError:  # it continues on the next line
            continue
        if statement.lstrip().startswith("["):
            table = paths[-1]
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

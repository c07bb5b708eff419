"""Lines of the keys of a TOML file, and paths in its notation. Parsers of TOML report no positions."""

from __future__ import annotations

import json
import re
from typing import Final

Keys = tuple[str | int, ...]
"""Path of a value: the tables from the outermost, then the key."""
_HEADER: Final = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_ENTRY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_KEY: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def find_lines(text: str) -> dict[Keys, int]:
    """Return the line of each key that begins a line. The document must be valid TOML."""
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
    parts = map(str, keys)
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in parts)

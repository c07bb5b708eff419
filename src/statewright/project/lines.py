"""Where things stand in the project file, as far as a look at its text tells, and how they are named."""

from __future__ import annotations

import json
import re
from typing import Final

Keys = tuple[str, ...]
"""The way to a value: tables from the outermost, then the key."""
_HEADER: Final = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_ENTRY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_KEY: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def lines_of(text: str) -> dict[Keys, int]:
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


def written_path(keys: Keys) -> str:
    """A way to a value as TOML writes it."""
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in keys)

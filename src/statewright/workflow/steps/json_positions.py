"""The positions of values in a text in JSON, for the problems of a definition. The json module reports none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from statewright.data.problems import DocumentPath, format_json_path

Position = tuple[int, int]
"""A line and a column, from 1."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def find_positions(text: str) -> dict[str, Position]:
    """Return the position of each value by its path, such as `steps[0].name`; that of a member is that of its key.

    The text must be valid JSON.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    positions: dict[str, Position] = {}
    line = 0
    tokens = _TOKEN.finditer(text)
    for path, start in _iter_values(next(tokens), tokens, ()):  # in the order of the text
        while line + 1 < len(starts) and starts[line + 1] <= start:
            line += 1
        positions.setdefault(format_json_path(path), (line + 1, start - starts[line] + 1))
    return positions


def _iter_values(
    first: re.Match[str], tokens: Iterator[re.Match[str]], path: DocumentPath
) -> Iterator[tuple[DocumentPath, int]]:
    """Yield the paths and the offsets of a value, which begins with the token `first`, and of what it contains."""
    yield path, first.start()
    index = 0
    for token in tokens if first[0] in "[{" else ():
        if token[0] in "]}":
            return
        if token[0] == ",":
            index += 1
        elif first[0] == "[":
            yield from _iter_values(token, tokens, (*path, index))
        else:
            inner = (*path, json.loads(token[0]))
            yield inner, token.start()
            next(tokens)  # the colon
            yield from _iter_values(next(tokens), tokens, inner)

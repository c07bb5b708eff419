"""Finds the lines of a file on which the lines of a YAML text are written.

In quoted, plain and folded texts several lines of the file become one line of the text, and blank lines become line
ends. The answer is checked against the text, so an unusual notation gives no answer rather than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_LINE_END: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_ESCAPE: Final = re.compile(r"\\(.)")


def split_lines(source: str) -> list[str]:
    """Split a file as YAML counts its lines."""
    return _LINE_END.split(source)


def line_numbers(text: str, written: Sequence[str], first: int, style: str | None) -> tuple[int, ...]:
    """Return the line of the file for each line of a text: where the first of its words stands.

    `written` are the lines of the file from the one numbered `first` on, without what is not part of the text. Returns
    an empty tuple if they cannot be told.
    """
    numbers = _folded(written, first) if style == ">" else _flowing(written, first, has_escapes=style == '"')
    return tuple(numbers) if len(numbers) == text.rstrip("\n").count("\n") + 1 else ()


def _flowing(written: Sequence[str], first: int, *, has_escapes: bool) -> list[int]:
    """A quoted or plain text: a line end is a space, and each blank line is a line end."""
    numbers: list[int] = [first]
    blank = 0
    for number, line in enumerate(written, first):
        if number > first and not line.strip(" \t"):
            blank += 1
            continue
        line_ends = [code for code in _ESCAPE.findall(line) if code == "n"] if has_escapes else []
        numbers += [number] * (blank + len(line_ends))
        blank = 0
    return numbers


def _folded(written: Sequence[str], first: int) -> list[int]:
    """A block that begins with `>`: as above, but line ends around lines with more indentation are kept."""
    body = [(number, line) for number, line in enumerate(written, first) if number > first]
    indent = min((len(line) - len(line.lstrip(" ")) for _, line in body if line.strip()), default=0)
    numbers: list[int] = []
    blank = 0
    was_indented = False
    for number, line in body:
        if not line.strip():
            blank += 1
            continue
        is_indented = line[indent : indent + 1] in (" ", "\t")
        keeps_end = not numbers or is_indented or was_indented
        numbers += [number] * (blank + keeps_end)
        blank, was_indented = 0, is_indented
    return numbers

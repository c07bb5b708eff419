"""Text that may hold sequences for terminals: made fit to be kept, and fit to be printed."""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-?]*+[ -/]*+[@-~]"  # colours, movements
    r"|\x1b\][^\x07\x1b]*+(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[PX^_][^\x1b]*+(?:\x1b\\)?"
    r"|\x1b[ -/]*+[0-~]"
)
_C1_SEQUENCE: Final = re.compile(r"\x9b[0-?]*+[ -/]*+[@-~]?|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c]*+(?:[\x07\x9c]|\x1b\\)?")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that make a terminal show text in another order than it has."""


def plain(text: str) -> str:
    """The text in lines, without control characters and sequences; of a line written over, what was last."""
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = "\n".join(last_written(line) for line in text.replace("\r\n", "\n").split("\n"))
    text = _CONTROL.sub("", text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """Return the text without anything that commands a terminal; lines and tabs stay.

    Unlike `plain`, nothing is left out because it would be written over: what is printed is all that is there.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _C1_SEQUENCE.sub("", _SEQUENCE.sub("", text))
    return _UNPRINTABLE.sub("", text).encode("utf-8", "replace").decode()


def last_written(line: str) -> str:
    """What a terminal shows of a line that was begun again by carriage returns."""
    return next((part for part in reversed(line.split("\r")) if part), "")


def cut(line: str, most: int) -> str:
    """The line, without its middle if it is too long: a beginning says what it is, an end what came of it."""
    if len(line) <= most:
        return line
    told = f" ...({len(line) - most} characters left out)... "
    tail = most // 4
    return f"{line[: most - tail]}{told}{line[len(line) - tail :]}"

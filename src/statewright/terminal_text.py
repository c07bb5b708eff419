"""Text that a program wrote for a terminal: removal of control sequences, and shortening of long lines."""

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
"""Control characters, and characters that change the direction of text."""


def without_control_characters(text: str) -> str:
    """Return text without control characters, except line breaks and tabs.

    Of a line that carriage returns overwrite, only the last version is kept.
    """
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = "\n".join(last_written(line) for line in text.replace("\r\n", "\n").split("\n"))
    text = _CONTROL.sub("", text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """Return text without control characters, except line breaks and tabs.

    Unlike `without_control_characters`, this keeps text before a carriage return, which a terminal would overwrite.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _C1_SEQUENCE.sub("", _SEQUENCE.sub("", text))
    return _UNPRINTABLE.sub("", text).encode("utf-8", "replace").decode()


def last_written(line: str) -> str:
    """Return roughly what a terminal shows of a line with carriage returns: its last version that is not empty."""
    return next((part for part in reversed(line.split("\r")) if part), "")


def cut_middle(line: str, max_length: int) -> str:
    """Return a line of which at most `max_length` characters are kept, a quarter of them from the end.

    A note that says how many characters were left out replaces the middle.
    """
    if len(line) <= max_length:
        return line
    omission = f" ...({len(line) - max_length} characters left out)... "
    tail_length = max_length // 4
    return f"{line[: max_length - tail_length]}{omission}{line[len(line) - tail_length :]}"

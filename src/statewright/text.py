"""Text for messages, terminals and files: shortened, without control sequences, or as a key of TOML."""

from __future__ import annotations

import json
import re
from typing import Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
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


def shorten(text: str, longest: int) -> str:
    """Return a text, cut to at most `longest` characters, three dots included."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def toml_key(name: str) -> str:
    """Return a name as a key of TOML, quoted if necessary."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def short_repr(value: object, longest: int = 80) -> str:
    """Return the representation of a value, cut like `shorten`; of a value that has none, its type."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {type(value).__name__}"
    return shorten(text, longest)


def plain(text: str) -> str:
    """Return text without control characters. Of a line that was overwritten, the last version is kept."""
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = "\n".join(last_written(line) for line in text.replace("\r\n", "\n").split("\n"))
    text = _CONTROL.sub("", text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    """Return text without control characters except line breaks and tabs.

    Unlike `plain`, it keeps text that a terminal would overwrite, so that everything is printed.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _C1_SEQUENCE.sub("", _SEQUENCE.sub("", text))
    return _UNPRINTABLE.sub("", text).encode("utf-8", "replace").decode()


def last_written(line: str) -> str:
    """Return the last version of a line with carriage returns, as a terminal shows it."""
    return next((part for part in reversed(line.split("\r")) if part), "")


def cut(line: str, most: int) -> str:
    """Shorten a line by removing part of its middle. Of `most` characters, a quarter are from the end."""
    if len(line) <= most:
        return line
    omission = f" ...({len(line) - most} characters left out)... "
    tail = most // 4
    return f"{line[: most - tail]}{omission}{line[len(line) - tail :]}"

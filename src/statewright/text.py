"""Formatting of text for messages and files: shortening, and quoting of keys."""

from __future__ import annotations

import json
import re
from typing import Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def shorten(text: str, max_length: int) -> str:
    """Return text that is cut to at most `max_length` characters, including the three dots that replace its end."""
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def toml_key(name: str) -> str:
    """Return a name as a TOML key, quoted if necessary."""
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def short_repr(value: object, max_length: int = 80) -> str:
    """Return the shortened `repr` of a value, or its type if `repr` fails."""
    try:
        text = repr(value)
    except Exception:  # a user's __repr__ may raise anything
        return f"a value of type {type(value).__name__}"
    return shorten(text, max_length)


_ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def ascii_lower(text: str) -> str:
    """Return a text with its ASCII letters in lower case, as databases compare texts that ignore case."""
    return text.translate(_ASCII_LOWER)

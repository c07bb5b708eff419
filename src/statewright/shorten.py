"""Shortening of values for messages."""

from __future__ import annotations


def shorten(text: str, longest: int) -> str:
    """Return a text, cut to at most `longest` characters, three dots included."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def short_repr(value: object, longest: int = 80) -> str:
    """Return the representation of a value, cut like `shorten`; of a value that has none, its type."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {type(value).__name__}"
    return shorten(text, longest)

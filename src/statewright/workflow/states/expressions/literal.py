"""A parser of Python literals for untrusted text of any length, in linear time.

Models often answer with the representation of a Python value instead of JSON. `ast.literal_eval` would read it, but it
needs much memory for long text, issues warnings about escapes, and cannot stop at the end of a value that is followed
by prose.

Accepted are numbers, strings, None, True, False, lists, tuples (which become lists) and maps (whose keys become
strings). Sets, bytes and complex numbers are not JSON values and are rejected.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Final

DEPTH_LIMIT: Final = 100
"""Maximum nesting of lists and maps."""
DIGIT_LIMIT: Final = 1000
"""Maximum digits of an integer; Python needs quadratic time to parse them."""

_SPACE: Final = re.compile(r"(?:\s|#[^\n]*\n)*+")
# Possessive throughout: a million digits and a letter are rejected without backtracking.
_DIGITS: Final = r"\d++(?:_\d++)*+"
_NUMBER: Final = re.compile(
    r"[+-]?+(?:0[xX][0-9a-fA-F]++|0[oO][0-7]++|0[bB][01]++"
    rf"|(?:{_DIGITS})?+\.?+(?:{_DIGITS})?+(?:[eE][+-]?+\d++)?+)(?![\w.])",
    re.ASCII,
)
_WORD: Final = re.compile(r"(?:None|True|False|null|true|false)\b")
_WORDS: Final = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}
_STRING: Final = re.compile(
    r"(?P<raw>[rR]?)[uU]?(?:"
    r"'''(?P<a>(?:[^\\']|\\.|'(?!''))*+)'''"
    r'|"""(?P<b>(?:[^\\"]|\\.|"(?!""))*+)"""'
    r"|'(?P<c>(?:[^\\'\n]|\\.)*+)'"
    r'|"(?P<d>(?:[^\\"\n]|\\.)*+)")',
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:\r\n|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_ESCAPES: Final = {
    "\n": "",
    "\r\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


class InvalidLiteral(ValueError):
    """The text is not a Python literal of a JSON type; `position` is that of the error."""

    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(f"no value at character {position + 1}")


def read_literal(text: str) -> Any:
    """Parse a whole text. Raises InvalidLiteral."""
    source = text.strip()
    value, end = read_literal_at(source, 0)
    if end < len(source):
        raise InvalidLiteral(end)
    return value


def read_literal_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the value at `start`, and return it with its end. Raises InvalidLiteral."""
    return _read_value(text, start, 0)


def key_to_string(key: object) -> str:
    """Return the key of a map as JSON writes it."""
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    return str(key).lower() if isinstance(key, bool) else str(key)


def _read_value(text: str, at: int, depth: int) -> tuple[Any, int]:
    character = text[at : at + 1]
    if character in _CLOSING:
        if depth >= DEPTH_LIMIT:
            raise InvalidLiteral(at)
        return _read_container(text, at, depth + 1)
    if character and character in "'\"rRuU":
        return _read_strings(text, at)
    word = _WORD.match(text, at)
    return (_WORDS[word[0]], word.end()) if word else _read_number(text, at)


def _read_container(text: str, at: int, depth: int) -> tuple[Any, int]:
    """Parse the list, tuple or map whose opening bracket is at `at`."""
    opening = text[at]
    items: list[Any] = []
    entries: dict[str, Any] = {}
    at = _skip_space(text, at + 1)
    has_comma = True
    while text[at : at + 1] != _CLOSING[opening]:
        if not has_comma:
            raise InvalidLiteral(at)
        item, at = _read_value(text, at, depth)
        if opening == "{":
            at = _skip_space(text, at)
            if isinstance(item, list | dict) or text[at : at + 1] != ":":
                raise InvalidLiteral(at)
            entries[key_to_string(item)], at = _read_value(text, _skip_space(text, at + 1), depth)
        else:
            items.append(item)
        at = _skip_space(text, at)
        has_comma = text[at : at + 1] == ","
        if has_comma:
            at = _skip_space(text, at + 1)
    if opening == "{":
        return entries, at + 1
    # One value in parentheses without a comma is that value, and not a tuple.
    is_parenthesized = opening == "(" and len(items) == 1 and not has_comma
    return (items[0] if is_parenthesized else items), at + 1


def _skip_space(text: str, at: int) -> int:
    """Return the position after spaces and comments."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _read_strings(text: str, at: int) -> tuple[str, int]:
    """Parse one string, or several adjacent ones, which are concatenated."""
    parts: list[str] = []
    match = _STRING.match(text, at)
    if match is None:
        raise InvalidLiteral(at)
    while match is not None:
        at = match.end()
        inner = match["a"] or match["b"] or match["c"] or match["d"] or ""
        parts.append(inner if match["raw"] or "\\" not in inner else _ESCAPE.sub(_unescape, inner))
        match = _STRING.match(text, _skip_space(text, at))
    return "".join(parts), at


def _unescape(match: re.Match[str]) -> str:
    code = match[0][1:]
    if code in _ESCAPES:
        return _ESCAPES[code]
    if code[0] in "xuU" and len(code) > 1:
        point = int(code[1:], 16)
        return chr(point) if point <= 0x10FFFF else match[0]
    return chr(int(code, 8)) if code[0] in "01234567" else match[0]


def _read_number(text: str, at: int) -> tuple[int | float, int]:
    match = _NUMBER.match(text, at)
    digits = match[0] if match else ""
    if match is None or len(digits) > DIGIT_LIMIT or not any(character.isdigit() for character in digits):
        raise InvalidLiteral(at)
    is_integer = digits.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") or set(".eE").isdisjoint(digits)
    try:
        # Base 0 accepts the syntax of Python source: no leading zeros.
        value = int(digits, 0) if is_integer else float(digits)
    except ValueError:
        raise InvalidLiteral(at) from None
    # Only floats are tested: `isfinite` would overflow for an integer of 400 digits.
    if isinstance(value, float) and not isfinite(value):
        raise InvalidLiteral(at)
    return value, match.end()

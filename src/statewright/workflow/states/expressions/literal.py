"""A parser of Python literals for untrusted text of any length, in linear time.

It accepts numbers, texts, None, True, False, lists, tuples (which become lists) and maps (whose keys become text).
Sets, bytes and complex numbers are not JSON values and are rejected.
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
_TEXT: Final = re.compile(
    r"(?P<raw>[rR]?)[uU]?(?:"
    r"'''(?P<a>(?:[^\\']|\\.|'(?!''))*+)'''"
    r'|"""(?P<b>(?:[^\\"]|\\.|"(?!""))*+)"""'
    r"|'(?P<c>(?:[^\\'\n]|\\.)*+)'"
    r'|"(?P<d>(?:[^\\"\n]|\\.)*+)")',
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:\r\n|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
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
    """The text is not a Python literal of a JSON type; `at` is the position of the error."""

    def __init__(self, at: int) -> None:
        self.at = at
        super().__init__(f"no value at character {at + 1}")


def read_literal(text: str) -> Any:
    """Parse a whole text. Raises InvalidLiteral."""
    source = text.strip()
    value, end = read_literal_at(source, 0)
    if end < len(source):
        raise InvalidLiteral(end)
    return value


def read_literal_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the value at `start`, and return it with its end. Raises InvalidLiteral."""
    return _value(text, start, 0)


def _after_space(text: str, at: int) -> int:
    """Return the position after spaces and comments."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    sign = text[at : at + 1]
    if sign and sign in "[({":
        if depth >= DEPTH_LIMIT:
            raise InvalidLiteral(at)
        return _map(text, at + 1, depth + 1) if sign == "{" else _list(text, at + 1, depth + 1, sign)
    if sign and sign in "'\"rRuU":
        return _texts(text, at)
    word = _WORD.match(text, at)
    return (_WORDS[word[0]], word.end()) if word else _number(text, at)


def _list(text: str, at: int, depth: int, opened: str) -> tuple[Any, int]:
    closing = "]" if opened == "[" else ")"
    items: list[Any] = []
    at = _after_space(text, at)
    ended = False
    while text[at : at + 1] != closing:
        if ended:
            raise InvalidLiteral(at)
        value, at = _value(text, at, depth)
        items.append(value)
        at, ended = _after_item(text, at)
    # One value in parentheses, without a comma, is that value.
    single = opened == "(" and len(items) == 1 and ended
    if opened == "(" and not items and not ended:
        return [], at + 1
    return (items[0] if single else items), at + 1


def _after_item(text: str, at: int) -> tuple[int, bool]:
    """Return the start of the next item, and True if no comma follows, so that the list must end."""
    at = _after_space(text, at)
    if text[at : at + 1] == ",":
        return _after_space(text, at + 1), False
    return at, True


def _map(text: str, at: int, depth: int) -> tuple[Any, int]:
    entries: dict[str, Any] = {}
    at = _after_space(text, at)
    ended = False
    while text[at : at + 1] != "}":
        if ended:
            raise InvalidLiteral(at)
        key, at = _value(text, at, depth)
        at = _after_space(text, at)
        if isinstance(key, list | dict) or text[at : at + 1] != ":":
            raise InvalidLiteral(at)
        entries[key_text(key)], at = _value(text, _after_space(text, at + 1), depth)
        at, ended = _after_item(text, at)
    return entries, at + 1


def key_text(value: object) -> str:
    """Return a key as text, as JSON writes it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(text: str, at: int) -> tuple[str, int]:
    """Parse one text, or several adjacent ones, which are concatenated."""
    parts: list[str] = []
    match = _TEXT.match(text, at)
    if match is None:
        raise InvalidLiteral(at)
    while match is not None:
        at = match.end()
        inner = match["a"] or match["b"] or match["c"] or match["d"] or ""
        parts.append(inner if match["raw"] or "\\" not in inner else _ESCAPE.sub(_unescaped, inner))
        match = _TEXT.match(text, _after_space(text, at))
    return "".join(parts), at


def _unescaped(match: re.Match[str]) -> str:
    code = match[0][1:]
    if code in _ESCAPES:
        return _ESCAPES[code]
    if code[0] in "xuU" and len(code) > 1:
        point = int(code[1:], 16)
        return chr(point) if point <= 0x10FFFF else match[0]
    return chr(int(code, 8)) if code[0] in "01234567" else match[0]


def _number(text: str, at: int) -> tuple[int | float, int]:
    match = _NUMBER.match(text, at)
    digits = match[0] if match else ""
    if match is None or len(digits) > DIGIT_LIMIT or not any(character.isdigit() for character in digits):
        raise InvalidLiteral(at)
    try:
        # Base 0 accepts the syntax of Python source: no leading zeros.
        value = int(digits, 0) if _is_whole(digits) else float(digits)
    except ValueError:
        raise InvalidLiteral(at) from None
    # Only floats are tested: `isfinite` would overflow for an integer of 400 digits.
    if isinstance(value, float) and not isfinite(value):
        raise InvalidLiteral(at)
    return value, match.end()


def _is_whole(digits: str) -> bool:
    return digits.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") or not any(character in ".eE" for character in digits)

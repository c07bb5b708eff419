"""Reading values that are written as Python writes them, without Python: untrusted text of any length.

Numbers, texts, None, True, False, lists, tuples (which become lists) and maps (whose keys become texts). Sets, bytes
and complex numbers are no values of JSON and are refused. The reader looks at each character once.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Final

DEPTH_LIMIT: Final = 100
"""Lists and maps inside each other."""
DIGIT_LIMIT: Final = 1000
"""Digits of a whole number; Python needs quadratic time to read them."""

_SPACE: Final = re.compile(r"(?:\s|#[^\n]*\n)*+")
# Possessive throughout: a million digits and a letter are refused without a second look.
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


class NoLiteral(ValueError):
    """The text does not hold a value of Python, or none of JSON's kinds; `at` is the place where that shows."""

    def __init__(self, at: int) -> None:
        self.at = at
        super().__init__(f"no value at character {at + 1}")


def read_literal(text: str) -> Any:
    """The value that the whole text spells. Raises NoLiteral."""
    source = text.strip()
    value, end = read_literal_at(source, 0)
    if end < len(source):
        raise NoLiteral(end)
    return value


def read_literal_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start`, and where it ends. Raises NoLiteral."""
    return _value(text, start, 0)


def _after_space(text: str, at: int) -> int:
    """Past spaces and comments, which may stand between the parts of lists and maps."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    sign = text[at : at + 1]
    if sign and sign in "[({":
        if depth >= DEPTH_LIMIT:
            raise NoLiteral(at)
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
            raise NoLiteral(at)
        value, at = _value(text, at, depth)
        items.append(value)
        at, ended = _after_item(text, at)
    # One value in parentheses, without a comma, is that value.
    single = opened == "(" and len(items) == 1 and ended
    if opened == "(" and not items and not ended:
        return [], at + 1
    return (items[0] if single else items), at + 1


def _after_item(text: str, at: int) -> tuple[int, bool]:
    """Where the next item begins, and whether there can be none because no comma follows."""
    at = _after_space(text, at)
    if text[at : at + 1] == ",":
        return _after_space(text, at + 1), False
    return at, True


def _map(text: str, at: int, depth: int) -> tuple[Any, int]:
    found: dict[str, Any] = {}
    at = _after_space(text, at)
    ended = False
    while text[at : at + 1] != "}":
        if ended:
            raise NoLiteral(at)
        key, at = _value(text, at, depth)
        at = _after_space(text, at)
        if isinstance(key, list | dict) or text[at : at + 1] != ":":
            raise NoLiteral(at)
        found[key_text(key)], at = _value(text, _after_space(text, at + 1), depth)
        at, ended = _after_item(text, at)
    return found, at + 1


def key_text(value: object) -> str:
    """A key as JSON writes it: always a text."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(text: str, at: int) -> tuple[str, int]:
    """One text, or several after each other, which are one."""
    parts: list[str] = []
    found = _TEXT.match(text, at)
    if found is None:
        raise NoLiteral(at)
    while found is not None:
        at = found.end()
        inner = found["a"] or found["b"] or found["c"] or found["d"] or ""
        parts.append(inner if found["raw"] or "\\" not in inner else _ESCAPE.sub(_unescaped, inner))
        found = _TEXT.match(text, _after_space(text, at))
    return "".join(parts), at


def _unescaped(found: re.Match[str]) -> str:
    code = found[0][1:]
    if code in _ESCAPES:
        return _ESCAPES[code]
    if code[0] in "xuU" and len(code) > 1:
        point = int(code[1:], 16)
        return chr(point) if point <= 0x10FFFF else found[0]
    return chr(int(code, 8)) if code[0] in "01234567" else found[0]


def _number(text: str, at: int) -> tuple[int | float, int]:
    found = _NUMBER.match(text, at)
    digits = found[0] if found else ""
    if found is None or len(digits) > DIGIT_LIMIT or not any(one.isdigit() for one in digits):
        raise NoLiteral(at)
    try:
        # Base 0 reads what Python's own source allows: no zeros before a number.
        value = int(digits, 0) if _is_whole(digits) else float(digits)
    except ValueError:
        raise NoLiteral(at) from None
    # Whole numbers have no limit here, and one of 400 digits is too large to be asked.
    if isinstance(value, float) and not isfinite(value):
        raise NoLiteral(at)
    return value, found.end()


def _is_whole(digits: str) -> bool:
    return digits.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") or not any(one in ".eE" for one in digits)

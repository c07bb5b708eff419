"""A parser of Python literals for untrusted text of any length, in linear time.

Models often answer with a Python literal instead of JSON. `ast.literal_eval` would read it, but needs a lot of memory
for long texts, issues warnings about escapes, and cannot stop at the end of a value that is followed by prose.

Accepted are numbers, strings, None, True, False, lists, tuples (which become lists) and maps (whose keys become
strings). Sets, bytes and complex numbers are rejected, because they are not JSON values.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Final

DEPTH_LIMIT: Final = 100
"""Maximum nesting of lists and maps."""
DIGIT_LIMIT: Final = 1000
"""Maximum digits of an integer. Python needs quadratic time to parse an integer."""
CONSTANTS: Final = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}
"""The constants of Python and JSON."""

_SPACE: Final = re.compile(r"(?:\s|#[^\n]*\n)*+")
# All repetitions are possessive, so that a million digits and a letter are rejected without backtracking.
_DIGITS: Final = r"\d++(?:_\d++)*+"
_NUMBER: Final = re.compile(
    r"[+-]?+(?:0[xX][0-9a-fA-F]++|0[oO][0-7]++|0[bB][01]++"
    rf"|(?:{_DIGITS})?+\.?+(?:{_DIGITS})?+(?:[eE][+-]?+\d++)?+)(?![\w.])",
    re.ASCII,
)
_CONSTANT: Final = re.compile(rf"(?:{'|'.join(CONSTANTS)})\b")
_STRING: Final = re.compile(
    r"(?P<raw>[rR]?)[uU]?(?:"
    r"'''(?P<a>(?:[^\\']|\\.|'(?!''))*+)'''"
    r'|"""(?P<b>(?:[^\\"]|\\.|"(?!""))*+)"""'
    r"|'(?P<c>(?:[^\\'\n]|\\.)*+)'"
    r'|"(?P<d>(?:[^\\"\n]|\\.)*+)")',
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:\r\n|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_CLOSING_BRACKETS: Final = {"(": ")", "[": "]", "{": "}"}
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
    """The text is not a Python literal of a JSON type."""

    def __init__(self, position: int) -> None:
        self.position = position
        """The index of the first character that is wrong."""
        super().__init__(f"no value at character {position + 1}")


def read_literal(text: str) -> Any:
    """Parse text that consists of one literal. Raises InvalidLiteral."""
    source = text.strip()
    value, end = read_literal_at(source, 0)
    if end < len(source):
        raise InvalidLiteral(end)
    return value


def read_literal_at(text: str, start: int) -> tuple[Any, int]:
    """Parse the literal at `start`, and return its value and its end. Raises InvalidLiteral."""
    return _read_value(text, start, 0)


def key_to_string(key: object) -> str:
    """Return the key of a map as JSON writes it."""
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    return str(key).lower() if isinstance(key, bool) else str(key)


def _read_value(text: str, pos: int, depth: int) -> tuple[Any, int]:
    character = text[pos : pos + 1]
    if character in _CLOSING_BRACKETS:
        if depth >= DEPTH_LIMIT:
            raise InvalidLiteral(pos)
        return _read_container(text, pos, depth + 1)
    if character and character in "'\"rRuU":
        return _read_strings(text, pos)
    constant = _CONSTANT.match(text, pos)
    return (CONSTANTS[constant[0]], constant.end()) if constant else _read_number(text, pos)


def _read_container(text: str, pos: int, depth: int) -> tuple[Any, int]:
    """Parse the list, tuple or map whose opening bracket is at `pos`."""
    opening = text[pos]
    items: list[Any] = []
    entries: dict[str, Any] = {}
    pos = _skip_space(text, pos + 1)
    has_comma = True
    while text[pos : pos + 1] != _CLOSING_BRACKETS[opening]:
        if not has_comma:
            raise InvalidLiteral(pos)
        item, pos = _read_value(text, pos, depth)
        if opening == "{":
            pos = _skip_space(text, pos)
            if isinstance(item, list | dict) or text[pos : pos + 1] != ":":
                raise InvalidLiteral(pos)
            entries[key_to_string(item)], pos = _read_value(text, _skip_space(text, pos + 1), depth)
        else:
            items.append(item)
        pos = _skip_space(text, pos)
        has_comma = text[pos : pos + 1] == ","
        if has_comma:
            pos = _skip_space(text, pos + 1)
    if opening == "{":
        return entries, pos + 1
    # Parentheses around one value without a comma only group, and do not make a tuple.
    is_parenthesized = opening == "(" and len(items) == 1 and not has_comma
    return (items[0] if is_parenthesized else items), pos + 1


def _skip_space(text: str, pos: int) -> int:
    """Return the position after whitespace and comments."""
    match = _SPACE.match(text, pos)
    return match.end() if match else pos


def _read_strings(text: str, pos: int) -> tuple[str, int]:
    """Parse a string, or several adjacent strings, which are concatenated."""
    parts: list[str] = []
    match = _STRING.match(text, pos)
    if match is None:
        raise InvalidLiteral(pos)
    while match is not None:
        pos = match.end()
        content = match["a"] or match["b"] or match["c"] or match["d"] or ""
        parts.append(content if match["raw"] or "\\" not in content else _ESCAPE.sub(_unescape, content))
        match = _STRING.match(text, _skip_space(text, pos))
    return "".join(parts), pos


def _unescape(match: re.Match[str]) -> str:
    code = match[0][1:]
    if code in _ESCAPES:
        return _ESCAPES[code]
    if code[0] in "xuU" and len(code) > 1:
        point = int(code[1:], 16)
        return chr(point) if point <= 0x10FFFF else match[0]
    return chr(int(code, 8)) if code[0] in "01234567" else match[0]


def _read_number(text: str, pos: int) -> tuple[int | float, int]:
    match = _NUMBER.match(text, pos)
    digits = match[0] if match else ""
    if match is None or len(digits) > DIGIT_LIMIT or not any(character.isdigit() for character in digits):
        raise InvalidLiteral(pos)
    is_integer = digits.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") or set(".eE").isdisjoint(digits)
    try:
        # Base 0 accepts the integers of Python source, which have no leading zeros.
        value = int(digits, 0) if is_integer else float(digits)
    except ValueError:
        raise InvalidLiteral(pos) from None
    # Only for floats, because `isfinite` overflows for an integer of 400 digits.
    if isinstance(value, float) and not isfinite(value):
        raise InvalidLiteral(pos)
    return value, match.end()

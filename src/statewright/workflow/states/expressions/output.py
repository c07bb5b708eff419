"""Parsing of the output of a state: text as models write it, read as a JSON value.

Candidates are tried in this order: the whole text as JSON, then as a Python literal; the first block fenced as json
that holds a value; the first map or list of maps within prose, then the first list of texts. Otherwise the text is the
value.

Prose contains brackets that mean nothing: `[1]`, `[a link](url)`, `items["key"]`, `f()` and `{}`. So within prose an
empty map or list is ignored, and a list counts only if all its items are maps, texts or such lists, and if it does not
read as an index or a link. No piece is taken from a broken map: the value of a truncated answer is its text.

The result can always be stored and written as JSON. NaN and infinity become None, as in JavaScript. Nothing here
raises, and hostile text takes no longer than other text of its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from math import isfinite
from typing import Any, Final, cast

from statewright.workflow.states.expressions.literal import DEPTH_LIMIT, DIGIT_LIMIT, InvalidLiteral, read_literal_at

SIZE_LIMIT: Final = 2_000_000
"""Maximum characters; a longer text is its own value."""
LITERAL_LIMIT: Final = 200_000
"""Maximum characters of a Python literal; JSON is parsed much faster."""
ATTEMPTS: Final = 64
"""Maximum blocks and brackets that are tried before the text is taken for prose."""

_BEGINS_VALUE: Final = frozenset("{[(\"'0123456789-+.")
_WORDS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_FENCES: Final = (("```", re.compile(r"```[ \t]*json\b\s*", re.I)), ("~~~", re.compile(r"~~~[ \t]*json\b\s*", re.I)))
_OPENS_VALUE: Final = re.compile(r"""\{\s*["']|(?<![\w)\]])\[\s*(?:\{\s*["']|["'\[])""")
_OPENS_MAP: Final = re.compile(r"""\[?\s*\{\s*(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')\s*:""", re.DOTALL)
_IN_VALUE: Final = re.compile(r"""\\.|"(?:[^"\\]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'(?=\s*[:,\]}])|[\[\]{}]""", re.DOTALL)
"""Tokens in the search for a closing bracket. Escapes are tokens of their own, so no quote is visited twice."""
_LINKS: Final = ("(", "[", ":")
"""Characters after a bracket that make it a link or an index."""
_NO_VALUE: Final = object()


class ParsedOutput:
    """An output with its value, which is parsed once, on first use.

    Conditions, the context, items and checks of the answer all need the value, and an output can be long.
    """

    __slots__ = ("_result", "output")

    def __init__(self, output: Any) -> None:
        self.output = output

    @property
    def result(self) -> Any:
        """The value. Shared, so it must not be modified."""
        try:
            return self._result
        except AttributeError:
            self._result: Any = parse_output(self.output)
            return self._result


def parse_output(output: Any) -> Any:
    """Return the value of an output; text is parsed."""
    return parse_result(output) if isinstance(output, str) else output


def parse_json_text(value: Any) -> Any:
    """Parse a text that holds a JSON map or list; return other values unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    parsed = parse_result(value)
    return cast("Any", parsed) if isinstance(parsed, dict | list) else value


def parse_result(text: str) -> Any:
    """Return the value of a state's output: a JSON value, and in doubt the text itself."""
    source = text.strip()
    if not source or len(text) > SIZE_LIMIT:
        return text
    if source in _WORDS:
        return _WORDS[source]
    try:
        value = _parsed(source)
    except (RecursionError, MemoryError):
        return text
    return text if value is _NO_VALUE else _storable(value, source)


def _parsed(source: str) -> Any:
    value: Any = _NO_VALUE
    if source[0] in _BEGINS_VALUE:
        value = _whole(source)
    if value is _NO_VALUE and ("```" in source or "~~~" in source):
        value = _fenced(source)
    if value is _NO_VALUE and ("{" in source or "[" in source):
        value = _in_prose(source)
    return value


def _whole(source: str) -> Any:
    for read in (_json_at, _literal_at):
        value, end = read(source, 0)
        # None stands for a number that is too large, or the word Infinity: text is better than nothing.
        if end == len(source) and value is not None:
            return value
    return _NO_VALUE


def _value_at(source: str, start: int) -> tuple[Any, int]:
    """Return the value at `start` and its end; or no value, and the position of the error."""
    value, end = _json_at(source, start)
    return (value, end) if value is not _NO_VALUE else _literal_at(source, start)


def _json_at(source: str, start: int) -> tuple[Any, int]:
    try:
        value, end = _JSON.raw_decode(source, start)
    except (ValueError, RecursionError):
        return _NO_VALUE, start
    return (value, end) if _is_shallow(value, source) else (_NO_VALUE, start)


def _literal_at(source: str, start: int) -> tuple[Any, int]:
    try:
        value, length = read_literal_at(source[start : start + LITERAL_LIMIT], 0)
    except InvalidLiteral as error:
        return _NO_VALUE, start + error.at
    return value, start + length


def _is_shallow(value: Any, source: str) -> bool:
    if source.count("[") + source.count("{") <= DEPTH_LIMIT:
        return True
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [part for container in level for part in _parts(container)]
    return not level


def _parts(value: Any) -> list[Any]:
    """Return the maps and lists directly within a value."""
    if isinstance(value, dict):
        value = list(cast(dict[str, Any], value).values())
    inner = cast(list[Any], value) if isinstance(value, list) else []
    return [part for part in inner if isinstance(part, list | dict)]


def _fenced(source: str) -> Any:
    for fence, opening in _FENCES:
        if fence not in source:
            continue
        for match in islice(opening.finditer(source), ATTEMPTS):
            value, _ = _value_at(source, match.end())
            if value is not _NO_VALUE:
                return value
    return _NO_VALUE


def _in_prose(source: str) -> Any:
    """Return the first map or list with maps, else the first list of texts."""
    list_of_texts: Any = _NO_VALUE
    for value in _values_in_prose(source):
        if isinstance(value, dict) or any(isinstance(item, dict) for item in value):
            return cast(Any, value)
        if list_of_texts is _NO_VALUE:
            list_of_texts = value
    return list_of_texts


def _values_in_prose(source: str) -> Iterator[Any]:
    at = work = 0
    for _ in range(ATTEMPTS):
        match = _OPENS_VALUE.search(source, at)
        if match is None or work > 2 * len(source):
            return
        value, end = _value_at(source, match.start())
        if value is _NO_VALUE:
            after = _after_brackets(source, match.start())
            work += max(after, end) - match.start()
            at = after if _OPENS_MAP.match(source, match.start()) else match.start() + 1
        else:
            at = end
            if _counts(value) and not (isinstance(value, list) and source[end : end + 1] in _LINKS):
                yield value


def _counts(value: Any) -> bool:
    """Return whether a map or list is unlikely to be part of a sentence."""
    if not isinstance(value, list):
        return bool(value)
    items = cast(list[Any], value)
    return bool(items) and all(
        isinstance(item, str) or (isinstance(item, list | dict) and _counts(item)) for item in items
    )


def _after_brackets(source: str, start: int) -> int:
    """Return the position after the bracket that closes the one at `start`, or the end of the text."""
    depth = 0
    for match in _IN_VALUE.finditer(source, start):
        token = match[0]
        depth += (token in "{[") - (token in "}]")
        if depth == 0:
            return match.end()
    return len(source)


def _storable(value: Any, source: str) -> Any:
    """Replace halves of surrogate pairs, which JSON can spell and UTF-8 cannot encode."""
    if "\\" not in source or not isinstance(value, str | list | dict):
        return value
    spelled = json.dumps(value, ensure_ascii=False)
    try:
        spelled.encode()
    except UnicodeEncodeError:
        return json.loads(spelled.encode(errors="replace"))
    return cast(Any, value)


def _integer(digits: str) -> int:
    if len(digits) > DIGIT_LIMIT:
        raise ValueError("too many digits")
    return int(digits)


def _real(digits: str) -> float | None:
    value = float(digits)
    return value if isfinite(value) else None


_JSON: Final = json.JSONDecoder(parse_int=_integer, parse_float=_real, parse_constant=lambda word: None)

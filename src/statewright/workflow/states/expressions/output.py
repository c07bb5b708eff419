"""Parsing of the output of a state: text as models write it, read as a JSON value.

Candidates are tried in this order: the whole text as JSON, then as a Python literal; the first block fenced as json
that holds a value; the first map or list of maps within prose, then the first list of strings. Otherwise the text is
the value.

Prose contains brackets that mean nothing: `[1]`, `[a link](url)`, `items["key"]`, `f()` and `{}`. So within prose an
empty map or list is ignored, and a list counts only if all its items are maps, strings or such lists, and if it does
not read as an index or a link. No piece is taken from a broken map: the value of a truncated answer is its text.

The result can always be stored and written as JSON. NaN and infinity become None, as in JavaScript. Nothing here
raises, and hostile text takes no longer than other text of its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import Any, Final, cast

from statewright.workflow.states.expressions.literal import DEPTH_LIMIT, DIGIT_LIMIT, InvalidLiteral, read_literal_at

SIZE_LIMIT: Final = 2_000_000
"""Maximum characters; a longer text is its own value."""
LITERAL_LIMIT: Final = 200_000
"""Maximum characters of a Python literal; JSON is parsed much faster."""
ATTEMPT_LIMIT: Final = 64
"""Maximum blocks and brackets that are tried before the text itself is the value."""

_VALUE_STARTS: Final = frozenset("{[(\"'0123456789-+.")
_WORDS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_FENCES: Final = (("```", re.compile(r"```[ \t]*json\b\s*", re.I)), ("~~~", re.compile(r"~~~[ \t]*json\b\s*", re.I)))
_OPENS_VALUE: Final = re.compile(r"""\{\s*["']|(?<![\w)\]])\[\s*(?:\{\s*["']|["'\[])""")
_OPENS_MAP: Final = re.compile(r"""\[?\s*\{\s*(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')\s*:""", re.DOTALL)
_TOKEN: Final = re.compile(r"""\\.|"(?:[^"\\]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'(?=\s*[:,\]}])|[\[\]{}]""", re.DOTALL)
"""Tokens in the search for a closing bracket. Escapes are tokens of their own, so no quote is visited twice."""
_LINK_STARTS: Final = ("(", "[", ":")
"""Characters after a bracket that make it a link or an index."""
_NO_VALUE: Final = object()


class ParsedOutput:
    """An output with its value, which is parsed once, on first use.

    Conditions, the context, items and checks of the answer all need the value, and an output can be long.
    """

    def __init__(self, output: Any) -> None:
        self.output = output

    @cached_property
    def result(self) -> Any:
        """The value. Shared, so it must not be modified."""
        return parse_output(self.output)


def parse_output(output: Any) -> Any:
    """Return the value of an output; text is parsed."""
    return parse_result(output) if isinstance(output, str) else output


def parse_json_text(value: Any) -> Any:
    """Parse a string that holds a JSON map or list; return other values unchanged."""
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
        value = _parse(source)
    except (RecursionError, MemoryError):
        return text
    return text if value is _NO_VALUE else _replace_surrogates(value, source)


def _parse(source: str) -> Any:
    value: Any = _NO_VALUE
    if source[0] in _VALUE_STARTS:
        value = _parse_whole(source)
    if value is _NO_VALUE:
        value = _parse_fenced(source)
    if value is _NO_VALUE and ("{" in source or "[" in source):
        value = _find_in_prose(source)
    return value


def _parse_whole(source: str) -> Any:
    for read in (_read_json, _read_python):
        value, end = read(source, 0)
        # None replaces Infinity and numbers that are too large; the text says more.
        if end == len(source) and value is not None:
            return value
    return _NO_VALUE


def _read_value(source: str, start: int) -> tuple[Any, int]:
    """Return the value at `start` and its end; or no value, and the position of the error."""
    value, end = _read_json(source, start)
    return (value, end) if value is not _NO_VALUE else _read_python(source, start)


def _read_json(source: str, start: int) -> tuple[Any, int]:
    try:
        value, end = _JSON.raw_decode(source, start)
    except (ValueError, RecursionError):
        return _NO_VALUE, start
    return (value, end) if _is_shallow(value, source) else (_NO_VALUE, start)


def _read_python(source: str, start: int) -> tuple[Any, int]:
    try:
        value, length = read_literal_at(source[start : start + LITERAL_LIMIT], 0)
    except InvalidLiteral as error:
        return _NO_VALUE, start + error.position
    return value, start + length


def _is_shallow(value: Any, source: str) -> bool:
    if source.count("[") + source.count("{") <= DEPTH_LIMIT:
        return True
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [part for container in level for part in _inner_containers(container)]
    return not level


def _inner_containers(value: Any) -> list[Any]:
    """Return the maps and lists directly within a value."""
    if isinstance(value, dict):
        value = list(cast(dict[str, Any], value).values())
    members = cast(list[Any], value) if isinstance(value, list) else []
    return [part for part in members if isinstance(part, list | dict)]


def _parse_fenced(source: str) -> Any:
    for fence, opening in _FENCES:
        matches = opening.finditer(source) if fence in source else ()
        for match in islice(matches, ATTEMPT_LIMIT):
            value, _ = _read_value(source, match.end())
            if value is not _NO_VALUE:
                return value
    return _NO_VALUE


def _find_in_prose(source: str) -> Any:
    """Return the first map or list with maps, else the first list of strings."""
    list_of_strings: Any = _NO_VALUE
    for value in _iter_prose_values(source):
        if isinstance(value, dict) or any(isinstance(item, dict) for item in value):
            return cast(Any, value)
        if list_of_strings is _NO_VALUE:
            list_of_strings = value
    return list_of_strings


def _iter_prose_values(source: str) -> Iterator[Any]:
    at = work = 0
    for _ in range(ATTEMPT_LIMIT):
        match = _OPENS_VALUE.search(source, at)
        # After a failure the search continues inside the bracket, which alone would take quadratic time.
        if match is None or work > 2 * len(source):
            return
        value, end = _read_value(source, match.start())
        if value is _NO_VALUE:
            after = _find_closing(source, match.start())
            work += max(after, end) - match.start()
            at = after if _OPENS_MAP.match(source, match.start()) else match.start() + 1
        else:
            at = end
            if _is_substantial(value) and not (isinstance(value, list) and source[end : end + 1] in _LINK_STARTS):
                yield value


def _is_substantial(value: Any) -> bool:
    """Return True for a map or list that is unlikely to be part of a sentence."""
    if not isinstance(value, list):
        return bool(value)
    items = cast(list[Any], value)
    return bool(items) and all(
        isinstance(item, str) or (isinstance(item, list | dict) and _is_substantial(item)) for item in items
    )


def _find_closing(source: str, start: int) -> int:
    """Return the position after the bracket that closes the one at `start`, or the end of the text."""
    depth = 0
    for match in _TOKEN.finditer(source, start):
        token = match[0]
        depth += (token in "{[") - (token in "}]")
        if depth == 0:
            return match.end()
    return len(source)


def _replace_surrogates(value: Any, source: str) -> Any:
    """Replace halves of surrogate pairs, which JSON can spell and UTF-8 cannot encode."""
    if "\\" not in source or not isinstance(value, str | list | dict):
        return value
    spelled = json.dumps(value, ensure_ascii=False)
    try:
        spelled.encode()
    except UnicodeEncodeError:
        return json.loads(spelled.encode(errors="replace"))
    return cast(Any, value)


def _parse_int(digits: str) -> int:
    if len(digits) > DIGIT_LIMIT:
        raise ValueError("too many digits")
    return int(digits)


def _parse_float(digits: str) -> float | None:
    value = float(digits)
    return value if isfinite(value) else None


_JSON: Final = json.JSONDecoder(parse_int=_parse_int, parse_float=_parse_float, parse_constant=lambda word: None)

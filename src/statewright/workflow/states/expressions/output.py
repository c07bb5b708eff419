"""Parsing of the output of a state, which is text as models write it, to a JSON value.

The value is the first of these that exists: the whole text as JSON; the whole text as a Python literal; the first
fenced `json` block that contains a value; the first map or list of maps in prose; the first list of strings in prose;
the text itself.

Prose contains brackets that are not values: `[1]`, `[a link](url)`, `items["key"]`, `f()` and `{}`. So an empty map or
list in prose is ignored, and a list is used only if all of its items are maps, strings or lists of these, and if it
does not look like an index or a link. Parts of a broken map are not used either, so the value of a truncated answer is
its text.

The result can always be stored and written as JSON. NaN and infinity become None, as in JavaScript. The parsers raise
no errors, and hostile text takes no longer than other text of the same length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import Any, Final, cast

from statewright.workflow.states.expressions.literal import (
    CONSTANTS,
    DEPTH_LIMIT,
    DIGIT_LIMIT,
    InvalidLiteral,
    read_literal_at,
)

SIZE_LIMIT: Final = 2_000_000
"""Maximum characters of text that is parsed. The value of longer text is the text itself."""
LITERAL_LIMIT: Final = 200_000
"""Maximum characters of a Python literal, which takes much longer to parse than JSON."""
ATTEMPT_LIMIT: Final = 64
"""Maximum fenced blocks, and maximum brackets in prose, at which the parser looks for a value."""

_VALUE_STARTS: Final = frozenset("{[(\"'0123456789-+.")
"""A text that is a value as a whole begins with one of these characters."""
_FENCES: Final = (("```", re.compile(r"```[ \t]*json\b\s*", re.I)), ("~~~", re.compile(r"~~~[ \t]*json\b\s*", re.I)))
_VALUE_OPENING: Final = re.compile(r"""\{\s*["']|(?<![\w)\]])\[\s*(?:\{\s*["']|["'\[])""")
"""The beginning of a map with a key, or of a list of strings, maps or lists."""
_MAP_OPENING: Final = re.compile(r"""\[?\s*\{\s*(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')\s*:""", re.DOTALL)
"""The beginning of a map up to the colon after its first key, or of a list of such maps."""
_TOKEN: Final = re.compile(r"""\\.|"(?:[^"\\]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'(?=\s*[:,\]}])|[\[\]{}]""", re.DOTALL)
"""Tokens in the search for a closing bracket. Escapes are separate tokens, so no quote is visited twice."""
_LINK_STARTS: Final = ("(", "[", ":")
"""Characters after a closing bracket that make it part of a link or an index."""
_NO_VALUE: Final = object()
"""Returned by functions that find no value."""


class ParsedOutput:
    """An output with its value, which is parsed on first use.

    Conditions, the context, items and checks of answers all need the value, but it is parsed only once.
    """

    def __init__(self, output: Any) -> None:
        self.output = output

    @cached_property
    def result(self) -> Any:
        """The value, which is shared and must not be modified."""
        return parse_output(self.output)


def parse_output(output: Any) -> Any:
    """Return the value of an output; text is parsed."""
    return parse_text(output) if isinstance(output, str) else output


def parse_json_text(value: Any) -> Any:
    """Parse a string that holds a JSON map or list; return other values unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    parsed = parse_text(value)
    return cast("Any", parsed) if isinstance(parsed, dict | list) else value


def parse_text(text: str) -> Any:
    """Return the JSON value in text, or the text itself if it contains none."""
    source = text.strip()
    if not source or len(text) > SIZE_LIMIT:
        return text
    if source in CONSTANTS:
        return CONSTANTS[source]
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
        # The constant None was handled before. Here None stands for an infinite number, whose text says more.
        if end == len(source) and value is not None:
            return value
    return _NO_VALUE


def _read_value(source: str, start: int) -> tuple[Any, int]:
    """Return the value at `start` and its end, or `_NO_VALUE` and the position of the error."""
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
    """Return True for a value with at most `DEPTH_LIMIT` levels of nesting."""
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
    """Return the first map or list of maps, else the first list of strings."""
    list_of_strings: Any = _NO_VALUE
    for value in _iter_prose_values(source):
        if isinstance(value, dict) or any(isinstance(item, dict) for item in value):
            return cast(Any, value)
        if list_of_strings is _NO_VALUE:
            list_of_strings = value
    return list_of_strings


def _iter_prose_values(source: str) -> Iterator[Any]:
    """Yield the maps and lists in prose that are unlikely to be part of a sentence."""
    pos = work = 0
    for _ in range(ATTEMPT_LIMIT):
        match = _VALUE_OPENING.search(source, pos)
        # After a failure the search continues inside the brackets. The limit of work prevents quadratic time.
        if match is None or work > 2 * len(source):
            return
        value, end = _read_value(source, match.start())
        if value is _NO_VALUE:
            closing_end = _find_closing_end(source, match.start())
            work += max(closing_end, end) - match.start()
            # Parts of a broken map are skipped.
            pos = closing_end if _MAP_OPENING.match(source, match.start()) else match.start() + 1
        else:
            pos = end
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


def _find_closing_end(source: str, start: int) -> int:
    """Return the position after the bracket that closes the bracket at `start`; without one, the end of the text."""
    depth = 0
    for match in _TOKEN.finditer(source, start):
        token = match[0]
        depth += (token in "{[") - (token in "}]")
        if depth == 0:
            return match.end()
    return len(source)


def _replace_surrogates(value: Any, source: str) -> Any:
    """Replace lone surrogates, which JSON can contain as escapes, but which UTF-8 cannot encode."""
    if "\\" not in source or not isinstance(value, str | list | dict):
        return value
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode(errors="replace"))
    return cast(Any, value)


def _parse_int(digits: str) -> int:
    if len(digits) > DIGIT_LIMIT:
        raise ValueError("too many digits")
    return int(digits)


def _parse_float(digits: str) -> float | None:
    value = float(digits)
    return value if isfinite(value) else None


_JSON: Final = json.JSONDecoder(parse_int=_parse_int, parse_float=_parse_float, parse_constant=lambda word: None)

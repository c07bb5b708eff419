"""The filters of text. They accept any value, and use the text that a template would write for it.

Each filter takes the rendering, the filtered value and the arguments, whose names are those of Jinja.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import check_operand
from statewright.workflow.states.expressions.functions import METHODS, count_line_ends, count_spaces, list_pairs
from statewright.workflow.states.expressions.operators import describe_type
from statewright.workflow.states.templates.rendering import Rendering

Filter = Callable[..., Any]
_FORMAT: Final = re.compile(r"%(?:%|[-+ 0#]?\d{0,2}(?:\.\d{1,2})?[sdifeEgGxXo])")
"""The conversions of `format`, with widths and precisions of at most two digits."""
_NUMBER_SIZE: Final = 450
"""Maximum characters of a number that `format` writes."""
_WORD: Final = re.compile(r"\w+")
_TITLE_WORD: Final = re.compile(r"[^-\s({\[<]+")
_WRAP_STEPS: Final = 20
"""Steps that `wordwrap` is charged for each line of its input."""
_WORD_STEPS: Final = 5
"""Steps that `wordwrap` is charged for each word of its input."""
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"})
_ESCAPE_SIZE: Final = 5
"""Maximum characters that escaping adds for one character."""


def _make_text_filter(function: Callable[[str], str]) -> Filter:
    """Return a filter that applies a function to text. Its work must be proportional to the length of the text."""

    def call(rendering: Rendering, value: Any) -> str:
        return function(rendering.to_text(value))

    return call


def _replace(rendering: Rendering, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = (rendering.to_text(part) for part in (value, old, new))
    return METHODS[str]["replace"](rendering, text, old, new, -1 if count is None else count)


def _trim(rendering: Rendering, value: Any, chars: str | None = None) -> str:
    return METHODS[str]["strip"](rendering, rendering.to_text(value), chars)


def _center(rendering: Rendering, value: Any, width: int = 80) -> str:
    return METHODS[str]["center"](rendering, rendering.to_text(value), width)


def _indent(rendering: Rendering, value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Indent all lines except the first. As in Jinja, all kinds of line ends become newlines."""
    text = rendering.to_text(value)
    size = len(width) if isinstance(width, str) else max(width, 0)
    rendering.reserve(len(text) + (count_line_ends(text) + 1) * size)
    margin = width if isinstance(width, str) else " " * size
    head, *tail = METHODS[str]["splitlines"](rendering, text + "\n")
    indented = [margin + line if line or blank else line for line in tail]
    return "\n".join([margin + head if first else head, *indented])


def _title(rendering: Rendering, value: Any) -> str:
    """Capitalize words. As in Jinja, a word begins after whitespace, a dash or an opening bracket."""

    def capitalize(match: re.Match[str]) -> str:
        rendering.step()
        word = match[0]
        return word[0].upper() + word[1:].lower()

    return _TITLE_WORD.sub(capitalize, rendering.to_text(value))


def _truncate(
    rendering: Rendering,
    value: Any,
    length: int = 255,
    killwords: bool = False,
    end: str = "...",
    leeway: int | None = None,
) -> str:
    text = rendering.to_text(value)
    if length < len(end):
        raise ExpressionError(f"truncate needs a length of at least {len(end)}, the length of its end")
    if len(text) <= length + (5 if leeway is None else leeway):
        return text
    cut = text[: length - len(end)]
    rendering.reserve(len(cut) + len(end))
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + end


def _word_wrap(
    rendering: Rendering,
    value: Any,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str = "\n",
    break_on_hyphens: bool = True,
) -> str:
    import textwrap

    text = rendering.to_text(value)
    if width < 1:
        raise ExpressionError("wordwrap needs a width of at least 1")
    lines = METHODS[str]["splitlines"](rendering, text)
    breaks = count_spaces(text) + text.count("-")
    longest = max(map(len, text.split()), default=0)
    # For each line, textwrap copies the rest of a long word.
    rendering.spend(2 * len(text) + longest * longest // width)
    rendering.spend_steps(_WRAP_STEPS * len(lines) + _WORD_STEPS * (breaks + len(text) // width))
    rendering.reserve(len(text) + len(wrapstring) * (len(lines) + breaks + len(text) // width))
    wrapper = textwrap.TextWrapper(
        width=width,
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=break_long_words,
        break_on_hyphens=break_on_hyphens,
    )
    return wrapstring.join(wrapstring.join(wrapper.wrap(line)) for line in lines)


def _word_count(rendering: Rendering, value: Any) -> int:
    count = 0
    for _ in _WORD.finditer(rendering.to_text(value)):
        rendering.step()
        count += 1
    return count


def _format_text(rendering: Rendering, value: Any, *args: Any) -> str:
    """Replace conversions with arguments. `%s` writes a value as a template does; other conversions need numbers."""
    if not isinstance(value, str):
        raise ExpressionError(f"format needs a string, not {describe_type(value)}")
    rendering.spend(len(value))
    rendering.spend_steps(value.count("%"))
    if "%" in _FORMAT.sub("", value):
        raise ExpressionError("format supports only conversions such as %s, %d and %.2f")
    conversions = [conversion[-1] for conversion in _FORMAT.findall(value) if conversion != "%%"]
    if len(conversions) != len(args):
        raise ExpressionError(f"format has {len(conversions)} conversions, but {len(args)} arguments")
    values = [
        rendering.to_text(arg) if conversion == "s" else check_operand(arg)
        for conversion, arg in zip(conversions, args, strict=True)
    ]
    sizes = (max(len(arg), 99) if isinstance(arg, str) else _NUMBER_SIZE for arg in values)
    rendering.reserve(len(value) + sum(sizes))
    return value % tuple(values)


def _escape(rendering: Rendering, value: Any) -> str:
    text = rendering.to_text(value)
    rendering.reserve(len(text) + _ESCAPE_SIZE * sum(map(text.count, "&<>\"'")))
    return text.translate(_ESCAPES)


def _url_encode(rendering: Rendering, value: Any) -> str:
    """Percent-encode text for a URL. A map or a list of pairs becomes a query."""
    if isinstance(value, dict):
        return _encode_query(rendering, list_pairs(rendering, cast("dict[str, Any]", value)))
    if isinstance(value, list):
        return _encode_query(rendering, cast("list[Any]", value))
    return _quote(rendering, value, quote)


def _encode_query(rendering: Rendering, pairs: list[Any]) -> str:
    parts: list[str] = []
    for pair in pairs:
        rendering.step()
        if not isinstance(pair, list) or len(cast("list[Any]", pair)) != 2:
            raise ExpressionError("urlencode needs a string, a map or a list of pairs")
        key, value = cast("list[Any]", pair)
        parts.append(f"{_quote(rendering, key, quote_plus)}={_quote(rendering, value, quote_plus)}")
    text = "&".join(parts)
    rendering.reserve(len(text))
    return text


def _quote(rendering: Rendering, value: Any, function: Callable[[bytes], str]) -> str:
    data = rendering.to_text(value).encode()
    rendering.reserve(3 * len(data))
    return function(data)


TEXT_FILTERS: Final[dict[str, Filter]] = {
    "capitalize": _make_text_filter(str.capitalize),
    "center": _center,
    **dict.fromkeys(("e", "escape"), _escape),
    "format": _format_text,
    "indent": _indent,
    "lower": _make_text_filter(str.lower),
    "replace": _replace,
    "string": _make_text_filter(str),
    "title": _title,
    "trim": _trim,
    "truncate": _truncate,
    "upper": _make_text_filter(str.upper),
    "urlencode": _url_encode,
    "wordcount": _word_count,
    "wordwrap": _word_wrap,
}

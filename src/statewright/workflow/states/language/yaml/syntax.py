"""Translation of errors of the YAML parser to messages about the probable mistake and its correction.

The parser reports the position at which it cannot continue, which is often lines below the mistake. For example, it
notices an unclosed quote at the next quote, and a missing colon on the next line. Where possible, the position of the
mistake is reported instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from statewright.workflow.states.language.yaml.nodes import Mark, shorten
from statewright.workflow.states.language.yaml.text import UnreadableText, split_lines

_ADVICE: Final = (
    ("escape", "Double the backslash, or use single quotes, in which it is a literal character."),
    ("unexpected document", "Close the quote that was opened before."),
    ("expected key", "Correct the indentation, or put quotes around the text before."),
    ("expected node content", "Write a value here, or remove the comma or bracket before."),
    ("block entries", "Begin a list on a new line."),
    ("expected <document start>", "Correct the indentation: this line does not belong to the value before it."),
    ("tag", "Remove the tag, which begins with '!', or put quotes around the text."),
    ("directive", "Remove the line that begins with '%'."),
)
_ODD_SPACE: Final = re.compile("[ \t]*([\xa0\u1680\u2000-\u200b\u202f\u205f\u3000\ufeff])")
_CONFLICT: Final = ("<<<<<<<", "=======", ">>>>>>>")
_KEY_AND_TEXT: Final = re.compile(r"""\s*(?:- +)*(?P<key>[^\s"'{\[#:][^\s:]*):\s+(?P<text>\S.*)""")
_KEY_WITHOUT_SPACE: Final = re.compile(r"\s*(?:- +)*(?P<key>[A-Za-z_]\w*):(?P<text>[^\s:].*)")
_CURLY_QUOTES: Final = re.compile("[\u2018-\u201f]")


class QuotedText(NamedTuple):
    """Start and end of the last quoted text."""

    start: Mark
    end: Mark


class _Explanation(NamedTuple):
    at: Mark
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class _ParserError:
    """An error of the parser, with the text in which it occurred."""

    problem: str
    context: str
    at: Mark
    context_at: Mark
    """The start of the construct in which the parser failed: a quote, a bracket, a map, a key."""
    lines: list[str]
    last_quoted: QuotedText | None

    def line(self, number: int) -> str:
        return self.lines[number - 1]

    @property
    def rest_of_line(self) -> str:
        return self.line(self.at.line)[self.at.column - 1 :]


def explain_syntax_error(error: Exception, text: str, last_quoted: QuotedText | None = None) -> UnreadableText:
    """Return an error that describes the probable mistake. `last_quoted` is the last quoted text before the error."""
    lines = split_lines(text)
    at = _mark(getattr(error, "problem_mark", None) or getattr(error, "context_mark", None), lines)
    parser_error = _ParserError(
        problem=str(getattr(error, "problem", None) or "it cannot be read"),
        context=str(getattr(error, "context", None) or ""),
        at=at,
        context_at=_mark(getattr(error, "context_mark", None), lines, default=at),
        lines=lines,
        last_quoted=last_quoted,
    )
    explanations = filter(None, (detect(parser_error) for detect in _DETECTORS))
    explanation = next(explanations, None) or _describe_other(parser_error)
    return UnreadableText(explanation.at, f"This is not valid YAML: {explanation.message}.", explanation.advice)


def _mark(at: object, lines: list[str], default: Mark = Mark(1, 1)) -> Mark:  # noqa: B008
    """Convert a position of the parser, and limit it to the end of the text."""
    if at is None:
        return default
    line, column = getattr(at, "line", 0) + 1, getattr(at, "column", 0) + 1
    if line > len(lines):
        return Mark(len(lines), len(lines[-1]) + 1)
    return Mark(line, max(1, min(column, len(lines[line - 1]) + 1)))


def _describe_other(error: _ParserError) -> _Explanation:
    """Explain an error that no detector recognizes. The explanation is the message of the parser."""
    message = ", ".join(filter(None, (error.problem, error.context)))
    advice = next((advice for part, advice in _ADVICE if part in message), "Check the indentation and the quotes here.")
    return _Explanation(error.at, shorten(message, 300), advice)


# -- detectors of common mistakes, tried in the order of _DETECTORS


def _detect_odd_space(error: _ParserError) -> _Explanation | None:
    """Detect a character at the start of a line that looks like a space, such as a no-break space."""
    for number in range(max(1, error.at.line - 1), error.at.line + 1):
        match = _ODD_SPACE.match(error.line(number))
        if match is not None:
            message = f"the line begins with U+{ord(match[1]):04X}, which looks like a space but is not one"
            return _Explanation(Mark(number, match.start(1) + 1), message, "Indent with plain spaces.")
    return None


def _detect_tab(error: _ParserError) -> _Explanation | None:
    if not error.rest_of_line.startswith("\t") and "tab" not in error.problem:
        return None
    return _Explanation(error.at, "a tab is used for indentation", "Indent with spaces; YAML does not allow tabs here.")


def _detect_conflict(error: _ParserError) -> _Explanation | None:
    for number in range(error.context_at.line, error.at.line + 1):
        if error.line(number).startswith(_CONFLICT):
            advice = "Resolve the conflict, and remove the lines that begin with '<<<<<<<', '=======' and '>>>>>>>'."
            return _Explanation(Mark(number, 1), "this line is a merge conflict marker", advice)
    return None


def _detect_open_quote(error: _ParserError) -> _Explanation | None:
    """Detect a quote that is never closed, or that only the next opening quote closes."""
    if "quoted scalar" in error.context and "unexpected" in error.problem:
        return _Explanation(error.context_at, "the quote that opens here is never closed", "Close the quote.")
    quoted = error.last_quoted
    if quoted is None or quoted.end.line != error.at.line or quoted.end.column > error.at.column:
        return None
    between = error.line(quoted.end.line)[quoted.end.column - 1 : error.at.column - 1]
    if between.strip():
        return None
    if quoted.start.line == quoted.end.line:
        advice = "Put quotes around the whole text, or around none of it."
        if error.line(quoted.start.line)[quoted.start.column - 1 : quoted.start.column] == "'":
            advice += " Within single quotes an apostrophe is written twice."
        return _Explanation(error.at, "text follows the closing quote", advice)
    message = f"the quote that opens here is closed only on line {quoted.end.line}, by the next opening quote"
    return _Explanation(quoted.start, message, "Close the quote where its text ends.")


def _detect_missing_colon(error: _ParserError) -> _Explanation | None:
    """Detect a line in a map that is not a key with a value."""
    if "could not find expected ':'" not in error.problem:
        return None
    start = error.context_at
    line = error.line(start.line)[start.column - 1 :]
    match = _KEY_WITHOUT_SPACE.match(line)
    if match is not None:
        advice = f"Put a space after the colon: '{match['key']}: {shorten(match['text'], 40)}'."
        return _Explanation(start, "no space follows the colon", advice)
    message = f"{shorten(line.strip())!r} has no ': ', so it is not a key with a value"
    return _Explanation(start, message, "Put ': ' after the key, or indent the line if it belongs to the text before.")


def _detect_misplaced_colon(error: _ParserError) -> _Explanation | None:
    """Detect a colon within text that is not in quotes, or after a key that is indented too deep."""
    if "mapping values are not allowed" not in error.problem:
        return None
    line = error.line(error.at.line)
    match = _KEY_AND_TEXT.match(line)
    if match is not None and match.start("text") < error.at.column:
        if _CURLY_QUOTES.search(line):
            advice = "Write straight quotes, \" or ': YAML reads curly quotes as letters."
            return _Explanation(error.at, "the text contains ': ' and is not in quotes", advice)
        advice = f"Put quotes around the text after '{shorten(match['key'])}:', or remove the colon here."
        return _Explanation(error.at, "the text contains a ':' and is not in quotes", advice)
    before = error.line(error.at.line - 1) if error.at.line > 1 else ""
    if before.strip() and ":" not in before and not before.lstrip().startswith("#"):
        bare = before.lstrip(" -")
        message = f"{shorten(bare.strip())!r} has no ': ', so it is not a key with a value"
        advice = "Put ': ' after the key, or correct the indentation of the next line."
        return _Explanation(Mark(error.at.line - 1, len(before) - len(bare) + 1), message, advice)
    start = Mark(error.at.line, len(line) - len(line.lstrip()) + 1)
    message = "this key is indented deeper than the key before it, which has a value already"
    return _Explanation(start, message, "Correct the indentation: the keys of a map begin in the same column.")


def _detect_special_first_character(error: _ParserError) -> _Explanation | None:
    """Detect unquoted text that starts with a special character."""
    for start in (error.context_at, error.at):
        first = error.line(start.line)[start.column - 1 : start.column]
        construct = {"*": "alias", "&": "anchor"}.get(first)
        if construct is not None and construct in f"{error.problem} {error.context}":
            return _Explanation(
                start, f"{first!r} begins an {construct}", f"Put quotes around text that begins with {first!r}."
            )
    if "cannot start any token" not in error.problem or not error.rest_of_line:
        return None
    advice = "Put quotes around text that begins with '@', '`' or '%'."
    return _Explanation(error.at, f"text without quotes begins with {error.rest_of_line[0]!r}", advice)


def _detect_open_bracket(error: _ParserError) -> _Explanation | None:
    if "expected ',' or" not in error.problem:
        return None
    bracket = error.line(error.context_at.line)[error.context_at.column - 1 : error.context_at.column]
    if error.context_at.line < error.at.line or not error.rest_of_line.strip():
        advice = "Close the bracket, or put quotes around the text."
        return _Explanation(error.context_at, f"the {bracket!r} that opens here is not closed", advice)
    advice = "Separate with a comma, close the bracket that was opened before, or put quotes around the whole text."
    return _Explanation(error.at, f"after {bracket!r} a comma or the closing bracket is missing", advice)


def _detect_wrong_indentation(error: _ParserError) -> _Explanation | None:
    """Detect a line with the wrong indentation, or a list item among keys."""
    in_list = "block collection" in error.context or "expected '-' indicator" in error.problem
    at, context_at = error.at, error.context_at
    if in_list and "- -" in error.line(context_at.line)[: context_at.column]:
        return _Explanation(context_at, "two dashes precede one item", "Remove one '- '.")
    if not in_list and "block mapping" not in error.context:
        return None
    if error.line(at.line)[: at.column - 1].strip(" -"):
        advice = "Remove the text after the value, or put quotes around the whole text."
        return _Explanation(at, "something follows the end of the value on the same line", advice)
    if at.column != context_at.column:
        message = f"this line begins in column {at.column}, where none of the maps and lists around it begins"
        return _Explanation(at, message, "Correct the indentation, or put quotes around the text before.")
    if in_list:
        message = f"this line has no '- ', unlike the items of the list that began on line {context_at.line}"
        return _Explanation(
            at, message, "Put '- ' before it, or begin it in the column of the map to which it belongs."
        )
    if error.rest_of_line.startswith("- "):
        message = f"a list item is among the keys of the map that began on line {context_at.line}"
        return _Explanation(at, message, "Correct the indentation: the items of a list begin in the same column.")
    return None


_DETECTORS: Final[tuple[Callable[[_ParserError], _Explanation | None], ...]] = (
    _detect_odd_space,
    _detect_tab,
    _detect_conflict,
    _detect_open_quote,
    _detect_missing_colon,
    _detect_misplaced_colon,
    _detect_special_first_character,
    _detect_open_bracket,
    _detect_wrong_indentation,
)

"""What the parser of YAML complains of, as a sentence with what usually helps."""

from __future__ import annotations

from typing import Final

from statewright.workflow.states.document import shortened
from statewright.workflow.states.model import Mark
from statewright.workflow.states.raw_text import Refused, lines_of

_ADVICE: Final = (
    ("tab", "Indent with spaces; YAML does not allow tabs there."),
    ("mapping values are not allowed", "Put quotes around a text that holds ': ', or correct the indentation."),
    ("cannot start any token", "Put quotes around a text that begins with '@', '`' or '%'."),
    ("unexpected end of stream", "Close the quote that was opened before."),
    ("unexpected document", "Close the quote that was opened before."),
    ("escape", "Double the backslash, or use single quotes, in which it stands for itself."),
    ("expected key", "Correct the indentation, or put quotes around the text before."),
    ("expected ':'", "Put ': ' after the key, or quotes around the text before."),
    ("expected '-' indicator", "Let all items of the list begin in one column."),
    ("expected ',' or", "Separate with a comma, or close the bracket that was opened before."),
    ("expected node content", "Write a value here, or remove the comma or bracket before."),
    ("block entries", "Begin a list in a line of its own."),
    ("expected <document start>", "Correct the indentation: this line does not belong to what comes before it."),
    ("tag", "Remove what begins with '!', or put quotes around the text."),
    ("alias", "Put quotes around a text that begins with '*'."),
    ("anchor", "Put quotes around a text that begins with '&'."),
    ("directive", "Remove the line that begins with '%'."),
)


def syntax_refusal(error: Exception, text: str) -> Refused:
    """What the parser found, in a sentence, with what usually helps."""
    problem = str(getattr(error, "problem", None) or "it cannot be read")
    context = getattr(error, "context", None)
    said = shortened(f"{problem}, {context}" if context else problem, 300)
    at = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = Mark(at.line + 1, at.column + 1) if at is not None else Mark(1, 1)
    where = _inside(place, text)
    return Refused(where, f"This is not YAML: {said}.", _advice(said, _line(text, where)[where.column - 1 :]))


def _advice(said: str, rest: str) -> str:
    """What usually helps, given what was said and what stands at the place and after it."""
    sign = "tab" if rest.startswith("\t") else said
    return next((advice for part, advice in _ADVICE if part in sign), "Check the indentation and the quotes here.")


def _line(text: str, at: Mark) -> str:
    return lines_of(text)[at.line - 1]


def _inside(at: Mark, text: str) -> Mark:
    """The place, or the end of the text for one behind it."""
    lines = lines_of(text)
    line = min(at.line, len(lines))
    return Mark(line, max(1, min(at.column, len(lines[line - 1]) + 1)))

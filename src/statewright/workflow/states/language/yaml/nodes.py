"""Documents: the values of a YAML text with their positions.

The values are those of JSON: maps with text keys, lists, texts, numbers, booleans and null. `read` parses a text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from statewright.errors import Problem
from statewright.text import shorten as shorten_text

Scalar = str | int | float | bool | None
Path = tuple[str | int, ...]
"""The keys and indexes from the top of a document to a value."""


class Mark(NamedTuple):
    """A position in a file, counted from 1."""

    line: int
    column: int


NOWHERE: Final = Mark(0, 0)
"""The position of parts that are not written in a file."""


def problem_at(at: Mark, message: str, suggestion: str = "", *, path: Path = ()) -> Problem:
    """Return a problem at a position of a file."""
    return Problem(path_text(path), at.line, at.column, message, suggestion)


_PLAIN_WORD: Final = re.compile(r"[A-Za-z_][\w-]*\Z")


@dataclass(slots=True, eq=False)
class YamlNode:
    """A value with its position."""

    content: Scalar | list[YamlNode] | dict[str, YamlNode]
    at: Mark
    source: str = ""
    """For a scalar: its characters in the file, without quotes."""
    quoted: bool = False
    is_literal: bool = False
    """True for a literal block scalar (`|`), whose text begins on the line after `at`."""
    lines: tuple[int, ...] = ()
    """For other multi-line texts that may be templates: the line of the file for each line of the text."""
    key_marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    """For a map: the positions of its keys."""
    broken: bool = False
    """True if a problem was reported for it, so that its content must not cause another one."""
    weight: int = 1
    """The number of values in it, including itself; a long text counts as several."""
    height: int = 1
    """The height of the tree below, including itself."""

    def mark_of(self, line: int) -> Mark:
        """Return the position of a line of a text, counted from 1; the start of the text if it cannot be determined."""
        if self.is_literal:
            return Mark(self.at.line + line, 1)
        number = self.lines[line - 1] if 0 < line <= len(self.lines) else self.at.line
        return Mark(number, 1) if number != self.at.line else self.at

    def plain(self) -> Any:
        """Return a new copy of the value without positions."""
        if isinstance(self.content, dict):
            return {key: child.plain() for key, child in self.content.items()}
        if isinstance(self.content, list):
            return [child.plain() for child in self.content]
        return self.content


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file."""

    root: YamlNode | None
    """None if nothing could be parsed."""
    problems: tuple[Problem, ...]


def path_text(path: Path) -> str:
    """Format a path for messages: `states[2].next.condition`."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, str) and _PLAIN_WORD.match(step):
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{step}]" if isinstance(step, int) else f"[{shorten(step)!r}]")
    return "".join(parts)


def shorten(text: str, longest: int = 60) -> str:
    """Shorten a text for a message: one line, without control characters."""
    head = shorten_text(text, longest)
    return head if head.isprintable() else "".join(character if character.isprintable() else " " for character in head)


def json_word(value: object) -> str:
    """Format a value as JSON, for a message."""
    return json.dumps(value, ensure_ascii=False)

"""The values of YAML documents, with their positions.

The values are JSON values: maps with string keys, lists, strings, numbers, booleans and null. The module `read` parses
documents.
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
"""The position of objects that do not come from a file."""


def problem_at(at: Mark, message: str, suggestion: str = "", *, path: Path = ()) -> Problem:
    """Create a problem at a position of a file."""
    return Problem(format_path(path), at.line, at.column, message, suggestion)


_PLAIN_WORD: Final = re.compile(r"[A-Za-z_][\w-]*\Z")


@dataclass(slots=True, eq=False)
class YamlNode:
    """A value with its position."""

    content: Scalar | list[YamlNode] | dict[str, YamlNode]
    at: Mark
    source: str = ""
    """The characters of a scalar, without quotes."""
    quoted: bool = False
    """True for a scalar in quotes, and for a block scalar."""
    is_literal: bool = False
    """True for a literal block scalar (`|`), whose text begins on the line after `at`."""
    lines: tuple[int, ...] = ()
    """For other scalars that may be templates: the line of the file on which each line of the text begins. Empty if
    these cannot be determined."""
    key_marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    """The positions of the keys of a map."""
    broken: bool = False
    """True if a problem was reported for the value. Its content must not cause further problems."""
    weight: int = 1
    """The number of values in this value, including itself. A long string counts as several values."""
    height: int = 1
    """The number of levels of values, including this value itself."""

    def get_mark(self, line: int) -> Mark:
        """Return the position of a line of the text, counted from 1, or else the position of the whole text."""
        if self.is_literal:
            return Mark(self.at.line + line, 1)
        number = self.lines[line - 1] if 0 < line <= len(self.lines) else self.at.line
        return Mark(number, 1) if number != self.at.line else self.at

    def to_plain(self) -> Any:
        """Return the value without positions, as a new object."""
        if isinstance(self.content, dict):
            return {key: child.to_plain() for key, child in self.content.items()}
        if isinstance(self.content, list):
            return [child.to_plain() for child in self.content]
        return self.content


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file."""

    root: YamlNode | None
    """None if nothing could be parsed."""
    problems: tuple[Problem, ...]


def format_path(path: Path) -> str:
    """Format a path for messages: `states[2].next.condition`."""
    parts: list[str] = []
    for key in path:
        if isinstance(key, str) and _PLAIN_WORD.match(key):
            parts.append(f".{key}" if parts else key)
        else:
            parts.append(f"[{key}]" if isinstance(key, int) else f"[{shorten(key)!r}]")
    return "".join(parts)


def shorten(text: str, longest: int = 60) -> str:
    """Shorten text for a message, and replace line breaks and control characters with spaces."""
    return "".join(character if character.isprintable() else " " for character in shorten_text(text, longest))


def format_json(value: object) -> str:
    """Format a value as JSON, for a message."""
    return json.dumps(value, ensure_ascii=False)

"""A YAML text as plain values, each with the place where it is written.

What stands there is what JSON can say: maps with text as keys, lists, texts, numbers, booleans and null. `reader`
makes a document of a text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from statewright.errors import Problem
from statewright.workflow.states.language.model import NOWHERE, Mark
from statewright.workflow.states.language.yaml.scalars import Scalar

Path = tuple[str | int, ...]
"""The keys and positions that lead from the top of a document to a value."""

_PLAIN_WORD: Final = re.compile(r"[A-Za-z_][\w-]*\Z")


@dataclass(slots=True, eq=False)
class YamlNode:
    """A value and where it is written."""

    content: Scalar | list[YamlNode] | dict[str, YamlNode]
    at: Mark
    source: str = ""
    """Of a text or number: the characters that stand in the file, without quotes."""
    quoted: bool = False
    is_literal: bool = False
    """True for a literal block scalar (`|`), whose text begins on the line after `at`."""
    lines: tuple[int, ...] = ()
    """Of another text of several lines that may be a template: the line of the file for each of its lines."""
    key_marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    """Of a map: where its keys stand."""
    broken: bool = False
    """A problem was reported for it, so its content is a stand-in that needs no second one."""
    weight: int = 1
    height: int = 1
    """Of the tree below, itself included."""

    def mark_of(self, line: int) -> Mark:
        """Return the position of a line of a text, from 1; the start of the text if it is not known."""
        if self.is_literal:
            return Mark(self.at.line + line, 1)
        number = self.lines[line - 1] if 0 < line <= len(self.lines) else self.at.line
        return Mark(number, 1) if number != self.at.line else self.at

    def plain(self) -> Any:
        """The value without places. Every call builds a new one."""
        if isinstance(self.content, dict):
            return {key: child.plain() for key, child in self.content.items()}
        if isinstance(self.content, list):
            return [child.plain() for child in self.content]
        return self.content


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read."""

    root: YamlNode | None
    """None if there is nothing that could be looked at."""
    problems: tuple[Problem, ...]

    def find(self, path: Path) -> YamlNode | None:
        """The value at the end of a path, if there is one."""
        found = self.root
        for step in path:
            content = found.content if found is not None else None
            if isinstance(content, dict):
                found = content.get(str(step))
            elif isinstance(content, list) and isinstance(step, int) and 0 <= step < len(content):
                found = content[step]
            else:
                return None
        return found

    def mark(self, path: Path) -> Mark:
        """Where the value at the end of a path stands; NOWHERE if there is none."""
        found = self.find(path)
        return found.at if found is not None else NOWHERE

    def key_mark(self, path: Path) -> Mark:
        """Where the key at the end of a path stands; for an item of a list, where the item stands."""
        above = self.find(path[:-1]) if path else None
        mark = above.key_marks.get(str(path[-1])) if above is not None else None
        return mark or self.mark(path)


def path_text(path: Path) -> str:
    """A path as it is shown: `states[2].next.condition`."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, str) and _PLAIN_WORD.match(step):
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{step}]" if isinstance(step, int) else f"[{shortened(step)!r}]")
    return "".join(parts)


def shortened(text: str, longest: int = 60) -> str:
    """The beginning of a text as a message can show it: in one line, without what would steer a terminal."""
    head = text if len(text) <= longest else text[: longest - 3] + "..."
    return head if head.isprintable() else "".join(sign if sign.isprintable() else " " for sign in head)


def json_word(value: object) -> str:
    """A value as JSON says it, for a message."""
    return json.dumps(value, ensure_ascii=False)

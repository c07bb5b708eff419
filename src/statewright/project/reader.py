"""Values taken out of the project file, and what is wrong with them noted."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, cast

from statewright.errors import Problem, nearest
from statewright.project.form import TABLE, ValueType, kind_of
from statewright.project.lines import Keys, lines_of, written_path
from statewright.workflow.states.language.model import Mark


class Reader:
    """Takes values out of the document, and notes what is wrong with them."""

    def __init__(self, text: str, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._lines = lines_of(text)

    def problem(self, keys: Keys, message: str, suggestion: str = "") -> None:
        self.problems.append(Problem(written_path(keys), *self.mark(keys), message, suggestion))

    def warn(self, keys: Keys, message: str, suggestion: str = "") -> None:
        self.warnings.append(Problem(written_path(keys), *self.mark(keys), message, suggestion))

    def line(self, keys: Keys) -> int:
        """Where a key stands, or what is nearest above it; 0 if that is nowhere."""
        above = (keys[:count] for count in range(len(keys), 0, -1))
        return next((self._lines[one] for one in above if one in self._lines), 0)

    def mark(self, keys: Keys) -> Mark:
        return Mark(self.line(keys), 1 if self.line(keys) else 0)

    def table(self, given: Any, keys: Keys, forms: Mapping[str, ValueType], *, strict: bool = False) -> dict[str, Any]:
        """The values of a table that are what they must be. A key that is not known is odd; `strict`, it is wrong."""
        found: dict[str, Any] = {}
        note = self.problem if strict else self.warn
        for name, value in self.entries(given, keys).items():
            if name not in forms:
                note((*keys, name), f"The key {name!r} is not known.", hint(name, forms))
            elif self.fits(value, (*keys, name), forms[name]):
                found[name] = value
        return found

    def entries(self, given: Any, keys: Keys) -> dict[str, Any]:
        return cast("dict[str, Any]", given) if self.fits(given, keys, TABLE) else {}

    def fits(self, value: Any, keys: Keys, form: ValueType) -> bool:
        if form.fits(value):
            return True
        # Where secrets may stand not even a part of a value is quoted.
        found = "" if keys[0] in ("integrations", "mcp", "models") else f": {json.dumps(value, default=str)[:80]}"
        self.problem(keys, f"It must be {form.name}, and is {kind_of(value)}{found}.")
        return False

    def path(self, name: str, keys: Keys, *, is_wanted: Callable[[Path], bool], noun: str) -> Path:
        """A path that counts from the file.

        That nothing is there is odd, and no problem of those who do not need it.
        """
        place = self.folder / name
        if "\0" in name:
            self.problem(keys, "It is no path.")
        elif not is_wanted(place):
            self.warn(keys, f"There is no {noun} {name!r}.", "Its path is relative to this file.")
        return place


def hint(name: str, known: Collection[str], *, listed: bool = True) -> str:
    """A sentence or two that help to find what a key should have been."""
    guess = nearest(name[:60], known)
    return (f"Did you mean {guess!r}? " if guess else "") + (f"Keys: {', '.join(known)}." if listed else "")

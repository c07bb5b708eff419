"""What is found while a workflow is read, sorted into the phases in which the language checks it.

The order in which checks run is free: problems come out by phase, and within a phase in the order of the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from statewright.errors import Problem, nearest
from statewright.workflow.states.language.model import Mark
from statewright.workflow.states.language.yaml.nodes import Path, path_text, shortened

LONGEST_NAME: Final = 60
"""Characters; a longer name was not meant to be another one."""
MOST_COMPARISONS: Final = 5_000
"""Of names in one file, to find what was meant. A file that is full of wrong names gets no more guesses."""
_LISTED: Final = 20


class Phase(IntEnum):
    """What is checked, in this order."""

    SYNTAX = 1
    FORM = 2
    """Types, required keys, limits, keys that exclude each other."""
    REFERENCES = 3
    """Ids of assistants, tools, nodes and states."""
    RULES = 4
    """Expressions, temperatures, MCP servers, chains of iteration."""
    GRAPH = 5
    """How the states hang together."""


class _Finding(NamedTuple):
    phase: Phase
    at: Mark
    path: Path
    message: str
    suggestion: str


def _order(found: _Finding) -> tuple[Phase, Mark]:
    return found.phase, found.at


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")


class Diagnostics:
    """Problems and warnings, collected in any order."""

    def __init__(self) -> None:
        self._problems: list[_Finding] = []
        self._warnings: list[_Finding] = []
        self._labels: dict[Path, str] = {}
        self._comparisons_left = MOST_COMPARISONS

    def error(self, phase: Phase, path: Path, at: Mark, message: str, suggestion: str) -> None:
        """Note what keeps the workflow from running."""
        self._problems.append(_Finding(phase, at, path, message, suggestion))

    def warn(self, phase: Phase, path: Path, at: Mark, message: str, suggestion: str) -> None:
        """Note what is accepted, and probably not what was meant."""
        self._warnings.append(_Finding(phase, at, path, message, suggestion))

    def add_syntax(self, problems: Sequence[Problem]) -> None:
        """Note what was found when the text was read."""
        for found in problems:
            self._problems.append(
                _Finding(Phase.SYNTAX, Mark(found.line, found.column), (), found.message, found.suggestion)
            )

    def name(self, path: Path, label: str) -> None:
        """Call a part of the file by a label, such as `State 'draft'`, in all that is said about it."""
        self._labels[path] = label

    def near_miss(self, name: str, known: Collection[str]) -> str | None:
        """The known name that was probably meant, if it can be told in a moment."""
        if len(name) > LONGEST_NAME or len(known) > self._comparisons_left:
            return None
        self._comparisons_left -= len(known)
        same = next((one for one in known if _folded(one) == _folded(name)), None)
        return same or nearest(name, (one for one in known if len(one) <= LONGEST_NAME))

    def hint(self, name: str, known: Collection[str], *, noun: str) -> str:
        """A sentence or two that help to find what `name` should have been."""
        guess = self.near_miss(name, known)
        listed = ", ".join(shortened(one) for one in itertools.islice(known, _LISTED)) or "none"
        more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        return (f"Did you mean {guess!r}? " if guess else "") + f"{noun}: {listed}{more}."

    @property
    def has_problems(self) -> bool:
        return bool(self._problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(map(self._problem, sorted(self._problems, key=_order)))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(map(self._problem, sorted(self._warnings, key=_order)))

    def _problem(self, found: _Finding) -> Problem:
        above = (found.path[:length] for length in range(len(found.path), 0, -1))
        label = next((self._labels[path] for path in above if path in self._labels), "")
        said = found.message if label in found.message else f"{label}: {found.message}"
        return Problem(path_text(found.path), found.at.line, found.at.column, said, found.suggestion)

"""Problems of a workflow file, and warnings about it.

Checks may run in any order, because the results are sorted by phase, and within a phase by position in the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from statewright.errors import Problem, nearest
from statewright.workflow.states.language.yaml.nodes import Mark, Path, problem_at, shorten

MAX_NAME: Final = 60
"""The maximum length of a name for which a similar name is suggested."""
MAX_COMPARISONS: Final = 5_000
"""The maximum number of comparisons of names per file. After that, no similar names are suggested."""
_MAX_LISTED: Final = 20
"""The maximum number of names that a hint lists."""


class Phase(IntEnum):
    """The phases of the checks, in order."""

    SYNTAX = 1
    FORM = 2
    """Types, limits, required and mutually exclusive keys."""
    REFERENCES = 3
    """Ids of assistants, tools, nodes and states."""
    RULES = 4
    """Expressions, temperatures, MCP servers, chains of iteration."""
    GRAPH = 5
    """Reachability of states."""


class _Diagnostic(NamedTuple):
    phase: Phase
    at: Mark
    path: Path
    message: str
    suggestion: str


def _sort_key(entry: _Diagnostic) -> tuple[Phase, Mark]:
    return entry.phase, entry.at


def _normalize(name: str) -> str:
    return name.lower().replace("-", "_")


class Diagnostics:
    """The problems and warnings of one file."""

    def __init__(self) -> None:
        self._problems: list[_Diagnostic] = []
        self._warnings: list[_Diagnostic] = []
        self._labels: dict[Path, str] = {}
        self._comparisons_left = MAX_COMPARISONS

    def error(self, phase: Phase, path: Path, at: Mark, message: str, suggestion: str) -> None:
        """Report a problem that prevents the workflow from running."""
        self._problems.append(_Diagnostic(phase, at, path, message, suggestion))

    def warn(self, phase: Phase, path: Path, at: Mark, message: str, suggestion: str) -> None:
        """Report a part of the file that is accepted but probably a mistake."""
        self._warnings.append(_Diagnostic(phase, at, path, message, suggestion))

    def add_syntax(self, problems: Sequence[Problem]) -> None:
        """Add the problems of the YAML parser."""
        for problem in problems:
            self._problems.append(
                _Diagnostic(Phase.SYNTAX, Mark(problem.line, problem.column), (), problem.message, problem.suggestion)
            )

    def set_label(self, path: Path, label: str) -> None:
        """Set a label for a part of the file, such as `State 'draft'`, which is added to all messages about it."""
        self._labels[path] = label

    def find_similar_name(self, name: str, names: Collection[str]) -> str | None:
        """Return the name that was probably intended.

        Returns None if no name is similar, or if the search would take too long.
        """
        if len(name) > MAX_NAME or len(names) > self._comparisons_left:
            return None
        self._comparisons_left -= len(names)
        variant = next((candidate for candidate in names if _normalize(candidate) == _normalize(name)), None)
        return variant or nearest(name, (candidate for candidate in names if len(candidate) <= MAX_NAME))

    def make_hint(self, name: str, names: Collection[str], *, label: str) -> str:
        """Return a hint for an unknown name: a similar name, if there is one, and a list of the known names."""
        guess = self.find_similar_name(name, names)
        listed = ", ".join(shorten(candidate) for candidate in itertools.islice(names, _MAX_LISTED)) or "none"
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        return (f"Did you mean {guess!r}? " if guess else "") + f"{label}: {listed}{more}."

    @property
    def has_problems(self) -> bool:
        return bool(self._problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(map(self._to_problem, sorted(self._problems, key=_sort_key)))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(map(self._to_problem, sorted(self._warnings, key=_sort_key)))

    def _to_problem(self, entry: _Diagnostic) -> Problem:
        paths = (entry.path[:length] for length in range(len(entry.path), 0, -1))
        label = next((self._labels[path] for path in paths if path in self._labels), "")
        message = entry.message if label in entry.message else f"{label}: {entry.message}"
        return problem_at(entry.at, message, entry.suggestion, path=entry.path)

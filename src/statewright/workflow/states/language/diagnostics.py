"""Problems of a workflow file, and warnings about it.

Checks may run in any order: the results are sorted by phase, and within a phase by position in the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from statewright.errors import Problem, nearest
from statewright.workflow.states.language.yaml.nodes import Mark, Path, problem_at, shorten

MAX_NAME: Final = 60
"""Maximum characters of a name for which a similar one is suggested."""
MAX_COMPARISONS: Final = 5_000
"""Maximum comparisons of names per file. A file full of wrong names gets no further suggestions."""
_MAX_LISTED: Final = 20
"""Maximum names that a hint lists."""


class Phase(IntEnum):
    """The phases of the checks, in order."""

    SYNTAX = 1
    FORM = 2
    """Types, required keys, limits, mutually exclusive keys."""
    REFERENCES = 3
    """Ids of assistants, tools, nodes and states."""
    RULES = 4
    """Expressions, temperatures, MCP servers, chains of iteration."""
    GRAPH = 5
    """Reachability of states."""


class _Finding(NamedTuple):
    phase: Phase
    at: Mark
    path: Path
    message: str
    suggestion: str


def _order(finding: _Finding) -> tuple[Phase, Mark]:
    return finding.phase, finding.at


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")


class Diagnostics:
    """Problems and warnings, collected in any order."""

    def __init__(self) -> None:
        self._problems: list[_Finding] = []
        self._warnings: list[_Finding] = []
        self._labels: dict[Path, str] = {}
        self._comparisons_left = MAX_COMPARISONS

    def error(self, phase: Phase, path: Path, at: Mark, message: str, suggestion: str) -> None:
        """Report a problem that prevents the workflow from running."""
        self._problems.append(_Finding(phase, at, path, message, suggestion))

    def warn(self, phase: Phase, path: Path, at: Mark, message: str, suggestion: str) -> None:
        """Report a part of the file that is accepted, but probably a mistake."""
        self._warnings.append(_Finding(phase, at, path, message, suggestion))

    def add_syntax(self, problems: Sequence[Problem]) -> None:
        """Add the problems of the YAML parser."""
        for problem in problems:
            self._problems.append(
                _Finding(Phase.SYNTAX, Mark(problem.line, problem.column), (), problem.message, problem.suggestion)
            )

    def set_label(self, path: Path, label: str) -> None:
        """Label a part of the file, such as `State 'draft'`, in all messages about it."""
        self._labels[path] = label

    def near_miss(self, name: str, names: Collection[str]) -> str | None:
        """Return the name that was probably intended; None if there is none, or if the search would take too long."""
        if len(name) > MAX_NAME or len(names) > self._comparisons_left:
            return None
        self._comparisons_left -= len(names)
        variant = next((candidate for candidate in names if _folded(candidate) == _folded(name)), None)
        return variant or nearest(name, (candidate for candidate in names if len(candidate) <= MAX_NAME))

    def hint(self, name: str, names: Collection[str], *, noun: str) -> str:
        """Return a hint for an unknown name: a similar name, and a list of all."""
        guess = self.near_miss(name, names)
        listed = ", ".join(shorten(candidate) for candidate in itertools.islice(names, _MAX_LISTED)) or "none"
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
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

    def _problem(self, finding: _Finding) -> Problem:
        above = (finding.path[:length] for length in range(len(finding.path), 0, -1))
        label = next((self._labels[path] for path in above if path in self._labels), "")
        message = finding.message if label in finding.message else f"{label}: {finding.message}"
        return problem_at(finding.at, message, finding.suggestion, path=finding.path)

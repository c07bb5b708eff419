"""Errors of graphs and workflow files, found before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from statewright.errors.base import StatewrightError


class GraphError(StatewrightError):
    """The graph is invalid; detected before it runs."""

    exit_code: ClassVar[int] = 2


class InvalidGraph(GraphError):
    """The graph is invalid; `problems` lists every problem."""

    def __init__(self, problems: Sequence[str], *, graph: str = "graph") -> None:
        self.problems = tuple(problems)
        super().__init__(_numbered(graph, self.problems))


def _numbered(subject: str, problems: Sequence[object]) -> str:
    """Return a message with a numbered line for each problem."""
    count = len(problems)
    lines = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, 1))
    return f"{subject} has {count} problem{'s' if count != 1 else ''}:{lines}"


class Problem(NamedTuple):
    """A problem in a workflow file, with its position."""

    path: str
    """The path in the document, such as `states[2].next.condition`; empty for the document itself."""
    line: int
    """Counted from 1; 0 if the problem has no position."""
    column: int
    """Counted from 1; 0 if the problem has no position."""
    message: str
    suggestion: str = ""
    """A hint for fixing the problem."""

    def __str__(self) -> str:
        position = f"line {self.line}, column {self.column}" if self.line else ""
        path = f"In {self.path!r}" if self.path else ""
        location = f"{path} ({position})" if path and position else path or position.capitalize()
        text = f"{self.message} {self.suggestion}".rstrip()
        return f"{location}: {text}" if location else text


class WorkflowError(GraphError):
    """A workflow file is invalid; `problems` lists every problem, in the order of the checks."""

    def __init__(self, problems: Sequence[Problem], *, source: str = "the workflow") -> None:
        self.problems = tuple(problems)
        self.source = source
        """The file with the problems, as the message names it."""
        super().__init__(_numbered(source, self.problems))


class ExpressionError(GraphError):
    """An expression or a template of a workflow cannot be parsed or evaluated."""


class InvalidSchema(GraphError):
    """A schema, or one of its fields, cannot be turned into channels."""

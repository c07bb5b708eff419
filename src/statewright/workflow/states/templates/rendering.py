"""One rendering of a template: its names, its output, and what it may still do."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import (
    STEP_COST,
    WORK_LIMIT,
    Evaluation,
    WorkLimitExceeded,
    extent,
)
from statewright.workflow.states.templates.values import Missing, to_text

OUTPUT_LIMIT: Final = 10_000_000
"""Characters of a rendered text."""
VALUE_LIMIT: Final = 1_000_000
"""Characters, or items, of one value that a template makes."""


class Rendering(Evaluation):
    """The evaluation of a template. Values that its blocks set hide those of the scope."""

    __slots__ = ("_copies", "_output", "frames", "line", "size", "unresolved")

    def __init__(self, scope: Mapping[str, Any], *, work: int = WORK_LIMIT, copies: bool = False) -> None:
        """`copies` is for templates that change lists and maps: they work on copies of what the scope has."""
        super().__init__(scope, work=work, value_limit=VALUE_LIMIT)
        self.frames: list[dict[str, Any]] = []
        """What the template has set: by the template itself, then by each block that is being rendered."""
        self.line = 1
        """The line of the template that is being rendered, for messages."""
        self.size = 0
        """Characters of the output so far."""
        self.unresolved: list[str] = []
        """The placeholders that stay as written, because something in them has no value."""
        self._output: list[str] = []
        self._copies: dict[str, Any] | None = {} if copies else None

    def step(self) -> None:
        """Pay for one step of the evaluation."""
        self.work_left -= STEP_COST
        if self.work_left < 0:
            self.spend(0)

    def lookup(self, name: str, missing: Missing) -> Any:
        """Return the value of a name."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        value = self.scope.get(name, missing)
        if self._copies is None or not isinstance(value, list | dict):
            return value
        if name not in self._copies:
            self.spend(extent(cast("object", value), self.work_left))
            self._copies[name] = _copied(value)
        return self._copies[name]

    def write(self, text: str) -> None:
        """Add to the output. Raises WorkLimitExceeded if it becomes too long."""
        self.size += len(text)
        if self.size > OUTPUT_LIMIT:
            raise WorkLimitExceeded(f"the text would be longer than {OUTPUT_LIMIT} characters")
        self._output.append(text)

    def capture(self) -> list[str]:
        """Begin an output of its own, and return the one before, for `release`."""
        before, self._output = self._output, []
        return before

    def release(self, before: list[str]) -> str:
        """End an output that `capture` has begun, and return its text. It is not part of the output around it."""
        text = "".join(self._output)
        self._output = before
        self.size -= len(text)
        self.reserve(len(text))
        return text

    def text_of(self, value: Any) -> str:
        """Return a value as text, and pay for it. Raises ExpressionError for what cannot be written as text."""
        self.spend_deep(value)
        return to_text(value)

    @contextmanager
    def locating_errors(self) -> Generator[None]:
        """Turn what is raised into an ExpressionError that names the line of the template."""
        try:
            yield
        except WorkLimitExceeded as error:
            raise WorkLimitExceeded(self._located(str(error))) from error
        except ExpressionError as error:
            raise ExpressionError(self._located(str(error))) from error
        except Exception as error:
            raise ExpressionError(self._located(f"{type(error).__name__}: {str(error)[:200]}")) from error

    def _located(self, reason: str) -> str:
        return f"Line {self.line} of the template cannot be rendered: {reason.rstrip('.')}."

    def finish(self) -> str:
        """Return the whole output."""
        return "".join(self._output)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast("dict[str, Any]", value).items()}
    return [_copied(item) for item in cast("list[Any]", value)] if isinstance(value, list | tuple) else value

"""The state of one rendering: variables, output and the remaining work budget."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import STEP_COST, WORK_LIMIT, Evaluation, WorkLimitExceeded
from statewright.workflow.states.templates.values import NOTHING, SCALARS, Missing, UnresolvedName, to_json, to_text

OUTPUT_LIMIT: Final = 10_000_000
"""Maximum characters of a rendered text."""
VALUE_LIMIT: Final = 1_000_000
"""Maximum characters, or items, of one value that a template creates."""
PROBLEMS_LIMIT: Final = 20
"""Maximum placeholders of one text whose problems are described, as the search for similar names is slow."""


class TemplateProblem(NamedTuple):
    """A part of a template that cannot be rendered."""

    line: int
    """From 1, in the template."""
    message: str
    suggestion: str


class Rendering(Evaluation):
    """The evaluation of a template. Assigned variables shadow names of the scope."""

    __slots__ = ("_copies", "_output", "_size", "frames", "line", "unresolved")

    def __init__(self, scope: Mapping[str, Any], *, work: int = WORK_LIMIT, copies: bool = False) -> None:
        """With `copies`, lists and maps of the scope are copied when they are read, so that they may be modified."""
        super().__init__(scope, work=work, value_limit=VALUE_LIMIT)
        self.frames: list[dict[str, Any]] = []
        """Assigned variables: of the template, then of each enclosing block, innermost last."""
        self.line = 1
        """The line of the template that is being rendered, for messages."""
        self.unresolved: list[str] = []
        """Placeholders that are left unchanged because they are undefined."""
        self._size = 0
        """Characters of the output so far."""
        self._output: list[str] = []
        self._copies: dict[str, Any] | None = {} if copies else None

    def step(self) -> None:
        """Pay for one step of the evaluation."""
        # Not by `spend_steps`, as this is called for each node.
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
        # Copied once per rendering, so that a later reference to the name sees the modification.
        if name not in self._copies:
            self.spend_deep(cast("object", value))
            self._copies[name] = _copy(value)
        return self._copies[name]

    def write(self, text: str) -> None:
        """Add to the output. Raises WorkLimitExceeded if it becomes too long."""
        self._size += len(text)
        if self._size > OUTPUT_LIMIT:
            raise WorkLimitExceeded(f"the text would be longer than {OUTPUT_LIMIT} characters")
        self._output.append(text)

    def write_value(self, value: Any, source: str) -> None:
        """Write the value of a placeholder, or its source if it has none."""
        if value is NOTHING:
            return
        if not isinstance(value, Missing):
            try:
                self.write(self.to_text(value))
                return
            except UnresolvedName:
                pass  # a missing value in a list
        self.unresolved.append(source)
        self.write(source)

    def capture(self, block: Callable[[Rendering], object]) -> str:
        """Return the output of a block, which is not part of the surrounding output."""
        outer, self._output = self._output, []
        block(self)
        parts, self._output = self._output, outer
        size = sum(map(len, parts))
        self._size -= size
        self.reserve(size)
        return "".join(parts)

    def to_text(self, value: Any) -> str:
        """Return a value as text, and pay for it. Raises ExpressionError for a value without a text."""
        if isinstance(value, str):
            self.spend(len(value))
            return value
        if type(value) is int:
            text = str(value)  # Python refuses to write very long ones
            self.spend(len(text))
            return text
        self.spend_deep(value)
        text = to_text(value)  # a few times as long as the measured size, at most
        self.spend(len(text))
        return text

    def to_json(self, value: Any) -> Any:
        """Return the value of an expression as plain JSON, and pay for it."""
        if isinstance(value, str):
            return value
        self.spend_deep(value)
        return to_json(value)

    @contextmanager
    def locating_errors(self) -> Generator[None]:
        """Convert any exception to an ExpressionError that names the line of the template."""
        try:
            yield
        except Exception as error:
            is_known = isinstance(error, ExpressionError)
            reason = str(error).rstrip(".") if is_known else f"{type(error).__name__}: {str(error)[:200].rstrip('.')}"
            kind = WorkLimitExceeded if isinstance(error, WorkLimitExceeded) else ExpressionError
            raise kind(f"Line {self.line} of the template cannot be rendered: {reason}.") from error

    def finish(self) -> str:
        """Return the whole output."""
        return "".join(self._output)


Step = Callable[[Rendering], Any]
"""A compiled expression, which returns its value, or a compiled block, which writes to the output."""


class Compiled(NamedTuple):
    """A compiled placeholder, or a compiled template with blocks."""

    step: Step | None
    """None for a placeholder with problems; that of a template with problems raises the first of them."""
    names: frozenset[str] = frozenset()
    """The names that it looks up in the scope."""
    mutates: bool = False
    """True if it may modify a list or map."""
    problems: tuple[TemplateProblem, ...] = ()


def _copy(value: Any) -> Any:
    # Calls itself for containers only: the work is paid for by their size, and a call per scalar would exceed it.
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: item if type(item) in SCALARS else _copy(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [item if type(item) in SCALARS else _copy(item) for item in cast("list[Any]", value)]
    return value

"""The state of one rendering: variables, output and the remaining budget of work."""

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
"""Maximum problems that are described for one text. The limit exists because searching for similar names is slow."""


class TemplateProblem(NamedTuple):
    """A part of a template that cannot be rendered."""

    line: int
    """The line of the template, counted from 1."""
    message: str
    suggestion: str


class Rendering(Evaluation):
    """The evaluation of a template. Variables that the template sets take precedence over names of the scope."""

    __slots__ = ("_copies", "_output", "_size", "frames", "line", "unresolved")

    def __init__(self, scope: Mapping[str, Any], *, work: int = WORK_LIMIT, copies: bool = False) -> None:
        """Create a rendering. With `copies`, lists and maps are copied from the scope, so that they may be modified."""
        super().__init__(scope, work=work, value_limit=VALUE_LIMIT)
        self.frames: list[dict[str, Any]] = []
        """The variables of the template, then of each enclosing block, innermost last."""
        self.line = 1
        """The line of the template that is being rendered, for messages."""
        self.unresolved: list[str] = []
        """The undefined placeholders, which are left unchanged."""
        self._size = 0
        """Characters of the output so far."""
        self._output: list[str] = []
        self._copies: dict[str, Any] | None = {} if copies else None

    def step(self) -> None:
        """Pay for one step of the evaluation."""
        # Inlined, because this is called for each node.
        self.work_left -= STEP_COST
        if self.work_left < 0:
            self.spend(0)

    def lookup(self, name: str, missing: Missing) -> Any:
        """Return the value of a name; `missing` if it is not defined."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        value = self.scope.get(name, missing)
        if self._copies is None or not isinstance(value, list | dict):
            return value
        # The value is copied once per rendering, so that later references to the name see the modifications.
        if name not in self._copies:
            self.spend_deep(cast("object", value))
            self._copies[name] = _copy(value)
        return self._copies[name]

    def write(self, text: str) -> None:
        """Append to the output. Raises WorkLimitExceeded if the output becomes too long."""
        self._size += len(text)
        if self._size > OUTPUT_LIMIT:
            raise WorkLimitExceeded(f"the text would be longer than {OUTPUT_LIMIT} characters")
        self._output.append(text)

    def write_value(self, value: Any, source: str) -> None:
        """Write the value of a placeholder, or its source if the value is missing."""
        if value is NOTHING:
            return
        if not isinstance(value, Missing):
            try:
                self.write(self.to_text(value))
                return
            except UnresolvedName:
                pass  # a value inside a list or map is missing
        self.unresolved.append(source)
        self.write(source)

    def capture(self, block: Callable[[Rendering], object]) -> str:
        """Return the output of a block, which does not become part of the surrounding output."""
        outer, self._output = self._output, []
        block(self)
        parts, self._output = self._output, outer
        size = sum(map(len, parts))
        self._size -= size
        self.reserve(size)
        return "".join(parts)

    def to_text(self, value: Any) -> str:
        """Return a value as text, and pay for it. Raises ExpressionError for a value that cannot be written."""
        if isinstance(value, str):
            self.spend(len(value))
            return value
        if type(value) is int:
            text = str(value)  # raises ValueError for a very long integer
            self.spend(len(text))
            return text
        self.spend_deep(value)
        text = to_text(value)  # at most a few times as long as the measured size
        self.spend(len(text))
        return text

    def to_json(self, value: Any) -> Any:
        """Return the value of an expression as plain JSON, and pay for it."""
        if isinstance(value, str):
            return value
        self.spend_deep(value)
        return to_json(value)

    @contextmanager
    def locate_errors(self) -> Generator[None]:
        """Convert any exception to an ExpressionError that names the line of the template."""
        try:
            yield
        except Exception as error:
            prefix = "" if isinstance(error, ExpressionError) else f"{type(error).__name__}: "
            reason = str(error) if isinstance(error, ExpressionError) else str(error)[:200]
            error_type = WorkLimitExceeded if isinstance(error, WorkLimitExceeded) else ExpressionError
            raise error_type(
                f"Line {self.line} of the template cannot be rendered: {prefix}{reason.rstrip('.')}."
            ) from error

    def get_output(self) -> str:
        """Return the whole output."""
        return "".join(self._output)


Step = Callable[[Rendering], Any]
"""A compiled expression, which returns its value, or a compiled block, which writes to the output."""


class CompiledText(NamedTuple):
    """A compiled placeholder, or a compiled template with blocks."""

    step: Step | None
    """None for a placeholder with problems. For a template with problems, the step raises the first of them."""
    names: frozenset[str] = frozenset()
    """The names that the text looks up in the scope."""
    mutates: bool = False
    """True if the text may modify a list or map."""
    problems: tuple[TemplateProblem, ...] = ()


def _copy(value: Any) -> Any:
    """Return a deep copy of a value."""
    # Scalars are copied without a call, because a call for each of them would take longer than the work paid for.
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: item if type(item) in SCALARS else _copy(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [item if type(item) in SCALARS else _copy(item) for item in cast("list[Any]", value)]
    return value

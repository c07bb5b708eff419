"""Placeholders `{{ ... }}`.

Most of them are a path with filters, such as `{{ user.name | upper }}`. These are parsed here, without Jinja, whose
import takes longer than loading most workflows; untrusted texts are never parsed by Jinja. Any other placeholder is an
expression, which `compile` handles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from statewright.workflow.states.expressions.literal import InvalidLiteral, read_literal
from statewright.workflow.states.expressions.operators import get_slice
from statewright.workflow.states.expressions.paths import MISSING, follow_path, parse_path
from statewright.workflow.states.templates.filters import DEFAULT_NAMES, FILTER_NAMES, apply_filter
from statewright.workflow.states.templates.rendering import PROBLEMS_LIMIT, Rendering, Step, TemplateProblem
from statewright.workflow.states.templates.values import Missing, UnresolvedName

CONSTANTS: Final = frozenset(("true", "false", "none", "True", "False", "None"))
"""Names that are values in Jinja, unless the scope has a key of that name."""
COMPILE_COST: Final = 100
"""Units of work for each character of an expression that is compiled."""
LENGTH_LIMIT: Final = 1000
"""Maximum characters between the braces; a longer text is not a placeholder."""
EXPRESSIONS_LIMIT: Final = 100_000
"""Maximum characters of all expressions of one text without blocks."""
_TEXT: Final = r'"[^"]*+"|' + r"'[^']*+'"
_PATH: Final = re.compile(rf"(?:{_TEXT}|[^|\"'])++")
_TEXTS: Final = re.compile(_TEXT)
_BEGINNING: Final = re.compile(r"[^\W\d]")
_OPERATOR: Final = re.compile(r"[^\w\s.\[\]:@$-]")
"""Characters that make the text an expression; `parse_path` would accept them in names."""
_FILTER: Final = re.compile(rf"\|\s*([a-z]\w*)\s*(\((?:{_TEXT}|[^()\"'])*+\))?\s*")

Filters = tuple[tuple[str, tuple[Any, ...]], ...]
"""Names and arguments."""


class Difference:
    """A path with a dash, such as `total-1`, read as an expression. Compiled on first use."""

    __slots__ = ("_compiled", "_source", "_step")

    def __init__(self, source: str) -> None:
        self._source = source
        self._compiled = False
        self._step: Step | None = None

    def evaluate(self, rendering: Rendering, missing: Missing) -> Any:
        """Return its value. Compilation is charged each time, so the work does not depend on earlier renderings."""
        rendering.spend(COMPILE_COST * len(self._source))
        if not self._compiled:
            from statewright.workflow.states.templates.blocks import compile_placeholder

            compiled = compile_placeholder(self._source, describes=False)
            self._step = None if compiled.changes else compiled.step
            self._compiled = True
        return _evaluate(self._step, rendering, missing)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder, parsed to a path with filters or to a compiled expression."""

    source: str
    """With the braces."""
    key: str
    """The text between the braces. A key of the scope with this exact name takes precedence."""
    line: int = 1
    """The line of the template on which it begins."""
    path: tuple[str | int | slice, ...] = ()
    filters: Filters = ()
    step: Step | None = None
    """Evaluates an expression that is more than a path with filters."""
    difference: Difference | None = None
    """For a path with a dash: its meaning as an expression if there is no such key."""
    names: frozenset[str] = frozenset()
    """The names that it looks up in the scope."""
    changes: bool = False
    """True if the expression may modify a list or map."""
    problems: tuple[TemplateProblem, ...] = ()
    """Reasons why it cannot be rendered."""

    def evaluate(self, rendering: Rendering) -> Any:
        """Return its value; Missing if it has none. Raises ExpressionError, and what its filters raise."""
        scope: Mapping[str, Any] = rendering.scope
        value = scope.get(self.key, MISSING)
        if value is not MISSING:
            return value
        if self.path:
            value = self._follow(scope.get(str(self.path[0]), MISSING), rendering)
            if isinstance(value, Missing) and self.difference is not None:
                return self.difference.evaluate(rendering, value)
            for name, args in self.filters:
                value = apply_filter(rendering, name, value, args, {})
            return value
        return _evaluate(self.step, rendering, Missing(self.key))

    def _follow(self, value: Any, rendering: Rendering) -> Any:
        for step in self.path[1:]:
            rendering.step()
            if isinstance(step, slice) and isinstance(value, str | list):
                value = get_slice(rendering, value, step.start, step.stop)
            elif isinstance(value, str) and isinstance(step, int):
                value = value[step : step + 1 or None] or MISSING
            else:
                value = follow_path(value, (step,))
        return Missing(self.key) if value is MISSING else value


def _evaluate(step: Step | None, rendering: Rendering, missing: Missing) -> Any:
    try:
        return step(rendering) if step is not None else missing
    except UnresolvedName as error:
        return Missing(error.missing.path)


class Reading:
    """The remaining budget for parsing the placeholders of one text, as each expression is compiled by itself."""

    __slots__ = ("_characters", "_problems")

    def __init__(self) -> None:
        self._characters = EXPRESSIONS_LIMIT
        self._problems = PROBLEMS_LIMIT

    def compile(self, source: str, key: str, line: int) -> Placeholder:
        """Compile an expression."""
        if not self.can_compile(source):
            message = f"The expressions of this text have more than {EXPRESSIONS_LIMIT} characters together."
            return Placeholder(source, key, line, problems=(TemplateProblem(1, message, "Split the text."),))
        from statewright.workflow.states.templates.blocks import compile_placeholder

        compiled = compile_placeholder(source, describes=self._problems > 0)
        self._problems -= bool(compiled.problems)
        return Placeholder(source, key, line, **compiled._asdict())

    def can_compile(self, source: str) -> bool:
        """Charge the characters of an expression. Return False if the text has too many of them."""
        self._characters -= len(source)
        return self._characters >= 0


def read_placeholder(
    source: str, *, line: int = 1, simple: bool = False, reading: Reading | None = None
) -> Placeholder:
    """Parse a placeholder with its braces. A `simple` one is restricted to a path with filters."""
    reading = reading or Reading()
    key = source[2:-2].strip()
    if len(key) > LENGTH_LIMIT or not key:
        return Placeholder(source, key, line)
    path, filters = _read_path(key)
    if path is not None and (simple or not _is_constant(path, filters)):
        has_dash = not simple and any("-" in step for step in path if isinstance(step, str))
        difference = Difference(source) if has_dash and reading.can_compile(source) else None
        return Placeholder(source, key, line, path, filters, difference=difference, names=frozenset((str(path[0]),)))
    return Placeholder(source, key, line) if simple else reading.compile(source, key, line)


def _is_constant(path: tuple[str | int | slice, ...], filters: Filters) -> bool:
    """Return True for `true`, `false` and `none`, unless a default follows: then it is a name that may be missing."""
    return path[0] in CONSTANTS and not (filters and filters[0][0] in DEFAULT_NAMES)


def _read_path(key: str) -> tuple[tuple[str | int | slice, ...] | None, Filters]:
    path = _PATH.match(key)
    filters = _read_filters(key, path.end()) if path is not None else None
    if path is None or filters is None or not _BEGINNING.match(key) or _OPERATOR.search(_TEXTS.sub("", path[0])):
        return None, ()
    return parse_path(path[0].strip()), filters


def _read_filters(key: str, start: int) -> Filters | None:
    filters: list[tuple[str, tuple[Any, ...]]] = []
    while start < len(key):
        match = _FILTER.match(key, start)
        args = _read_args(match[2]) if match else None
        if match is None or args is None or match[1] not in FILTER_NAMES:
            return None
        filters.append((match[1], args))
        start = match.end()
    return tuple(filters)


def _read_args(source: str | None) -> tuple[Any, ...] | None:
    if source is None or not source[1:-1].strip():
        return ()
    try:
        return tuple(read_literal(f"[{source[1:-1]}]"))
    except InvalidLiteral:
        return None

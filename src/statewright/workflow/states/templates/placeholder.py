"""One `{{ ... }}` of a text.

Most of them are a path with filters, such as `{{ user.name | upper }}`. These are read here, without Jinja: it takes
longer to import than most workflows to load, and texts that come from outside are not parsed by it at all. Anything
else between the braces is an expression, for `compile`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from statewright.workflow.states.expressions.literal import NoLiteral, read_literal
from statewright.workflow.states.items import MISSING, follow, read_path
from statewright.workflow.states.templates.filters import FILTER_NAMES, apply_filter
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.values import Missing, UnresolvedName

if TYPE_CHECKING:
    from statewright.workflow.states.templates.compile import Step, TemplateProblem

LENGTH_LIMIT: Final = 1000
"""Characters between the braces; more of them are not a placeholder."""
_TEXT: Final = r'"[^"]*+"|' + r"'[^']*+'"
_PATH: Final = re.compile(rf"(?:{_TEXT}|[^|\"'])++")
_TEXTS: Final = re.compile(_TEXT)
_BEGINNING: Final = re.compile(r"[^\W\d]")
_OPERATOR: Final = re.compile(r"[^\w\s.\[\]:@$-]")
"""What makes an expression of a text that could be read as a path: `read_path` takes any character for a name."""
_FILTER: Final = re.compile(rf"\|\s*([a-z]\w*)\s*(\((?:{_TEXT}|[^()\"'])*+\))?\s*")

Filters = tuple[tuple[str, tuple[Any, ...]], ...]
"""Names and arguments."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder as the author wrote it, and how its value is found."""

    source: str
    """With the braces."""
    key: str
    """Everything between the braces: a key of the scope with this name counts before anything else."""
    line: int = 1
    """Where it begins, in the template."""
    path: tuple[str | int | slice, ...] = ()
    filters: Filters = ()
    step: Step | None = None
    """Evaluates an expression that is more than a path with filters."""
    difference: bool = False
    """Whether the path has a dash, so that it may be a difference if it leads nowhere."""
    names: frozenset[str] = frozenset()
    """The names that it looks up in the scope."""
    changes: bool = False
    """Whether a list or map may be changed."""
    problems: tuple[TemplateProblem, ...] = ()
    """Why it is not a placeholder that can be rendered."""

    def evaluate(self, rendering: Rendering) -> Any:
        """Return its value; Missing if it has none. Raises ExpressionError, and what its filters raise."""
        scope: Mapping[str, Any] = rendering.scope
        value = scope.get(self.key, MISSING)
        if value is not MISSING:
            return value
        if self.path:
            value = self._follow(scope.get(str(self.path[0]), MISSING), rendering)
            if isinstance(value, Missing) and self.difference:
                return _evaluated(_difference(self.source), rendering, value)
            for name, args in self.filters:
                value = apply_filter(rendering, name, value, args, {})
            return value
        return _evaluated(self.step, rendering, Missing(self.key))

    def _follow(self, value: Any, rendering: Rendering) -> Any:
        for step in self.path[1:]:
            rendering.step()
            if isinstance(step, slice):  # which copies
                rendering.spend_pass(value)
            if isinstance(value, str) and not isinstance(step, str):
                value = value[step] if isinstance(step, slice) else value[step : step + 1 or None] or MISSING
            else:
                value = follow(value, (step,))
        return Missing(self.key) if value is MISSING else value


def _evaluated(step: Step | None, rendering: Rendering, missing: Missing) -> Any:
    try:
        return step(rendering) if step is not None else missing
    except UnresolvedName as error:
        return error.missing


@lru_cache(maxsize=256)
def _difference(source: str) -> Step | None:
    """Compile `{{ total-1 }}`, which is a key with a dash if there is one."""
    from statewright.workflow.states.templates.blocks import compile_placeholder

    compiled = compile_placeholder(source)
    return None if compiled.changes else compiled.step


def read_placeholder(source: str, *, line: int = 1, simple: bool = False) -> Placeholder:
    """Read a placeholder with its braces. A `simple` one is nothing more than a path with filters."""
    key = source[2:-2].strip()
    if len(key) > LENGTH_LIMIT or not key:
        return Placeholder(source, key, line)
    path, filters = _read_path(key)
    if path is not None:
        difference = not simple and any("-" in step for step in path if isinstance(step, str))
        return Placeholder(source, key, line, path, filters, difference=difference, names=frozenset((str(path[0]),)))
    if simple:
        return Placeholder(source, key, line)
    from statewright.workflow.states.templates.blocks import compile_placeholder

    compiled = compile_placeholder(source)
    return Placeholder(
        source,
        key,
        line,
        step=compiled.step,
        names=compiled.names,
        changes=compiled.changes,
        problems=compiled.problems,
    )


def _read_path(key: str) -> tuple[tuple[str | int | slice, ...] | None, Filters]:
    found = _PATH.match(key)
    filters = _read_filters(key, found.end()) if found is not None else None
    if found is None or filters is None or not _BEGINNING.match(key) or _OPERATOR.search(_TEXTS.sub("", found[0])):
        return None, ()
    return read_path(found[0].strip()), filters


def _read_filters(key: str, start: int) -> Filters | None:
    filters: list[tuple[str, tuple[Any, ...]]] = []
    while start < len(key):
        found = _FILTER.match(key, start)
        args = _read_args(found[2]) if found else None
        if found is None or args is None or found[1] not in FILTER_NAMES:
            return None
        filters.append((found[1], args))
        start = found.end()
    return tuple(filters)


def _read_args(source: str | None) -> tuple[Any, ...] | None:
    if source is None or not source[1:-1].strip():
        return ()
    try:
        return tuple(read_literal(f"[{source[1:-1]}]"))
    except NoLiteral:
        return None

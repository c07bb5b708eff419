"""The placeholders `{{ ... }}` of texts without blocks.

Most are paths with filters, such as `{{ user.name | upper }}`. These are parsed here, because importing Jinja takes
longer than loading most workflows, and untrusted text must not reach it. Any other placeholder is an expression, which
`compile` handles.

A dash is ambiguous: `{{ total-1 }}` may be a key with a dash or a difference. It is read as a key, and as a difference
if the scope has no such key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from statewright.workflow.states.expressions.literal import InvalidLiteral, read_literal
from statewright.workflow.states.expressions.operators import get_slice
from statewright.workflow.states.expressions.paths import MISSING, follow_path, parse_path
from statewright.workflow.states.templates.filters import DEFAULT_NAMES, FILTER_NAMES, apply_filter
from statewright.workflow.states.templates.rendering import PROBLEMS_LIMIT, Rendering, Step, TemplateProblem
from statewright.workflow.states.templates.values import Missing, UnresolvedName

CONSTANTS: Final = frozenset(("true", "false", "none", "True", "False", "None"))
"""Names that are read as constants, as in Jinja, unless the scope contains a key with the same name."""
COMPILE_COST: Final = 100
"""Units of work for each character of an expression that is compiled."""
LENGTH_LIMIT: Final = 1000
"""Maximum characters between the braces. Longer text in braces is not a placeholder."""
EXPRESSIONS_LIMIT: Final = 100_000
"""Maximum characters of all expressions together in one text without blocks."""
_STRING: Final = r'"[^"]*+"|' + r"'[^']*+'"
_PATH: Final = re.compile(rf"(?:{_STRING}|[^|\"'])++")
_STRINGS: Final = re.compile(_STRING)
_NAME_START: Final = re.compile(r"[^\W\d]")
_OPERATOR: Final = re.compile(r"[^\w\s.\[\]:@$-]")
"""Characters that make the text an expression, although `parse_path` accepts them in names."""
_FILTER: Final = re.compile(rf"\|\s*([a-z]\w*)\s*(\((?:{_STRING}|[^()\"'])*+\))?\s*")

Filters = tuple[tuple[str, tuple[Any, ...]], ...]
"""The names of filters, with their arguments."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder, parsed to a path with filters or to a compiled expression."""

    source: str
    """The text of the placeholder, with the braces."""
    key: str
    """The text between the braces. If the scope contains exactly this key, its value is used."""
    line: int = 1
    """The line of the template on which the placeholder first occurs."""
    path: tuple[str | int | slice, ...] = ()
    filters: Filters = ()
    may_be_difference: bool = False
    """True for a path with a dash, which is evaluated as an expression if it has no value."""
    step: Step | None = None
    """The compiled expression; None for a path with filters, and if there are problems."""
    names: frozenset[str] = frozenset()
    """The names that the placeholder looks up in the scope."""
    mutates: bool = False
    """True if the expression may modify a list or map."""
    problems: tuple[TemplateProblem, ...] = ()
    """The reasons why the placeholder cannot be rendered."""

    def evaluate(self, rendering: Rendering) -> Any:
        """Return the value, which may be a Missing. Raises ExpressionError, and the errors of the filters."""
        value = rendering.scope.get(self.key, MISSING)
        if value is not MISSING:
            return value
        if not self.path:
            return _evaluate_step(self.step, rendering, Missing(self.key))
        value = self._follow(rendering.scope.get(str(self.path[0]), MISSING), rendering)
        if isinstance(value, Missing) and self.may_be_difference:
            # The compiled expression is cached, but charged each time, so that the work does not depend on earlier
            # renderings.
            rendering.spend(COMPILE_COST * len(self.source))
            return _evaluate_step(_compile_difference(self.source), rendering, value)
        for name, args in self.filters:
            value = apply_filter(rendering, name, value, args, {})
        return value

    def _follow(self, value: Any, rendering: Rendering) -> Any:
        for step in self.path[1:]:
            rendering.step()
            if isinstance(step, slice) and isinstance(value, str | list):
                value = get_slice(rendering, value, step.start, step.stop)
            elif isinstance(value, str) and isinstance(step, int):
                # A slice is empty where an index would raise. `or None` is for the last character, whose index is -1.
                value = value[step : step + 1 or None] or MISSING
            else:
                value = follow_path(value, (step,))
        return Missing(self.key) if value is MISSING else value


@lru_cache(maxsize=256)
def _compile_difference(source: str) -> Step | None:
    """Compile a placeholder with a dash as an expression. Return None if it cannot be rendered, or modifies a value."""
    from statewright.workflow.states.templates.blocks import compile_placeholder

    compiled = compile_placeholder(source, with_suggestions=False)
    return None if compiled.mutates else compiled.step


def _evaluate_step(step: Step | None, rendering: Rendering, missing: Missing) -> Any:
    """Return the value of an expression, which may be a Missing; `missing` if there is no expression."""
    try:
        return step(rendering) if step is not None else missing
    except UnresolvedName as error:
        return Missing(error.missing.path)  # not NOTHING itself, which is written as an empty string


class PlaceholderParser:
    """Parses the placeholders of one text. The limits apply to all of its expressions together."""

    def __init__(self, *, simple: bool = False) -> None:
        """Create a parser. With `simple`, it supports only paths with filters."""
        self._simple = simple
        self._characters_left = EXPRESSIONS_LIMIT
        self._problems_left = PROBLEMS_LIMIT
        self._parsed: dict[str, Placeholder] = {}

    def parse(self, source: str, line: int = 1) -> Placeholder:
        """Parse a placeholder. `source` includes the braces. Equal placeholders of a text are parsed only once."""
        if source not in self._parsed:
            self._parsed[source] = self._parse(source, source[2:-2].strip(), line)
        return self._parsed[source]

    def _parse(self, source: str, key: str, line: int) -> Placeholder:
        if len(key) > LENGTH_LIMIT or not key:
            return Placeholder(source, key, line)
        path, filters = _parse_path(key)
        if path is not None and (self._simple or not _is_constant(path, filters)):
            has_dash = not self._simple and any("-" in step for step in path if isinstance(step, str))
            may_be_difference = has_dash and self._can_compile(source)
            return Placeholder(source, key, line, path, filters, may_be_difference, names=frozenset((str(path[0]),)))
        if self._simple:
            return Placeholder(source, key, line)
        if not self._can_compile(source):
            message = f"Together, the expressions of this text have more than {EXPRESSIONS_LIMIT} characters."
            return Placeholder(source, key, line, problems=(TemplateProblem(1, message, "Split the text."),))
        from statewright.workflow.states.templates.blocks import compile_placeholder

        compiled = compile_placeholder(source, with_suggestions=self._problems_left > 0)
        self._problems_left -= bool(compiled.problems)
        return Placeholder(source, key, line, **compiled._asdict())

    def _can_compile(self, source: str) -> bool:
        """Charge the characters of an expression. Return False if the expressions of the text have too many of them."""
        self._characters_left -= len(source)
        return self._characters_left >= 0


def _is_constant(path: tuple[str | int | slice, ...], filters: Filters) -> bool:
    """Return whether a path is a constant such as `true`. Before `default`, it is a name, which may be missing."""
    return path[0] in CONSTANTS and not (filters and filters[0][0] in DEFAULT_NAMES)


def _parse_path(key: str) -> tuple[tuple[str | int | slice, ...] | None, Filters]:
    """Parse a path with filters. Return None instead of the path if the text is anything else."""
    path = _PATH.match(key)
    filters = _parse_filters(key, path.end()) if path is not None else None
    if path is None or filters is None or not _NAME_START.match(key) or _OPERATOR.search(_STRINGS.sub("", path[0])):
        return None, ()
    return parse_path(path[0].strip()), filters


def _parse_filters(key: str, start: int) -> Filters | None:
    filters: list[tuple[str, tuple[Any, ...]]] = []
    while start < len(key):
        match = _FILTER.match(key, start)
        if match is None or match[1] not in FILTER_NAMES:
            return None
        try:
            args: list[Any] = read_literal(f"[{match[2][1:-1]}]") if match[2] else []
        except InvalidLiteral:
            return None
        filters.append((match[1], tuple(args)))
        start = match.end()
    return tuple(filters)

"""One `{{ ... }}`: a name or a path, and filters after it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.literal import NoLiteral, read_literal
from statewright.workflow.states.items import MISSING, follow, read_path
from statewright.workflow.states.templates.filters import FILTERS, as_words

LENGTH_LIMIT: Final = 1000
"""Characters between the braces; more of them are a text with braces in it."""
_TEXT: Final = r'"[^"]*+"|' + r"'[^']*+'"
_PATH: Final = re.compile(rf"(?:{_TEXT}|[^|\"'])++")
_FILTER: Final = re.compile(rf"\|\s*([a-z]\w*)\s*(\((?:{_TEXT}|[^()\"'])*+\))?\s*")
_DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """What stands between two braces and two braces."""

    source: str
    """With the braces, as the author wrote it."""
    name: str
    """All between the braces, which may be a key itself."""
    steps: tuple[str | int | slice, ...] | None
    """The path; None if there is none that can be read."""
    filters: tuple[tuple[str, tuple[Any, ...]], ...]
    """Names and arguments."""

    @property
    def root(self) -> str | None:
        """The name that it looks up first."""
        return str(self.steps[0]) if self.steps else None

    def value(self, scope: Mapping[str, Any]) -> Any:
        """What it stands for; `MISSING` if that is nothing, or a filter cannot be applied to it."""
        found = scope.get(self.name, MISSING)
        if found is not MISSING or self.steps is None:
            return found
        found = follow(scope.get(str(self.steps[0]), MISSING), self.steps[1:])
        return _filtered(found, self.filters) if self.filters else found

    def text(self, scope: Mapping[str, Any]) -> str:
        """What it becomes in a text: itself, if there is no value."""
        found = scope.get(self.name, MISSING)
        if found is MISSING:
            found = self.value(scope)
        if isinstance(found, str):
            return found
        try:
            return self.source if found is MISSING else as_words(found)
        except (TypeError, ValueError, RecursionError):
            return self.source


def read_placeholder(source: str) -> Placeholder:
    """The placeholder that a text with its braces spells."""
    name = source[2:-2].strip()
    found = _PATH.match(name) if len(name) <= LENGTH_LIMIT else None
    if found is None:
        return Placeholder(source, name, None, ())
    filters = _read_filters(name, found.end())
    steps = read_path(found[0].strip()) if filters is not None else None
    return Placeholder(source, name, steps, filters or ())


def _read_filters(name: str, at: int) -> tuple[tuple[str, tuple[Any, ...]], ...] | None:
    filters: list[tuple[str, tuple[Any, ...]]] = []
    while at < len(name):
        found = _FILTER.match(name, at)
        args = _read_args(found[2]) if found else None
        if found is None or args is None or not (found[1] in FILTERS or found[1] == _DEFAULT):
            return None
        filters.append((found[1], args))
        at = found.end()
    return tuple(filters)


def _read_args(written: str | None) -> tuple[Any, ...] | None:
    if written is None or not written[1:-1].strip():
        return ()
    try:
        return tuple(read_literal(f"[{written[1:-1]}]"))
    except NoLiteral:
        return None


def _filtered(value: Any, filters: tuple[tuple[str, tuple[Any, ...]], ...]) -> Any:
    try:
        for name, args in filters:
            if name == _DEFAULT:
                value = with_default(value, *args)
            elif value is MISSING:
                return MISSING
            else:
                value = FILTERS[name](value, *args)
    except (ExpressionError, TypeError, ValueError, AttributeError, RecursionError):
        return MISSING
    return value


def with_default(value: Any, default: Any = "", or_empty: Any = False) -> Any:
    """The filter `default`: another value for what is not there; with true, for all that is empty too."""
    return default if value is MISSING or (or_empty and not value) else value

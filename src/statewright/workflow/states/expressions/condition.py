"""Conditions: an expression over the result of one state.

Texts of a result are converted before: models write 'true' and "15" where they mean true and 15.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.workflow.states.expressions.expression import Expression
from statewright.workflow.states.expressions.literal import NoLiteral, read_literal

CONVERTED: Final = 10_000
"""Characters of a text that may become a value; longer ones stay what they are."""
_BEGINS_VALUE: Final = frozenset("0123456789+-.\"'([{NTFrRuU \t\r\n")
_BOOLEANS: Final = {"true": True, "false": False}


def holds(expression: Expression, result: Any) -> bool:
    """Whether a condition holds for the parsed result of a state. What cannot be worked out does not hold."""
    try:
        return bool(expression.work_out(condition_scope(result)))
    except Exception:
        return False


class _Scope(dict[str, Any]):
    """The names that a condition may read, converted when they are read: results are large, and conditions short."""

    __slots__ = ("_result",)

    def __init__(self, result: dict[str, Any]) -> None:
        self._result = result
        self["keys"] = list(result)

    def __missing__(self, name: str) -> Any:
        value = self._result[name]
        self[name] = value = converted(value) if isinstance(value, str) else value
        return value


def condition_scope(result: Any) -> Mapping[str, Any]:
    """The names that a condition may read: the keys of a map, and `keys`, the list of them."""
    return _Scope(cast(dict[str, Any], result)) if isinstance(result, dict) else {"keys": []}


def converted(text: str) -> Any:
    """The value that a text spells, or the text itself: 'True' is true, '15' a number, '[1, 2]' a list."""
    if len(text) > CONVERTED or not text:
        return text
    word = _BOOLEANS.get(text.lower())
    if word is not None:
        return word
    if text[0] not in _BEGINS_VALUE:
        return text
    try:
        return read_literal(text)
    except NoLiteral:
        return text

"""What values of the project file must be."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final, NamedTuple, cast


class ValueType(NamedTuple):
    """What a value must be."""

    name: str
    fits: Callable[[Any], bool]


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value))


def _is_concurrency(value: Any) -> bool:
    return _is_count(value) and value <= 100


def _is_duration(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_amount(value: Any) -> bool:
    return _is_number(value) and 0 < value < inf


def _is_port(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535


def _is_durability(value: Any) -> bool:
    return value in ("sync", "async")


def _is_metrics_access(value: Any) -> bool:
    return value in ("open", "keys", "off")


def _is_temperature(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 2


TEXT: Final = ValueType("a text", _of(str))
BOOLEAN: Final = ValueType("true or false", _of(bool))
COUNT: Final = ValueType("a whole number of at least 1", _is_count)
CONCURRENCY: Final = ValueType("a whole number from 1 to 100", _is_concurrency)
TEMPERATURE: Final = ValueType("a number from 0 to 2", _is_temperature)
AMOUNT: Final = ValueType("a number above 0", _is_amount)
DURATION: Final = ValueType("a number of seconds above 0", _is_duration)
PORT: Final = ValueType("a whole number from 0 to 65535", _is_port)
DURABILITY: Final = ValueType("'sync' or 'async'", _is_durability)
METRICS_ACCESS: Final = ValueType("'open', 'keys' or 'off'", _is_metrics_access)
TEXTS: Final = ValueType("a list of texts", _is_texts)
LIST: Final = ValueType("a list", _of(list))
TABLE: Final = ValueType("a table", _of(dict))


def kind_of(value: Any) -> str:
    """What a value of TOML is called."""
    kinds = {bool: "a boolean", str: "a text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(cast("type[Any]", type(value)), "a date or time")

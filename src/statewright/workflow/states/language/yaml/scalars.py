"""Plain scalars of YAML 1.1: text, numbers, booleans and null.

The results are JSON values, so dates stay strings, and numbers that JSON cannot represent are rejected.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, cast

from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from statewright.workflow.states.language.yaml.nodes import Scalar

TAG_PREFIX: Final = "tag:yaml.org,2002:"

_MAX_LENGTH: Final = 100
"""The maximum number of characters of a number, boolean or null. A longer scalar is a string."""

_RESOLVER: Final[Any] = Resolver()
_CONSTRUCTOR: Final = SafeConstructor()
_READERS: Final = {
    "null": _CONSTRUCTOR.construct_yaml_null,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
}


def read_plain(text: str) -> Scalar:
    """Return the value of an unquoted scalar. Raises ValueError for a number that is not finite."""
    return _read_short(text) if len(text) <= _MAX_LENGTH else text


@lru_cache(maxsize=1024)
def _read_short(text: str) -> Scalar:
    # Cached, because the same keys, ids and numbers occur many times in a file.
    type_name = cast(str, _RESOLVER.resolve(ScalarNode, text, (True, False))).removeprefix(TAG_PREFIX)
    if type_name not in _READERS:
        return text
    try:
        return read_as(type_name, text)
    except LookupError:
        return text


def read_as(type_name: str, text: str) -> Scalar:
    """Return the value of a scalar whose type is null, bool, int, float or str.

    Raises LookupError for an unknown type and for text that does not match the type, and ValueError for a number that
    is not finite.
    """
    if type_name == "str":
        return text
    try:
        value = _READERS[type_name](ScalarNode(TAG_PREFIX + type_name, text[:_MAX_LENGTH]))
    except (ValueError, TypeError, IndexError, ConstructorError) as error:
        raise LookupError(text) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(text)
    return value

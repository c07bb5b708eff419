"""Plain scalars of YAML 1.1: text, numbers, booleans and null.

The results are JSON values: a date stays text, and a number that JSON cannot represent is rejected.
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

_LONGEST: Final = 100
"""Maximum characters; a longer scalar is text."""

_RESOLVER: Final[Any] = Resolver()
_CONSTRUCTOR: Final = SafeConstructor()
_READERS: Final = {
    "null": _CONSTRUCTOR.construct_yaml_null,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
}


def read_plain(word: str) -> Scalar:
    """Return the value of an unquoted scalar. Raises ValueError for a number that is not finite."""
    return _read_short(word) if len(word) <= _LONGEST else word


@lru_cache(maxsize=1024)
def _read_short(word: str) -> Scalar:
    # Cached because files repeat a few scalars: keys, ids, numbers.
    kind = cast(str, _RESOLVER.resolve(ScalarNode, word, (True, False))).removeprefix(TAG_PREFIX)
    if kind not in _READERS:
        return word
    try:
        return read_as(kind, word)
    except LookupError:
        return word


def read_as(kind: str, word: str) -> Scalar:
    """Return the value of a scalar with an explicit type: null, bool, int, float or str.

    Raises LookupError if it does not match the type, and ValueError for a number that is not finite.
    """
    if kind == "str":
        return word
    try:
        value = _READERS[kind](ScalarNode(TAG_PREFIX + kind, word[:_LONGEST]))
    except (ValueError, TypeError, IndexError, ConstructorError) as error:
        raise LookupError(word) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(word)
    return value

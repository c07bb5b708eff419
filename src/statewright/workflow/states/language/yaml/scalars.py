"""What a plain word of YAML 1.1 stands for: text, a number, a boolean or nothing.

Only values that JSON has come out of here. A date stays the text that it is; a number that JSON cannot say is refused.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, cast

from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

TAG_PREFIX: Final = "tag:yaml.org,2002:"

Scalar = str | int | float | bool | None

_LONGEST: Final = 100
"""Characters; a longer word is text, whatever it looks like."""

_RESOLVER: Final[Any] = Resolver()
_CONSTRUCTOR: Final = SafeConstructor()
_READERS: Final = {
    "null": _CONSTRUCTOR.construct_yaml_null,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
}


def read_plain(word: str) -> Scalar:
    """The value of a word without quotes. Raises ValueError for a number that is not finite."""
    return _read_short(word) if len(word) <= _LONGEST else word


@lru_cache(maxsize=1024)
def _read_short(word: str) -> Scalar:
    # Files repeat a few words: keys, ids, numbers.
    kind = cast(str, _RESOLVER.resolve(ScalarNode, word, (True, False))).removeprefix(TAG_PREFIX)
    if kind not in _READERS:
        return word
    try:
        return read_as(kind, word)
    except LookupError:
        return word


def read_as(kind: str, word: str) -> Scalar:
    """The value of a word that is said to be of a kind: null, bool, int, float or str.

    Raises LookupError if it is not of this kind, and ValueError for a number that is not finite.
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

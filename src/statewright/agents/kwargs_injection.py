"""Call user-defined functions with the arguments that their parameters name.

A function with a single parameter of an unknown name gets all values at once, as an object with these attributes. A
parameter with a default never counts as that one: `lambda limit=limit: ...` keeps its captured value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from statewright.errors import InvalidConfig

_NAMELESS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def call_with_kwargs(function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    """What a function gives for those of the values that it asks for; to be awaited if it is a coroutine's.

    Raises InvalidConfig for one that asks for something else.
    """
    names, takes_all, bundled = _read_signature(function, tuple(known))
    if bundled:
        return function(SimpleNamespace(**known))
    return function(**(known if takes_all else {name: known[name] for name in names}))


async def acall_with_kwargs(function: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    """`call_with`, awaited where that has to be."""
    answer = call_with_kwargs(function, known)
    return await answer if inspect.isawaitable(answer) else answer


def _read_signature(function: Callable[..., Any], known: tuple[str, ...]) -> tuple[tuple[str, ...], bool, bool]:
    method = getattr(function, "__func__", None)  # of a bound method, lest the cache keeps its object
    try:
        return _cached_signature(method or function, known, method is not None)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _cached_signature.__wrapped__(method or function, known, method is not None)


@lru_cache(maxsize=1024)
def _cached_signature(
    function: Callable[..., Any], known: tuple[str, ...], is_bound: bool
) -> tuple[tuple[str, ...], bool, bool]:
    """The names that it takes, whether it takes all, and whether it wants them as one object."""
    parameters = list(inspect.signature(function).parameters.values())[int(is_bound) :]
    named = [one for one in parameters if one.kind not in _NAMELESS]
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    strange = [one.name for one in named if one.name not in known]
    has_default = any(one.default is not inspect.Parameter.empty for one in named)
    if len(strange) == 1 and len(named) == 1 and not takes_all and not has_default:
        return (), False, True
    missing = [one.name for one in named if one.name in strange and one.default is inspect.Parameter.empty]
    if missing:
        called = getattr(function, "__name__", repr(function))
        raise InvalidConfig(
            f"{called} asks for {missing[0]!r}, which it cannot be given. It may ask for {', '.join(sorted(known))}."
        )
    return tuple(one.name for one in named if one.name in known), takes_all, False

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


def call_with_kwargs(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function with those of the values that its parameters name, and return its answer or coroutine.

    Raises InvalidConfig for a required parameter of another name.
    """
    names, takes_all, bundled = _read_signature(function, tuple(kwargs))
    if bundled:
        return function(SimpleNamespace(**kwargs))
    return function(**(kwargs if takes_all else {name: kwargs[name] for name in names}))


async def acall_with_kwargs(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    """Like `call_with_kwargs`, awaiting the answer if necessary."""
    answer = call_with_kwargs(function, kwargs)
    return await answer if inspect.isawaitable(answer) else answer


def _read_signature(function: Callable[..., Any], available: tuple[str, ...]) -> tuple[tuple[str, ...], bool, bool]:
    method = getattr(function, "__func__", None)  # of a bound method: the cache must not keep its object alive
    try:
        return _cached_signature(method or function, available, method is not None)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _cached_signature.__wrapped__(method or function, available, method is not None)


@lru_cache(maxsize=1024)
def _cached_signature(
    function: Callable[..., Any], available: tuple[str, ...], is_bound: bool
) -> tuple[tuple[str, ...], bool, bool]:
    """Return the names that a function takes, whether it takes all, and whether it takes them as one object."""
    parameters = list(inspect.signature(function).parameters.values())[int(is_bound) :]
    named = [parameter for parameter in parameters if parameter.kind not in _NAMELESS]
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    unknown = [parameter for parameter in named if parameter.name not in available]
    has_default = any(parameter.default is not inspect.Parameter.empty for parameter in named)
    if len(unknown) == 1 and len(named) == 1 and not takes_all and not has_default:
        return (), False, True
    missing = [parameter.name for parameter in unknown if parameter.default is inspect.Parameter.empty]
    if missing:
        name = getattr(function, "__name__", repr(function))
        raise InvalidConfig(
            f"{name} has an unknown parameter {missing[0]!r}. Available: {', '.join(sorted(available))}."
        )
    return tuple(parameter.name for parameter in named if parameter.name in available), takes_all, False

"""Call user-defined functions with the arguments that their parameters name.

If a function has a single parameter, and no available value has its name, the parameter gets one object that has all
values as attributes. This does not apply to a parameter with a default, so that `lambda limit=limit: ...` keeps its
captured value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from statewright.errors import InvalidConfig

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Binding(NamedTuple):
    """The arguments to pass to a function."""

    names: tuple[str, ...]
    """The available values that the function's parameters name."""
    takes_all: bool = False
    """True if the function has a `**kwargs` parameter, which gets all values."""
    as_object: bool = False
    """True if the function's only parameter gets one object with all values."""


def call_with_kwargs(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function with those of the `kwargs` that its parameters name, and return its return value.

    A coroutine function returns a coroutine. Raises InvalidConfig for a required parameter whose name is not
    in `kwargs`.
    """
    binding = _bind(function, tuple(kwargs))
    if binding.as_object:
        return function(SimpleNamespace(**kwargs))
    return function(**(kwargs if binding.takes_all else {name: kwargs[name] for name in binding.names}))


async def acall_with_kwargs(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    """Like `call_with_kwargs`, but await the return value if it is awaitable."""
    value = call_with_kwargs(function, kwargs)
    return await value if inspect.isawaitable(value) else value


def _bind(function: Callable[..., Any], available: tuple[str, ...]) -> _Binding:
    # A bound method is cached by its function, because the cache must not keep the method's object alive.
    method = getattr(function, "__func__", None)
    try:
        return _cached_binding(method or function, available, method is not None)
    except TypeError as error:
        if "unhashable" not in str(error):  # a callable object without a hash cannot be cached
            raise
        return _cached_binding.__wrapped__(method or function, available, method is not None)


@lru_cache(maxsize=1024)
def _cached_binding(function: Callable[..., Any], available: tuple[str, ...], is_bound: bool) -> _Binding:
    parameters = list(inspect.signature(function).parameters.values())[int(is_bound) :]
    named = [parameter for parameter in parameters if parameter.kind not in _VARIADIC]
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    available_names = tuple(parameter.name for parameter in named if parameter.name in available)
    required = [parameter.name for parameter in named if parameter.default is inspect.Parameter.empty]
    unknown = [name for name in required if name not in available]
    if len(named) == len(unknown) == 1 and not takes_all:
        return _Binding((), as_object=True)
    if unknown:
        name = getattr(function, "__name__", repr(function))
        raise InvalidConfig(
            f"{name} has an unknown parameter {unknown[0]!r}. Available: {', '.join(sorted(available))}."
        )
    return _Binding(available_names, takes_all)

"""The parameters of the functions of nodes, which are inspected once for each function.

The first positional parameter receives the state. A parameter that has one of the names in `INJECTABLE`, or the
annotation `Runtime`, is injected. All other parameters must have a default.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MethodType
from typing import Any, Literal, cast

from statewright.graph.context import Runtime

Injectable = Literal["config", "runtime", "writer", "store", "previous", "error"]
INJECTABLE: tuple[Injectable, ...] = typing.get_args(Injectable)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function."""

    takes_state: bool
    state_hint: Any
    """The annotation of the state parameter; None if there is none, or if it cannot be resolved."""
    injected: tuple[tuple[str, Injectable], ...]
    """The name of each injected parameter, and what to inject."""
    unknown: tuple[str, ...]
    """Parameters without a default that cannot be injected."""
    returns: Any
    """The return annotation; None if there is none, or if it cannot be resolved."""
    required: frozenset[str]
    """The injected parameters without a default."""


_KEYWORDS = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_STATE_ONLY = Parameters(True, None, (), (), None, frozenset())


def read_parameters(function: Callable[..., Any]) -> Parameters:
    """Return the parameters of a function. Raises ValueError or TypeError if they cannot be inspected."""
    if _takes_state_only(function):
        return _STATE_ONLY
    target, is_bound = _cache_key(function)
    try:
        return _inspect(target, is_bound)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _inspect.__wrapped__(target, is_bound)  # an unhashable callable cannot be a key of the cache


def _cache_key(function: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """Return the function to inspect, which is the key of the cache, and whether its first parameter is bound.

    For a method or a callable object it is the underlying function, so that the cache does not keep the object alive.
    """
    target: Any = function
    if not (isinstance(function, partial | type) or inspect.isroutine(function)):
        target = getattr(function, "__call__", function)  # noqa: B004  # not a test: the bound method is needed
    if isinstance(target, MethodType) and not hasattr(target, "__wrapped__"):
        return target.__func__, True
    return target, False


def _takes_state_only(function: Callable[..., Any]) -> bool:
    """Return whether a function has one parameter and no annotations.

    This common case is recognized without `inspect.signature`, which is slow.
    """
    code = getattr(function, "__code__", None)
    return (
        code is not None
        and code.co_argcount == 1
        and not code.co_kwonlyargcount
        and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        and not function.__annotations__
        and not hasattr(function, "__wrapped__")
        and not hasattr(function, "__self__")
    )


@lru_cache(maxsize=4096)
def _inspect(function: Callable[..., Any], is_bound: bool) -> Parameters:
    parameters = list(inspect.signature(function).parameters.values())[int(is_bound) :]
    hints = resolved_hints(function)
    first = parameters[0] if parameters else None
    # The first parameter of a function that does not take the state may be the runtime.
    takes_state = first is not None and first.kind not in _KEYWORDS and not _is_runtime(hints.get(first.name))
    state_hint = hints.get(first.name) if first is not None and takes_state else None
    injected: list[tuple[str, Injectable]] = []
    unknown: list[str] = []
    required: set[str] = set()
    for parameter in parameters[1:] if takes_state else parameters:
        kind = _injectable_kind(parameter, hints)
        if kind is not None:
            injected.append((parameter.name, kind))
            if parameter.default is parameter.empty:
                required.add(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind not in _VARIADIC:
            unknown.append(parameter.name)
    returns = hints.get("return")
    return Parameters(takes_state, state_hint, tuple(injected), tuple(unknown), returns, frozenset(required))


def _injectable_kind(parameter: inspect.Parameter, hints: dict[str, Any]) -> Injectable | None:
    """Return what to inject into a parameter; None if nothing can be injected."""
    if parameter.kind in _VARIADIC:
        return None
    hint = hints.get(parameter.name)
    if _is_runtime(hint):
        return "runtime"
    return parameter.name if parameter.name in INJECTABLE else None


def _is_runtime(hint: Any) -> bool:
    return hint is Runtime or typing.get_origin(hint) is Runtime


def resolved_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a callable, by parameter; empty if one of them cannot be resolved."""
    target: Any = function
    while isinstance(target, partial):
        target = cast(Any, target).func
    if not inspect.isroutine(target) and not isinstance(target, type):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}


def is_coroutine_function(function: Any) -> bool:
    """Return whether a function is a coroutine function, a partial of one, or an object whose `__call__` is one."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004

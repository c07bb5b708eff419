"""What a node's function asks for, read from its parameters once.

The first positional parameter is the state. Further ones are known by name, or by the annotation `Runtime`.
Everything else must have a default.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MethodType
from typing import Any, Literal, cast

from statewright.graph.command import Command, Send
from statewright.graph.context import Runtime

Asked = Literal["config", "runtime", "writer", "store", "previous", "error"]
ASKABLE: tuple[Asked, ...] = typing.get_args(Asked)


@dataclass(frozen=True, slots=True)
class Parameters:
    """What one function asks for."""

    takes_state: bool
    state_hint: Any
    """The annotation of the state parameter, None where there is none or it cannot be resolved."""
    asked: tuple[tuple[str, Asked], ...]
    """Pairs of parameter and what it is given."""
    unknown: tuple[str, ...]
    """Parameters without default that nothing here can fill."""
    returns: Any
    """The return annotation, None where there is none or it cannot be resolved."""
    required: frozenset[str]
    """Those of the asked parameters that have no default."""


_STATE_ONLY = Parameters(True, None, (), (), None, frozenset())


def read_parameters(function: Callable[..., Any]) -> Parameters:
    """What `function` asks for. Raises ValueError or TypeError for callables whose parameters cannot be read."""
    if _is_bare(function):
        return _STATE_ONLY
    target, is_bound = _kept(function)
    try:
        return _read(target, is_bound)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _read.__wrapped__(target, is_bound)


def _kept(function: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """What is read and remembered of a callable, and whether its first parameter is taken already.

    Of a method, and of an object that can be called, the function: nothing else of it may live on in a cache.
    """
    target: Any = function
    if not (isinstance(function, partial | type) or inspect.isroutine(function)):
        target = getattr(function, "__call__", function)  # noqa: B004  # the method is wanted
    if isinstance(target, MethodType) and not hasattr(target, "__wrapped__"):
        return target.__func__, True
    return target, False


def _is_bare(function: Callable[..., Any]) -> bool:
    """A function of one parameter without annotations or decorations: the code object says it all, 40 times faster."""
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
def _read(function: Callable[..., Any], is_bound: bool = False) -> Parameters:
    parameters = list(inspect.signature(function).parameters.values())[int(is_bound) :]
    hints = resolved_hints(function)
    takes_state = bool(parameters) and parameters[0].kind in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    if takes_state and _is_runtime(hints.get(parameters[0].name)):
        takes_state = False  # it wants the runtime and nothing else
    state_hint = hints.get(parameters[0].name) if takes_state else None
    asked: list[tuple[str, Asked]] = []
    unknown: list[str] = []
    required: set[str] = set()
    for parameter in parameters[1:] if takes_state else parameters:
        wanted = _asked_by(parameter, hints)
        if wanted is not None:
            asked.append((parameter.name, wanted))
            if parameter.default is parameter.empty:
                required.add(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind not in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            unknown.append(parameter.name)
    return Parameters(takes_state, state_hint, tuple(asked), tuple(unknown), hints.get("return"), frozenset(required))


def _asked_by(parameter: inspect.Parameter, hints: dict[str, Any]) -> Asked | None:
    if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        return None
    hint = hints.get(parameter.name)
    if _is_runtime(hint):
        return "runtime"
    return parameter.name if parameter.name in ASKABLE else None


def _is_runtime(hint: Any) -> bool:
    return hint is Runtime or typing.get_origin(hint) is Runtime


def resolved_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a callable; empty where they name what cannot be found, since they then say nothing."""
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
    """Whether calling `function` gives something to await; looks through partials and callable objects."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def literal_names(hint: Any) -> tuple[str, ...] | None:
    """The names in `Literal["a", "b"]`, also inside a union, a list or a sequence; None where there is no Literal."""
    if typing.get_origin(hint) is Literal:
        return tuple(str(name) for name in typing.get_args(hint))
    found = [names for part in typing.get_args(hint) if (names := literal_names(part)) is not None]
    return tuple(name for names in found for name in names) if found else None


def declared_by_hint(returns: Any) -> tuple[str, ...] | None:
    """Where a node's return hint says that its Commands go; None where it declares nothing."""
    found: list[str] = []
    declares = False
    for part in _parts(returns):
        if typing.get_origin(part) is Command:
            names = literal_names(typing.get_args(part)[0])
            declares = declares or names is not None
            found.extend(names or ())
    return tuple(found) if declares else None


def may_go_anywhere(returns: Any) -> bool:
    """Whether a return hint admits Commands or Sends without saying where they go."""
    return any(part in (Command, Send) or _names_nothing(part) for part in _parts(returns))


def _names_nothing(part: Any) -> bool:
    """Whether a hint is a `Command[str]`: one that could say where it goes, and does not."""
    return typing.get_origin(part) is Command and literal_names(typing.get_args(part)[0]) is None


def _parts(hint: Any) -> list[Any]:
    """A hint and everything nested in it, but for the insides of Command."""
    if typing.get_origin(hint) in (Command, Literal):
        return [hint]
    return [hint, *(inner for part in typing.get_args(hint) for inner in _parts(part))]

"""Parameters of a tool that are no arguments: the model does not see them, and the runtime fills them.

They are known by their annotation: `ToolContext`, `Runtime`, `State`, `NetworkRun`, or `Annotated` with one of the
markers below. The names `network`, `state`, `store` and `runtime` are enough where a parameter has no annotation, or
Any; with one of another kind, like `state: str`, it is an argument as any other.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast, get_args, get_origin

from statewright.agents.tools.tool import ToolContext
from statewright.graph import Runtime
from statewright.store import Store

Fill = Callable[[ToolContext], Any]
"""What a parameter is given in one call."""


@dataclass(frozen=True, slots=True)
class InjectedState:
    """Marks a parameter that gets the agent's state, or one field of it to be read: what is done to it is not kept."""

    field: str | None = None


@dataclass(frozen=True, slots=True)
class InjectedStore:
    """Marks a parameter that gets the store."""


@dataclass(frozen=True, slots=True)
class InjectedToolCallId:
    """Marks a parameter that gets the id of the call."""


@dataclass(frozen=True, slots=True)
class Injected:
    """How one parameter is filled."""

    fill: Fill
    changes_state: bool = False
    """Whether the tool can write to the state by it, so that its calls have to be made in order."""


_BY_NAME: Final[Mapping[str, Injected]] = {
    "network": Injected(lambda context: context.network, changes_state=True),
    "state": Injected(lambda context: context.state, changes_state=True),
    "store": Injected(lambda context: context.store),
    "runtime": Injected(lambda context: context.runtime),
}
_BY_CLASS: Final[Mapping[Any, Injected]] = {
    ToolContext: Injected(lambda context: context, changes_state=True),  # it leads to the state
    Runtime: _BY_NAME["runtime"],
    Store: _BY_NAME["store"],
}


def injected(parameter: inspect.Parameter) -> Injected | None:
    """How a parameter is filled; None if it is an argument."""
    hint = parameter.annotation
    if hint in (inspect.Parameter.empty, Any):
        return _BY_NAME.get(parameter.name)
    marked = next(filter(None, map(_by_marker, get_args(hint)[1:])), None) if get_origin(hint) is Annotated else None
    if marked is not None:
        return marked
    kinds = _classes(hint)
    known = next((_BY_CLASS[kind] for kind in kinds if kind in _BY_CLASS), None)
    # State and NetworkRun say so themselves: they stand above this module.
    name = next((found for kind in kinds if (found := getattr(kind, "injected_as", None)) is not None), None)
    return known or (_BY_NAME[name] if name is not None else None)


def _classes(hint: Any) -> list[Any]:
    """The classes that a hint names: itself, that of which it is a special case, or the members of a union."""
    parts = [hint, *get_args(hint)] if get_origin(hint) is not None else [hint]
    return [get_origin(part) or part for part in parts if isinstance(get_origin(part) or part, type)]


def _by_marker(marker: Any) -> Injected | None:
    match marker() if isinstance(marker, type) and marker.__module__ == __name__ else marker:
        case InjectedState(field):
            return Injected(lambda context: _state_of(context, field), changes_state=field is None)
        case InjectedStore():
            return _BY_NAME["store"]
        case InjectedToolCallId():
            return Injected(lambda context: context.tool_call_id)
        case _:
            return None


def _state_of(context: ToolContext, field: str | None) -> Any:
    state = context.state
    if field is None:
        return state
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state).get(field)
    data = getattr(state, "data", state)
    found: Any = cast("Mapping[str, Any]", data).get(field) if isinstance(data, Mapping) else getattr(data, field, None)
    return copy.deepcopy(found)  # calls that run beside each other must not write to what one of them has read

"""Return and parameter hints of the functions of nodes, which declare targets and input schemas."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from statewright.graph.command import Command, Send
from statewright.graph.context import SubgraphLike, is_subgraph
from statewright.graph.functions.parameters import read_parameters
from statewright.state import is_pydantic

Action = Callable[..., Any] | SubgraphLike


def declared_destinations(
    action: Action, declared: Sequence[str] | Mapping[str, str] | None
) -> tuple[tuple[str, ...] | None, bool]:
    """Return the declared targets of a node (None if it declares none), and whether its hint permits any target."""
    if declared is not None:
        return tuple(declared), False
    if is_subgraph(action):
        return None, False
    returns = return_hint(action)
    if returns is None:
        return None, False
    targets = declared_by_hint(returns)
    return targets, targets is None and may_go_anywhere(returns)


def return_hint(action: Action) -> Any:
    """Return the return annotation of a function; None if there is none, or if the function cannot be inspected."""
    try:
        return read_parameters(cast(Any, action)).returns
    except (TypeError, ValueError):
        return None


def input_schema_of(action: Action) -> Any:
    """Return the annotation of the first parameter if it is a schema class; None otherwise."""
    if is_subgraph(action):
        return None
    try:
        hint = read_parameters(cast(Any, action)).state_hint
    except (TypeError, ValueError):
        return None
    return hint if is_schema_class(hint) else None


def is_schema_class(hint: Any) -> bool:
    """Return whether a hint is a TypedDict, a dataclass or a pydantic model."""
    if not isinstance(hint, type):
        return False
    return hasattr(hint, "__required_keys__") or hasattr(hint, "__dataclass_fields__") or is_pydantic(hint)


def literal_names(hint: Any) -> tuple[str, ...] | None:
    """Return the names in `Literal["a", "b"]`, also inside a union, a list or a sequence; None without a Literal."""
    if typing.get_origin(hint) is Literal:
        return tuple(str(name) for name in typing.get_args(hint))
    groups = [names for part in typing.get_args(hint) if (names := literal_names(part)) is not None]
    return tuple(name for names in groups for name in names) if groups else None


def declared_by_hint(returns: Any) -> tuple[str, ...] | None:
    """Return the targets that a return hint declares for Commands; None if it declares none."""
    commands = [part for part in _parts(returns) if typing.get_origin(part) is Command]
    groups = [names for part in commands if (names := literal_names(typing.get_args(part)[0])) is not None]
    return tuple(name for names in groups for name in names) if groups else None


def may_go_anywhere(returns: Any) -> bool:
    """Return whether a return hint admits Commands or Sends without declared targets."""
    return any(part in (Command, Send) or _has_no_targets(part) for part in _parts(returns))


def _has_no_targets(part: Any) -> bool:
    """Return whether a hint is a `Command[...]` without literal targets, such as `Command[str]`."""
    return typing.get_origin(part) is Command and literal_names(typing.get_args(part)[0]) is None


def _parts(hint: Any) -> list[Any]:
    """Return a hint and all hints nested in it, except those inside Command and Literal."""
    if typing.get_origin(hint) in (Command, Literal):
        return [hint]
    return [hint, *(inner for part in typing.get_args(hint) for inner in _parts(part))]

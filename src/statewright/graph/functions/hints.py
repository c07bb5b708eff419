"""Type hints of the functions of nodes, which can declare the targets of Commands and the schema of the input."""

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
    """Return the declared targets of a node, and whether it may choose any node as a target.

    `declared` is the option `destinations`, which takes precedence over the return hint. The targets are None if they
    are not declared. A node may choose any target if its return hint permits Commands or Sends, but names no targets.
    """
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
    """Return the return annotation of a function; None if it has none, or if the function cannot be inspected."""
    try:
        return read_parameters(cast(Any, action)).returns
    except (TypeError, ValueError):
        return None


def input_schema_of(action: Action) -> Any:
    """Return the annotation of a function's first parameter if it is a schema class; None otherwise."""
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
    """Return the names in hints like `Literal["a", "b"]`, which may be nested in a union, a list or a sequence.

    Return None if the hint contains no Literal.
    """
    if typing.get_origin(hint) is Literal:
        return tuple(str(name) for name in typing.get_args(hint))
    groups = [names for part in typing.get_args(hint) if (names := literal_names(part)) is not None]
    return tuple(name for names in groups for name in names) if groups else None


def declared_by_hint(returns: Any) -> tuple[str, ...] | None:
    """Return the targets that a return hint declares for Commands; None if it declares none."""
    commands = [hint for hint in _flatten(returns) if typing.get_origin(hint) is Command]
    groups = [names for hint in commands if (names := literal_names(typing.get_args(hint)[0])) is not None]
    return tuple(name for names in groups for name in names) if groups else None


def may_go_anywhere(returns: Any) -> bool:
    """Return whether a return hint permits Commands or Sends without declaring their targets."""
    return any(hint in (Command, Send) or _has_no_targets(hint) for hint in _flatten(returns))


def _has_no_targets(hint: Any) -> bool:
    """Return whether a hint is a `Command[...]` without literal targets, such as `Command[str]`."""
    return typing.get_origin(hint) is Command and literal_names(typing.get_args(hint)[0]) is None


def _flatten(hint: Any) -> list[Any]:
    """Return a hint and all hints that are nested in it, except the arguments of Command and Literal."""
    if typing.get_origin(hint) in (Command, Literal):
        return [hint]
    return [hint, *(nested for argument in typing.get_args(hint) for nested in _flatten(argument))]

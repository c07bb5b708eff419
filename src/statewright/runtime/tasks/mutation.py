"""Finding out whether a node changed the state in place: `compile(debug=True)`.

Two things are reported. A change of an object that the state shares shows at once in siblings, in checkpoints in
memory and in results, whether the node returns it or not. A change of the node's own copy of a list, dict or set that
it does not return is lost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from statewright.channels import CONTAINERS
from statewright.state import instance_values

MutationSnapshot = dict[str, Any]


def take_snapshot(values: Mapping[str, Any]) -> MutationSnapshot:
    """For each channel, what its value looks like now, in a form that later changes cannot reach."""
    return {name: _look(value, ()) for name, value in values.items()}


def changed_channels(before: MutationSnapshot, values: Mapping[str, Any]) -> list[str]:
    """The channels whose value looks different from before, though nobody wrote it."""
    return [name for name, look in before.items() if name in values and _look(values[name], ()) != look]


def own_containers(state: Any) -> dict[str, Any]:
    """Return the lists, dicts and sets in a node's input, by field: copies that nothing else has."""
    fields = cast("dict[str, Any]", state) if type(state) is dict else instance_values(state) or {}
    return {name: value for name, value in fields.items() if type(value) in CONTAINERS}


def _look(value: Any, inside: tuple[int, ...]) -> Any:
    """The look of containers and their contents; anything else by identity, primitive values by themselves."""
    if id(value) in inside:  # a cycle: it has been looked at further up
        return "..."
    inside = (*inside, id(value))
    if isinstance(value, dict):
        items = cast(dict[Any, Any], value).items()
        return ("dict", tuple((_look(key, inside), _look(one, inside)) for key, one in items))
    if isinstance(value, list | tuple):
        return (
            "list" if isinstance(value, list) else "tuple",
            tuple(_look(one, inside) for one in cast(list[Any], value)),
        )
    if isinstance(value, set | frozenset):
        return ("set", frozenset(cast(set[Any], value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (type(value), tuple(_look(getattr(value, one.name), inside) for one in dataclasses.fields(value)))
    kind = cast(Any, type(cast(object, value)))
    if hasattr(kind, "model_fields"):
        return (kind, tuple(_look(one, inside) for one in vars(value).values()))
    if isinstance(value, float | complex):
        return repr(value)  # NaN is not equal to itself, but looks the same
    return value if isinstance(value, str | bytes | int | bool | None) else id(value)

"""Methods that modify a list or a map. Templates work on copies, so the scope does not change.

Each function takes the rendering, the value and the arguments, and pays for the items that it moves or adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from statewright.workflow.states.expressions.functions import list_items, sort_items
from statewright.workflow.states.templates.rendering import Rendering


def _append(rendering: Rendering, items: list[Any], value: Any) -> None:
    rendering.check_size(len(items))
    items.append(value)


def _extend(rendering: Rendering, items: list[Any], others: Any) -> None:
    new_items = list_items(rendering, others)
    rendering.check_size(len(items) + len(new_items))
    items.extend(new_items)


def _insert(rendering: Rendering, items: list[Any], index: int, value: Any) -> None:
    rendering.reserve(len(items))
    items.insert(index, value)


def _pop_item(rendering: Rendering, items: list[Any], index: int = -1) -> Any:
    if index != -1:  # the following items move
        rendering.spend_pass(items)
    return items.pop(index)


def _remove(rendering: Rendering, items: list[Any], value: Any) -> None:
    rendering.spend_deep(items)
    items.remove(value)


def _reverse(rendering: Rendering, items: list[Any]) -> None:
    rendering.spend_pass(items)
    items.reverse()


def _sort(rendering: Rendering, items: list[Any], reverse: bool = False) -> None:
    items[:] = sort_items(rendering, items, reverse=reverse)


def _clear(rendering: Rendering, value: Any) -> None:
    rendering.spend_pass(value)
    value.clear()


def _update(rendering: Rendering, value: dict[str, Any], *others: dict[str, Any], **kwargs: Any) -> None:
    count = sum(map(len, (*others, kwargs)))
    rendering.check_size(len(value) + count)
    rendering.spend_steps(count)
    value.update(*others, **kwargs)


def _set_default(rendering: Rendering, value: dict[str, Any], key: str, default: Any = None) -> Any:
    rendering.check_size(len(value))
    return value.setdefault(key, default)


def _pop_key(rendering: Rendering, value: dict[str, Any], key: str, *default: Any) -> Any:
    return value.pop(key, *default)


MUTATIONS: Final[dict[tuple[type, str], Callable[..., Any]]] = {
    (list, "append"): _append,
    (list, "clear"): _clear,
    (list, "extend"): _extend,
    (list, "insert"): _insert,
    (list, "pop"): _pop_item,
    (list, "remove"): _remove,
    (list, "reverse"): _reverse,
    (list, "sort"): _sort,
    (dict, "clear"): _clear,
    (dict, "pop"): _pop_key,
    (dict, "setdefault"): _set_default,
    (dict, "update"): _update,
}
"""The methods, by the type of the value and the name of the method."""
MUTATION_NAMES: Final = frozenset(name for _, name in MUTATIONS)

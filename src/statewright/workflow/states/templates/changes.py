"""The methods with which a template may change a list or a map: a copy of its own, never the context.

Each takes the rendering that pays for what is added, the value, and the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from statewright.workflow.states.expressions.functions import sorted_items
from statewright.workflow.states.templates.rendering import Rendering


def _append(rendering: Rendering, items: list[Any], value: Any) -> None:
    items.append(value)


def _extend(rendering: Rendering, items: list[Any], others: list[Any]) -> None:
    rendering.reserve(len(items) + len(others))
    items.extend(list(others))


def _insert(rendering: Rendering, items: list[Any], index: int, value: Any) -> None:
    items.insert(index, value)


def _pop_item(rendering: Rendering, items: list[Any], index: int = -1) -> Any:
    return items.pop(index)


def _remove(rendering: Rendering, items: list[Any], value: Any) -> None:
    rendering.spend_deep(items)
    items.remove(value)


def _reverse(rendering: Rendering, items: list[Any]) -> None:
    items.reverse()


def _sort(rendering: Rendering, items: list[Any], reverse: bool = False) -> None:
    items[:] = sorted_items(rendering, items)[:: -1 if reverse else 1]


def _clear(rendering: Rendering, value: Any) -> None:
    value.clear()


def _update(rendering: Rendering, value: dict[str, Any], *others: dict[str, Any], **named: Any) -> None:
    rendering.reserve(sum(map(len, (value, *others, named))))
    value.update(*others, **named)


def _set_default(rendering: Rendering, value: dict[str, Any], key: str, default: Any = None) -> Any:
    return value.setdefault(key, default)


def _pop_key(rendering: Rendering, value: dict[str, Any], key: str, *default: Any) -> Any:
    return value.pop(key, *default)


CHANGES: Final[dict[tuple[type, str], Callable[..., Any]]] = {
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
CHANGE_NAMES: Final = frozenset(name for _, name in CHANGES)

"""Maps over lists: fan-out and gather by two nodes.

The node that the user declares is called twice. With the state it sends each item to the second node; with the
gathered results it writes them and follows its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, cast

from statewright.checkpoint import stored_as
from statewright.errors import InvalidUpdateError
from statewright.graph.command import Command, Send
from statewright.graph.context import SubgraphLike, is_subgraph
from statewright.graph.functions.parameters import is_coroutine_function, read_parameters, resolved_hints

ITEM_SUFFIX = ".item"
"""Suffix of the node that handles one item."""


class Place(NamedTuple):
    """An item or its result, with its position in the list."""

    position: int
    value: Any


stored_as(52, Place, list, lambda parts: Place(*parts))


def spread_and_collect(name: str, over: str, into: str) -> Callable[[Any], Any]:
    """Return the function of the node that the user declares."""

    def collect(state: Any) -> Any:
        if isinstance(state, list) and all(isinstance(item, Place) for item in cast(list[object], state)):
            return {into: [entry.value for entry in sorted(cast(list[Place], state))]}
        items = _items(state, name, over)
        if not items:
            return {into: []}
        each: Command[Any] = Command(
            goto=[Send(name + ITEM_SUFFIX, Place(position, item)) for position, item in enumerate(items)]
        )
        return each

    return collect


def _items(state: Any, name: str, over: str) -> Sequence[Any]:
    items: Any = cast(Any, state).get(over) if isinstance(state, dict) else getattr(state, over, None)
    if items is None:
        return ()
    if isinstance(items, str | bytes) or not hasattr(items, "__iter__"):
        raise InvalidUpdateError(f"Node {name!r} maps over {over!r}, which is {items!r}. Write a list to it.")
    return list(items)


def one_item(name: str, action: Callable[..., Any] | SubgraphLike) -> Callable[..., Any]:
    """Return the function of the node that handles one item and sends the result to be gathered."""
    if is_subgraph(action):
        return _subgraph_item(name, action)
    function = cast(Callable[..., Any], action)

    @wraps(function)
    async def wait_for(entry: Place, **injected: Any) -> Send:
        return Send(name, Place(entry.position, await function(entry.value, **injected)), gather=True)

    @wraps(function)
    def call(entry: Place, **injected: Any) -> Send:
        return Send(name, Place(entry.position, function(entry.value, **injected)), gather=True)

    wrapper = wait_for if is_coroutine_function(function) else call
    injected = read_parameters(function).asked
    hints = resolved_hints(function)
    # Item and result are neither state nor update, so only the hints of injected parameters are copied.
    wrapper.__annotations__ = {parameter: hints[parameter] for parameter, _ in injected if parameter in hints}
    return wrapper


def _subgraph_item(name: str, action: Any) -> Callable[..., Any]:
    async def run(entry: Place) -> Send:
        return Send(name, Place(entry.position, await action.ainvoke(entry.value)), gather=True)

    return run

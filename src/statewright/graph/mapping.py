"""A node that runs once for each item of a list: the usual fan-out and gather, as two nodes.

The node that users see is called twice. With the state it sends each item to the second node; with what came of all
items, gathered, it writes the results and goes along its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, cast

from statewright.checkpoint import stored_as
from statewright.errors import InvalidUpdateError
from statewright.graph.command import Command, Send
from statewright.graph.context import SubgraphLike, is_subgraph
from statewright.graph.parameters import is_coroutine_function, read_parameters, resolved_hints

ITEM_SUFFIX = ".item"
"""Names the node that handles one item."""


class Place(NamedTuple):
    """One item, or what came of it, with its place in the list."""

    position: int
    value: Any


stored_as(52, Place, list, lambda parts: Place(*parts))


def spread_and_collect(name: str, over: str, into: str) -> Callable[[Any], Any]:
    """The node that users see."""

    def collect(state: Any) -> Any:
        if isinstance(state, list) and all(isinstance(one, Place) for one in cast(list[object], state)):
            return {into: [place.value for place in sorted(cast(list[Place], state))]}
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
        raise InvalidUpdateError(f"Node {name!r} maps over {over!r}, which holds {items!r}: give it a list.")
    return list(items)


def one_item(name: str, action: Callable[..., Any] | SubgraphLike) -> Callable[..., Any]:
    """The node that handles one item, and sends what came of it to be gathered."""
    if is_subgraph(action):
        return _subgraph_item(name, action)
    function = cast(Callable[..., Any], action)

    @wraps(function)
    async def wait_for(place: Place, **asked: Any) -> Send:
        return Send(name, Place(place.position, await function(place.value, **asked)), gather=True)

    @wraps(function)
    def call(place: Place, **asked: Any) -> Send:
        return Send(name, Place(place.position, function(place.value, **asked)), gather=True)

    wrapper = wait_for if is_coroutine_function(function) else call
    asked = read_parameters(function).asked
    hints = resolved_hints(function)
    # Of its hints only those of what it asks for count: item and answer are no state and no update.
    wrapper.__annotations__ = {parameter: hints[parameter] for parameter, _ in asked if parameter in hints}
    return wrapper


def _subgraph_item(name: str, action: Any) -> Callable[..., Any]:
    async def run(place: Place) -> Send:
        return Send(name, Place(place.position, await action.ainvoke(place.value)), gather=True)

    return run

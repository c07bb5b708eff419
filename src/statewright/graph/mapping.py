"""Maps over lists: fan-out and gather by two nodes.

The node that the user adds is executed twice: with the state it sends each item to the second node, and with the
gathered results it writes them and follows its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple, cast

from statewright.checkpoint import register_codec
from statewright.errors import InvalidUpdateError
from statewright.graph.command import Command, Send
from statewright.graph.context import SubgraphLike, is_subgraph
from statewright.graph.functions.parameters import is_coroutine_function, read_parameters, resolved_hints

ITEM_SUFFIX = ".item"
"""Suffix of the node that handles one item."""


class Indexed(NamedTuple):
    """An item or its result, with its position in the list."""

    position: int
    value: Any


register_codec(52, Indexed, list, lambda fields: Indexed(*fields))


def send_and_collect(name: str, over: str, into: str) -> Callable[[Any], Any]:
    """Return the function of the node that the user adds: it sends the items, and later writes their results."""

    def call(state: Any) -> Any:
        if isinstance(state, list) and all(isinstance(item, Indexed) for item in cast(list[object], state)):
            return {into: [result.value for result in sorted(cast(list[Indexed], state))]}
        items = _items(state, name, over)
        if not items:
            return {into: []}
        sends = [Send(name + ITEM_SUFFIX, Indexed(position, item)) for position, item in enumerate(items)]
        command: Command[Any] = Command(goto=sends)
        return command

    return call


def _items(state: Any, name: str, over: str) -> Sequence[Any]:
    items: Any = cast(Any, state).get(over) if isinstance(state, dict) else getattr(state, over, None)
    if items is None:
        return ()
    if isinstance(items, str | bytes) or not hasattr(items, "__iter__"):
        raise InvalidUpdateError(f"Node {name!r} maps over {over!r}, which is not a list, but {items!r}.")
    return list(items)


def item_function(name: str, action: Callable[..., Any] | SubgraphLike) -> Callable[..., Any]:
    """Return the function of the node that handles one item and sends the result to be gathered."""
    if is_subgraph(action):

        async def call_subgraph(item: Indexed) -> Send:
            return Send(name, Indexed(item.position, await cast(Any, action).ainvoke(item.value)), gather=True)

        return call_subgraph
    function = cast(Callable[..., Any], action)

    @wraps(function)
    async def acall(item: Indexed, **injected: Any) -> Send:
        return await acall_item(name, function, item, **injected)

    @wraps(function)
    def call(item: Indexed, **injected: Any) -> Send:
        return call_item(name, function, item, **injected)

    wrapper = acall if is_coroutine_function(function) else call
    remote = acall_item if wrapper is acall else call_item
    vars(wrapper)["remote_form"] = partial(remote, name, function)  # other processes cannot import a local function
    hints = resolved_hints(function)
    # The item is not a state and the result not an update, so only the hints of injected parameters are copied.
    injected = [name for name, _ in read_parameters(function).injected]
    wrapper.__annotations__ = {parameter: hints[parameter] for parameter in injected if parameter in hints}
    return wrapper


def call_item(name: str, function: Callable[..., Any], item: Indexed, **injected: Any) -> Send:
    """Handle one item in another process."""
    return Send(name, Indexed(item.position, function(item.value, **injected)), gather=True)


async def acall_item(name: str, function: Callable[..., Any], item: Indexed, **injected: Any) -> Send:
    """Handle one item by a coroutine function in another process."""
    return Send(name, Indexed(item.position, await function(item.value, **injected)), gather=True)

"""The two nodes of `add_map`, which call a function for each item of a list and gather the results.

The node that the user adds is executed twice. The first time it receives the state, and sends each item to the second
node. The second time it receives the gathered results, writes them, and follows its edges.
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
"""The suffix of the name of the second node."""


class Indexed(NamedTuple):
    """An item or its result, with its position in the list."""

    position: int
    value: Any


register_codec(52, Indexed, list, lambda fields: Indexed(*fields))


def send_and_collect(name: str, over: str, into: str) -> Callable[[Any], Any]:
    """Return the function of the first node, which sends the items in the field `over`, or writes their results to
    `into`.
    """

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
        raise InvalidUpdateError(
            f"Node {name!r} maps over the field {over!r}, which must be a list, but is {items!r}. Write a list to it."
        )
    return list(items)


def item_function(name: str, action: Callable[..., Any] | SubgraphLike) -> Callable[..., Any]:
    """Return the function of the second node, which calls `action` with one item and sends the result to `name`."""
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
    # Only the hints of injected parameters are copied: the hints of the item and the result would be taken for schemas.
    injected = [name for name, _ in read_parameters(function).injected]
    wrapper.__annotations__ = {parameter: hints[parameter] for parameter in injected if parameter in hints}
    return wrapper


def call_item(name: str, function: Callable[..., Any], item: Indexed, **injected: Any) -> Send:
    """Handle one item in another process."""
    return Send(name, Indexed(item.position, function(item.value, **injected)), gather=True)


async def acall_item(name: str, function: Callable[..., Any], item: Indexed, **injected: Any) -> Send:
    """Handle one item by a coroutine function in another process."""
    return Send(name, Indexed(item.position, await function(item.value, **injected)), gather=True)

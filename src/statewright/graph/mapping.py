"""The two nodes of `add_map`, which call a function for each item of a list and gather the results.

The node that the user adds is executed twice. The first time it receives the state, and sends each item to the second
node. The second time it receives the gathered results, writes them, and follows its edges.

Nothing is added to an item or a result, because a million of them wait at once. Their order is that of the tasks: all
items are handled in one superstep, whose results are applied in the order in which the items were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, cast

from statewright.checkpoint import register_codec
from statewright.errors import InvalidUpdateError
from statewright.graph.command import Command, Send
from statewright.graph.context import SubgraphLike, is_subgraph
from statewright.graph.functions.parameters import is_coroutine_function, read_parameters, resolved_hints

ITEM_SUFFIX = ".item"
"""The suffix of the name of the second node."""


class Indexed(NamedTuple):
    """An item or its result, with its position in the list. Only found in threads that earlier versions have saved."""

    position: int
    value: Any


register_codec(52, Indexed, list, lambda fields: Indexed(*fields))


def send_and_collect(name: str, over: str, into: str) -> Callable[[Any], Any]:
    """Return the function of the first node, which sends the items in the field `over`, or writes their results to
    `into`.
    """
    item_node = name + ITEM_SUFFIX

    def call(state: Any) -> Any:
        if isinstance(state, list):  # a state has fields, so these are the gathered results
            return {into: [plain_item(result) for result in cast(list[object], state)]}
        items = _items(state, name, over)
        if not items:
            return {into: []}
        command: Command[Any] = Command(goto=[Send(item_node, item) for item in items])
        return command

    return call


def plain_item(item: Any) -> Any:
    """Return an item or a result as it is sent, of one in a thread that an earlier version has saved."""
    return item.value if type(item) is Indexed else item


def _items(state: Any, name: str, over: str) -> Sequence[Any]:
    items: Any = cast(Any, state).get(over) if isinstance(state, dict) else getattr(state, over, None)
    if items is None:
        return ()
    if isinstance(items, str | bytes) or not hasattr(items, "__iter__"):
        raise InvalidUpdateError(
            f"Node {name!r} maps over the field {over!r}, which must be a list, but is {items!r}. Write a list to it."
        )
    return list(items)


class ItemForm(NamedTuple):
    """The function of the second node in two parts, because a local function cannot be sent to another process."""

    function: Callable[..., Any]
    """Is called with one item."""
    send: Callable[[Any], Send] | None
    """Makes what it returns the answer of the node; None if that is the answer."""


_FORM: Final = "statewright_item_form"


def item_form(action: object) -> ItemForm | None:
    """Return the parts of a function that `item_function` has returned; None for any other."""
    return getattr(action, _FORM, None)


def item_function(name: str, action: Callable[..., Any] | SubgraphLike) -> Callable[..., Any]:
    """Return the function of the second node, which calls `action` with one item and sends the result to `name`.

    Its `item_form` has the parts of it.
    """

    def send(result: Any) -> Send:
        return Send(name, result, gather=True)

    if is_subgraph(action):

        async def call_subgraph(item: Any) -> Send:
            return send(await cast(Any, action).ainvoke(item))

        vars(call_subgraph)[_FORM] = ItemForm(call_subgraph, None)
        return call_subgraph
    function = cast(Callable[..., Any], action)

    @wraps(function)
    async def acall(item: Any, **injected: Any) -> Send:
        return send(await function(item, **injected))

    @wraps(function)
    def call(item: Any, **injected: Any) -> Send:
        return send(function(item, **injected))

    wrapper = acall if is_coroutine_function(function) else call
    vars(wrapper)[_FORM] = ItemForm(function, send)
    hints = resolved_hints(function)
    # Only the hints of injected parameters are copied: the hints of the item and the result would be taken for schemas.
    injected = [name for name, _ in read_parameters(function).injected]
    wrapper.__annotations__ = {parameter: hints[parameter] for parameter in injected if parameter in hints}
    return wrapper

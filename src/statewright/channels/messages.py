"""The channel of conversations, to which updates append messages, or whose messages they replace by id or remove.

A conversation gains a message in nearly every superstep, so adding a message must be fast: for each message in the
list, nothing may cost more than copying the list once. Three rules ensure this.

- `prepare` converts messages and assigns ids, once for each update, when the result of a node is read. The ids are
  derived from the task, so a task that is executed again gets the same ids. They are known to be new, so they need not
  be looked up in the list.
- An index from id to position is built only when a message first arrives that already had an id. It then moves from
  each list to its successor. If a list whose index has moved needs an index again, for example because of a fork, it
  builds a new one.
- A batch in which all messages are new is appended by one `extend`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast

from statewright.channels.channel import MISSING, Channel, Overwrite, find_overwrite
from statewright.channels.delta import Added, Merged
from statewright.errors import InvalidUpdateError, suggestion
from statewright.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage, as_message, copied, encodable_message


class _Indexes:
    """The indexes, from message id to position, of recently merged lists of messages.

    They are stored separately, so that the lists remain builtin lists, which are copied in C. Each index belongs to one
    list. To merge an update, `take` removes the index of the old list, and it is extended and stored for the new list.
    Only `size` indexes are stored; others are built again if they are needed.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._by_list: dict[int, tuple[list[Message], int, dict[str, int]]] = {}
        """The list, its length and its index, by the object id of the list."""

    def take(self, messages: list[Message]) -> dict[str, int] | None:
        """Remove and return the index of a list; None if there is none, or if the list has changed since."""
        entry = self._by_list.pop(id(messages), None)  # an atomic operation, so two runs never extend the same index
        if entry is None or entry[0] is not messages or entry[1] != len(messages):
            return None
        return entry[2]

    def keep(self, messages: list[Message], index: dict[str, int]) -> None:
        self._by_list[id(messages)] = (messages, len(messages), index)
        while len(self._by_list) > self._size:
            try:
                self._by_list.pop(next(iter(self._by_list)), None)
            except (RuntimeError, StopIteration):  # another thread has changed the dict meanwhile
                return


_indexes: Final = _Indexes(size=64)
_DERIVED_ID: Final = re.compile("[0-9a-f]{32}(-[0-9]+)+")
"""Matches ids that are derived from a task, which `prepare` assigns, and which messages from models have too."""


class MessageBatch:
    """An update of a conversation, as `Messages.prepare` returns it: messages with ids, and removals."""

    __slots__ = ("all_new", "items")

    def __init__(self, items: list[Message | RemoveMessage], *, all_new: bool) -> None:
        self.items = items
        self.all_new = all_new
        """True if `prepare` has assigned all ids, so that the list cannot contain them yet."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageBatch) and self.items == other.items

    def __hash__(self) -> int:
        return hash(tuple(item.id for item in self.items))

    def __repr__(self) -> str:
        return f"MessageBatch({self.items!r})"


class Messages(Channel):
    """A conversation: updates append messages, replace messages with the same ids, or remove messages."""

    prepares: ClassVar[bool] = True
    keeps_update: ClassVar[bool] = False

    def start(self) -> list[Message]:
        return []

    def prepare(self, update: Any, task_id: str) -> Any:
        if type(update) is MessageBatch:
            return update
        new_value = find_overwrite((update,))
        if new_value is not MISSING:
            return Overwrite(self.apply(MISSING, [self.prepare(new_value, task_id)]))
        return self.batch(_items(update), task_id)

    def batch(self, items: Sequence[Any], task_id: str) -> MessageBatch:
        """Return a batch of the items, converted to messages. Messages without an id get one derived from the task."""
        all_new = True
        batch: list[Any] = []
        for position, item in enumerate(items):
            message = encodable_message(item) if type(item) is Message else as_message(item)
            if message.id is None:
                if message is item:  # the message belongs to the node or the caller, so it must not be modified
                    message = copied(message)
                message.id = f"{task_id}-{position}"
            else:
                all_new = False
            batch.append(message)
        return MessageBatch(batch, all_new=all_new)

    def apply(self, current: Any, updates: Sequence[Any]) -> list[Message]:
        new_value = find_overwrite(updates)
        if new_value is not MISSING:
            return [cast(Message, as_message(item)) for item in new_value]
        old: list[Message] = [] if current is MISSING or current is None else current
        new = old.copy()
        index = _indexes.take(old)
        for update in updates:
            batch = update if type(update) is MessageBatch else self.prepare(update, os.urandom(8).hex())
            index = _extend(new, batch, index) if batch.all_new else _merge(new, batch, index)
        if index is not None:
            _indexes.keep(new, index)
        return new

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """Return the items of all batches, or the whole list if there is an Overwrite."""
        if find_overwrite(updates) is not MISSING:
            return new
        items = [item for batch in updates for item in batch.items]
        return (Added if all(batch.all_new for batch in updates) else Merged)(items)


def without_derived_ids(batch: MessageBatch, current: Any) -> list[Message | RemoveMessage]:
    """Return the items of a batch without ids that were derived from the task, so that another task can assign its own.

    Ids that the node has chosen are kept. So are the ids of messages in `current`, which the batch replaces.
    """
    existing_ids = {message.id for message in current or ()} if not batch.all_new else frozenset[str]()

    def has_derived_id(item: Message | RemoveMessage) -> bool:
        return item.id not in existing_ids and (batch.all_new or bool(_DERIVED_ID.fullmatch(str(item.id))))

    return [_without_id(item) if has_derived_id(item) else item for item in batch.items]


def _without_id(item: Any) -> Any:
    """Return a message, or a LangChain message, without its id; return a removal unchanged."""
    if type(item) is Message:
        item = copied(item)
        item.id = None
    elif hasattr(item, "model_copy") and item.type != "remove":
        item = item.model_copy(update={"id": None})
    return item


def add_messages(left: Any, right: Any) -> list[Message]:
    """Return the messages `left` after the update `right`.

    Messages in the update are appended, or replace messages with the same ids; removals remove messages. In an
    annotation, this reducer stands for the channel `Messages`. Messages without an id get a random id. Raises
    InvalidUpdateError if an item is not a message, or if a message to remove does not exist.
    """
    channel = Messages()
    start = channel.apply(MISSING, [channel.prepare(left, os.urandom(8).hex())])
    return channel.apply(start, [channel.prepare(right, os.urandom(8).hex())])


def _items(update: Any) -> Sequence[Any]:
    """Return the items of a list, or of a tuple that is not a `(role, text)` pair; none for None.

    Any other update is a single item.
    """
    if isinstance(update, list):
        return cast(list[Any], update)
    if update is None:
        return ()
    if isinstance(update, tuple):
        items = cast(tuple[Any, ...], update)
        return (items,) if len(items) == 2 and isinstance(items[0], str) else items
    return (update,)


def _extend(new: list[Message], batch: MessageBatch, index: dict[str, int] | None) -> dict[str, int] | None:
    """Append a batch of new messages, and return the extended index; return None if there is no index."""
    if index is not None:
        for position, message in enumerate(batch.items, len(new)):
            index[cast(str, message.id)] = position
    new.extend(cast(list[Message], batch.items))
    return index


def _merge(new: list[Message], batch: MessageBatch, index: dict[str, int] | None) -> dict[str, int]:
    """Merge a batch into `new`, which may already contain its ids, and return the index of the result."""
    if index is None:
        index = _build_index(new)
    has_removals = False
    for message in batch.items:
        if type(message) is not RemoveMessage:
            position = index.setdefault(cast(str, message.id), len(new))
            new[position : position + 1] = [cast(Message, message)]
        elif message.id == REMOVE_ALL_MESSAGES:
            new.clear()
            index = {}
        else:
            _mark_removed(new, index, message.id)
            has_removals = True
    if has_removals:
        new[:] = [message for message in new if message is not MISSING]
        index = _build_index(new)
    return index


def _mark_removed(new: list[Message], index: dict[str, int], removed_id: str) -> None:
    """Replace a message with MISSING, so that the positions of other messages do not change before the batch ends."""
    position = index.pop(removed_id, None)
    if position is None:
        raise InvalidUpdateError(
            f"There is no message {removed_id!r} to remove. " + suggestion(removed_id, index, noun="Messages")
        )
    new[position] = MISSING


def _build_index(messages: list[Message]) -> dict[str, int]:
    return {cast(str, message.id): position for position, message in enumerate(messages)}

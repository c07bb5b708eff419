"""A channel for conversations of LangChain messages, which merges updates like LangGraph's `add_messages`.

LangChain messages keep their classes. Our messages, dicts, `(role, text)` pairs and text are converted to LangChain
messages, and chunks to complete messages. A message without an id gets an id that is derived from the task, as in
`channels.messages`, so that a replayed task generates the same ids. Such a message is copied, so that the caller's
object is not changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, cast

from statewright.channels import MISSING, Added, Merged, MessageBatch, Messages, find_overwrite
from statewright.errors import InvalidUpdateError, suggestion
from statewright.langchain.messages import is_langchain_message, to_langchain
from statewright.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage, ToolResult

Format = Literal["langchain-openai"]


class LangChainMessages(Messages):
    """A channel with a list of LangChain messages, which updates append, replace in place by id, or remove.

    With `format="langchain-openai"`, the content of all messages is converted to OpenAI's format.
    """

    def __init__(self, *, format: Format | None = None) -> None:  # noqa: A002  # LangGraph's word
        if format not in (None, "langchain-openai"):
            raise InvalidUpdateError(f"Unknown format {format!r}. Formats: 'langchain-openai'.")
        self.format = format

    def batch(self, items: Sequence[Any], task_id: str) -> MessageBatch:
        all_new = True
        batch: list[Any] = []
        for position, item in enumerate(items):
            message = coerce_message(item)
            if message.id is None:
                message = message.model_copy(update={"id": f"{task_id}-{position}"})
            else:
                all_new = False
            batch.append(message)
        return MessageBatch(batch, all_new=all_new)

    def apply(self, current: Any, updates: Sequence[Any]) -> list[Any]:
        replaced = find_overwrite(updates)
        if replaced is not MISSING:
            return [coerce_message(item) for item in replaced]
        merged: list[Any] = [] if current is MISSING or current is None else current.copy()
        for update in updates:
            batch = update if type(update) is MessageBatch else self.prepare(update, os.urandom(8).hex())
            if batch.all_new:
                merged.extend(batch.items)
            else:
                merged = _merge(merged, batch.items)
        return merged if self.format is None else _as_openai(merged)

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """Return the new and the changed messages; or the whole list, if messages were removed or overwritten."""
        if self.format is not None or find_overwrite(updates) is not MISSING:
            return new
        items = [item for batch in updates for item in batch.items]
        if any(item.type == "remove" for item in items):
            return new  # which messages remain cannot be derived from the update alone
        return (Added if all(batch.all_new for batch in updates) else Merged)(items)


def add_messages(left: Any = None, right: Any = None, *, format: Format | None = None) -> Any:  # noqa: A002
    """Merge the messages of `right` into those of `left`: append them, replace messages with the same ids, or remove.

    As the reducer of a field, it stands for a `LangChainMessages` channel. Called with `format` alone, it returns such
    a reducer. Messages without an id get a random id. Raises ValueError if one of the lists is missing; and
    InvalidUpdateError for anything that is not a message, and for the removal of a message that does not exist.
    """
    channel = LangChainMessages(format=format)
    if left is None and right is None:
        return _with_channel(partial(add_messages, format=format), channel)
    if left is None or right is None:
        raise ValueError(f"add_messages takes two lists of messages; {'left' if left is None else 'right'} is None.")
    before = channel.prepare(left, os.urandom(8).hex()).items
    return channel.apply(before, [channel.prepare(right, os.urandom(8).hex())])


def _with_channel(function: Any, channel: LangChainMessages) -> Callable[[Any, Any], list[Any]]:
    """Attach the channel that a state uses in place of this reducer, because the channel stores only the changes."""
    function.channel = channel
    return function


_with_channel(add_messages, LangChainMessages())


def coerce_message(item: Any) -> Any:
    """Convert a value to a LangChain message. Raises InvalidUpdateError if it is not a message in an accepted form."""
    from langchain_core.messages import BaseMessageChunk, convert_to_messages, message_chunk_to_message

    if is_langchain_message(item):
        return message_chunk_to_message(item) if isinstance(item, BaseMessageChunk) else item
    if isinstance(item, Message | RemoveMessage | ToolResult):
        return to_langchain(item)
    try:
        return convert_to_messages([item])[0]
    except (NotImplementedError, ValueError, TypeError, KeyError) as error:
        raise InvalidUpdateError(
            f"A message was expected, found {item!r} of type {type(item).__name__}: {error}. Write a LangChain "
            f"message, a Message, a dict with 'role' and 'content', a (role, text) pair, or text."
        ) from error


def _merge(messages: list[Any], items: Sequence[Any]) -> list[Any]:
    """Return the messages merged with the items of an update, which may replace or remove some of them."""
    last_clear = max((index for index, item in enumerate(items) if _is_clear(item)), default=None)
    if last_clear is not None:
        messages, items = [], items[last_clear + 1 :]
    merged = messages.copy()
    index_by_id = {message.id: index for index, message in enumerate(merged)}
    removed: set[str] = set()
    for item in items:
        index = index_by_id.get(item.id)
        if item.type == "remove":
            if index is None:
                hint = suggestion(str(item.id), cast("dict[str, int]", index_by_id), noun="Messages")
                raise InvalidUpdateError(f"Message {item.id!r} cannot be removed, because it does not exist. {hint}")
            removed.add(item.id)
        elif index is not None:
            removed.discard(item.id)  # a message that is removed and then written again keeps its position
            merged[index] = item
        else:
            index_by_id[item.id] = len(merged)
            merged.append(item)
    return [message for message in merged if message.id not in removed] if removed else merged


def _is_clear(item: Any) -> bool:
    """Return True for a RemoveMessage that removes all messages before it."""
    return item.type == "remove" and item.id == REMOVE_ALL_MESSAGES


def _as_openai(messages: list[Any]) -> list[Any]:
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages

    return convert_to_messages(cast("Any", convert_to_openai_messages(messages, include_id=True)))

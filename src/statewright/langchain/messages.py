"""Public functions that convert between our messages and LangChain's. The module `langchain_forms` implements them."""

from __future__ import annotations

from typing import Any, cast, overload

from statewright.langchain_forms import is_langchain_message, write_langchain, write_removal
from statewright.messages import Message, RemoveMessage, as_message, form_of

__all__ = ["from_langchain", "is_langchain_message", "to_langchain"]


@overload
def from_langchain(messages: list[Any]) -> list[Message | RemoveMessage]: ...
@overload
def from_langchain(messages: object) -> Any: ...
def from_langchain(messages: object) -> Any:
    """Convert a LangChain message, or a list of LangChain messages, to our messages.

    Our own messages, dicts, `(role, text)` pairs and text are accepted too, as by `statewright.add_messages`. Raises
    InvalidUpdateError for anything else.
    """
    if isinstance(messages, list):
        return [as_message(message) for message in cast("list[Any]", messages)]
    return as_message(messages)


@overload
def to_langchain(messages: list[Any]) -> list[Any]: ...
@overload
def to_langchain(messages: object) -> Any: ...
def to_langchain(messages: object) -> Any:
    """Convert a message, or a list of messages, to LangChain messages. LangChain messages are returned unchanged.

    Raises ImportError if langchain-core is not installed, and InvalidUpdateError for anything that is not a message.
    """
    if isinstance(messages, list):
        return [_to_langchain(message) for message in cast("list[Any]", messages)]
    return _to_langchain(messages)


def _to_langchain(value: object) -> Any:
    if is_langchain_message(value):
        return value
    message = as_message(value)
    return write_removal(message.id) if isinstance(message, RemoveMessage) else write_langchain(form_of(message))

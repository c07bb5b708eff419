"""How many tokens messages come to, as a rule of thumb that needs no provider."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from statewright.messages import Message

CHARACTERS: Final = 4
"""Of a text, for one token."""
OTHER_PART: Final = 1000
"""Tokens of a part that is no text, an image say."""


def estimate_tokens(messages: Message | Iterable[Message]) -> int:
    """About how many tokens one message or several come to: four characters each, and calls of tools with them."""
    if isinstance(messages, Message):
        return -(-_characters(messages) // CHARACTERS) + _other_parts(messages) * OTHER_PART
    return sum(estimate_tokens(message) for message in messages)


def _characters(message: Message) -> int:
    return len(message.text) + sum(len(call.name) + len(call.written) for call in message.tool_calls)


def _other_parts(message: Message) -> int:
    if isinstance(message.content, str):
        return 0
    return sum(part.get("type") != "text" for part in message.content)

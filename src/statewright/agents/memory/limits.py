"""Limits on messages and tokens, with an estimate of tokens that needs no provider."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from statewright.agents.memory.conversation import Conversation
from statewright.errors import InvalidConfig
from statewright.messages import Message

CHARACTERS: Final = 4
"""Characters of text per token."""
OTHER_PART: Final = 1000
"""Tokens of a part that is not text, such as an image."""


def estimate_tokens(messages: Message | Iterable[Message]) -> int:
    """Estimate the tokens of messages, tool calls included: one for every four characters."""
    if isinstance(messages, Message):
        return -(-_characters(messages) // CHARACTERS) + _other_parts(messages) * OTHER_PART
    return sum(estimate_tokens(message) for message in messages)


def _characters(message: Message) -> int:
    return len(message.text) + sum(len(call.name) + len(call.written) for call in message.tool_calls)


def _other_parts(message: Message) -> int:
    if isinstance(message.content, str):
        return 0
    return sum(part.get("type") != "text" for part in message.content)


# -- limits


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum messages, not counting leading system messages, and maximum tokens, counting them."""

    messages: int | None = None
    tokens: int | None = None

    def allow(self, messages: Sequence[Message], tokens_besides: int = 0) -> bool:
        """Return True if the messages are within the limits."""
        if self.messages is not None and len(messages) > self.messages:
            return False
        return self.tokens is None or estimate_tokens(messages) + tokens_besides <= self.tokens

    def half(self) -> Limits:
        """Return limits of half the size."""
        return Limits(*(None if limit is None else max(limit // 2, 1) for limit in (self.messages, self.tokens)))

    def without(self, messages: Sequence[Message]) -> Limits:
        """Return the limits that remain after these messages."""
        taken = len(messages), estimate_tokens(messages)
        return Limits(
            *(
                None if limit is None else max(limit - used, 1)
                for limit, used in zip((self.messages, self.tokens), taken, strict=True)
            )
        )


class _RemainingLimits:
    """The remainder of limits."""

    def __init__(self, limits: Limits, tokens_besides: int) -> None:
        self._messages = limits.messages
        self._tokens = None if limits.tokens is None else limits.tokens - tokens_besides

    def use(self, messages: Sequence[Message]) -> None:
        """Subtract messages, even beyond the limits."""
        if self._messages is not None:
            self._messages -= len(messages)
        if self._tokens is not None:
            self._tokens -= estimate_tokens(messages)

    def take(self, messages: Sequence[Message]) -> bool:
        """Subtract messages if they fit; return whether they did."""
        if self._messages is not None and len(messages) > self._messages:
            return False
        if self._tokens is not None and estimate_tokens(messages) > self._tokens:
            return False
        self.use(messages)
        return True


def recent_start(conversation: Conversation, limits: Limits) -> int:
    """Return the first unit to send so that a conversation stays within the limits.

    It is the first of a turn, unless not even the last turn fits: then it lies within that, and the message of the user
    that began the turn is sent too. That message and the last unit are always sent; a model without the results of its
    calls would repeat them forever.
    """
    units = conversation.units
    if not units:
        return 0
    room = _RemainingLimits(limits, estimate_tokens(conversation.head))
    last = len(units) - 1
    anchor = conversation.anchor
    for n in {last} if anchor is None else {anchor, last}:
        room.use(units[n])
    first = 0 if anchor is None else anchor + 1
    for n in reversed(range(first, last)):
        if not room.take(units[n]):
            return n + 1
    return 0 if anchor is None else _start_with_turns(conversation, anchor, room)


def _start_with_turns(conversation: Conversation, start: int, room: _RemainingLimits) -> int:
    """Move the start back over all earlier turns that fit."""
    for turn in reversed(conversation.turns()):
        before = range(turn.start, min(turn.stop, start))
        if not before:
            continue
        if not room.take([message for n in before for message in conversation.units[n]]):
            break
        start = turn.start
    return start


def check_at_least(least: int, owner: str, **values: int | None) -> None:
    """Raise InvalidConfig for a value that is not an integer of at least `least`."""
    for name, value in values.items():
        if value is not None and (type(value) is not int or value < least):
            raise InvalidConfig(f"{owner}({name}={value!r}): give a whole number of at least {least}.")


# -- statistics


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Sizes of a conversation and of the selected messages. Tokens are estimated."""

    messages: int
    tokens: int
    sent_messages: int
    sent_tokens: int


def memory_stats(messages: Sequence[Message], selected: Sequence[Message]) -> MemoryStats:
    """Return the sizes of a conversation and of the selected messages."""
    return MemoryStats(len(messages), estimate_tokens(messages), len(selected), estimate_tokens(selected))

"""A conversation divided into units that are sent or left out as a whole, and the limits by which they are chosen.

A unit is one message, or an assistant message with tool calls together with everything up to the last of its results.
A turn begins with a message of the user. Results without their call, and calls without all of their results, belong to
no unit: every provider refuses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import inf
from typing import Final

from statewright.errors import InvalidConfig
from statewright.messages import Message

Unit = tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The system messages at the start, and the units after them."""

    head: Unit
    units: Sequence[Unit]

    @property
    def last_user_unit(self) -> int | None:
        """The number of the unit with the last message of the user."""
        return next((index for index in reversed(range(len(self.units))) if _has_user(self.units[index])), None)

    def turns(self) -> list[range]:
        """Return the units of each turn. Units before the first message of the user are a turn too."""
        starts = [index for index, unit in enumerate(self.units) if index == 0 or unit[0].role == "user"]
        return [range(start, end) for start, end in pairwise([*starts, len(self.units)])]

    def messages(self, units: Iterable[int]) -> list[Message]:
        """Return the messages of some units and of the anchor, in order."""
        last_user_unit = self.last_user_unit
        chosen = set(units) if last_user_unit is None else {last_user_unit, *units}
        return [message for index in sorted(chosen) for message in self.units[index]]

    def since(self, start: int) -> list[Message]:
        """Return the messages from a unit on, preceded by the anchor if it is earlier."""
        return self.messages(range(start, len(self.units)))


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Split messages into head and units; unmatched calls and results are left out."""
    head = tuple(takewhile(lambda message: message.role == "system", messages))
    body = messages[len(head) :]
    results = _results_by_call(body)
    answered = {call: positions for call, positions in results.items() if _is_answered(body, call, positions)}
    spans = {call: max(positions) for call, positions in answered.items()}
    sent = {index for index, message in enumerate(body) if message.role != "tool" and not message.tool_calls}
    sent.update(spans, *answered.values())
    return Conversation(head, _units(body, sorted(sent), spans))


def _results_by_call(body: Sequence[Message]) -> dict[int, list[int]]:
    """Return the positions of the results of each message with calls. Ids may repeat: the nearest call counts."""
    latest: dict[str, int] = {}
    results: dict[int, list[int]] = {}
    for index, message in enumerate(body):
        if message.tool_calls:
            results[index] = []
            latest.update({call.id: index for call in message.tool_calls})
        elif message.role == "tool" and (call := latest.get(message.tool_call_id or "")) is not None:
            results[call].append(index)
    return results


def _is_answered(body: Sequence[Message], call: int, results: Sequence[int]) -> bool:
    answered = {body[index].tool_call_id or "" for index in results}
    return answered == {tool_call.id for tool_call in body[call].tool_calls}


def _units(body: Sequence[Message], sent: Sequence[int], spans: dict[int, int]) -> list[Unit]:
    """Group the messages to send into units: everything between a call and its last result is one."""
    units: list[list[Message]] = []
    end = -1
    for index in sent:
        if index > end:
            units.append([])
        units[-1].append(body[index])
        end = max(end, spans.get(index, index))
    return [tuple(unit) for unit in units]


def _has_user(unit: Unit) -> bool:
    return any(message.role == "user" for message in unit)


# -- tokens: an estimate that needs no provider

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

    messages: float = inf
    tokens: float = inf

    def allow(self, messages: Sequence[Message], further_tokens: int = 0) -> bool:
        """Return True if the messages are within the limits."""
        return not self.minus(messages, further_tokens).are_exceeded

    def half(self) -> Limits:
        """Return limits of half the size, at least 1 each."""
        return Limits(max(self.messages / 2, 1), max(self.tokens / 2, 1))

    def without(self, messages: Sequence[Message]) -> Limits:
        """Return the limits that remain after these messages, at least 1 each."""
        remaining = self.minus(messages)
        return Limits(max(remaining.messages, 1), max(remaining.tokens, 1))

    def minus(self, messages: Sequence[Message], further_tokens: int = 0) -> Limits:
        """Return the limits less these messages, below zero if they do not fit."""
        tokens = estimate_tokens(messages) + further_tokens if self.tokens < inf else 0
        return Limits(self.messages - len(messages), self.tokens - tokens)

    @property
    def are_exceeded(self) -> bool:
        """True for limits below zero."""
        return min(self.messages, self.tokens) < 0


def recent_start(conversation: Conversation, limits: Limits) -> int:
    """Return the first unit to send so that a conversation stays within the limits.

    It is the first of a turn, unless not even the last turn fits: then it lies within that, and the message of the user
    that began the turn is sent too. That message and the last unit are always sent; a model without the results of its
    calls would repeat them forever.
    """
    units = conversation.units
    if not units:
        return 0
    room = Limits(limits.messages, limits.tokens - estimate_tokens(conversation.head))
    last = len(units) - 1
    last_user_unit = conversation.last_user_unit
    for index in {last} if last_user_unit is None else {last_user_unit, last}:
        room = room.minus(units[index])
    first = 0 if last_user_unit is None else last_user_unit + 1
    for index in reversed(range(first, last)):
        remaining = room.minus(units[index])
        if remaining.are_exceeded:
            return index + 1
        room = remaining
    return 0 if last_user_unit is None else _start_with_turns(conversation, last_user_unit, room)


def _start_with_turns(conversation: Conversation, start: int, room: Limits) -> int:
    """Move the start back over all earlier turns that fit."""
    for turn in reversed(conversation.turns()):
        before = range(turn.start, min(turn.stop, start))
        if not before:
            continue
        room = room.minus([message for index in before for message in conversation.units[index]])
        if room.are_exceeded:
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

"""A conversation divided into units, which are sent or left out as a whole, and the limits by which they are selected.

A unit is a single message; or an assistant message with tool calls, and all messages after it up to the last result of
these calls. A turn is a sequence of units that begins with a user message. Providers refuse results without a call, and
messages with calls of which a result is missing; such messages belong to no unit, and are left out.
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
    """The leading system messages of a conversation, and the units after them."""

    head: Sequence[Message]
    """The leading system messages."""
    units: Sequence[Unit]

    @property
    def last_user_unit(self) -> int | None:
        """The index of the unit with the last user message, which is always sent; None if there is no user message."""
        return next((index for index in reversed(range(len(self.units))) if _has_user(self.units[index])), None)

    def turns(self) -> list[range]:
        """Return the range of unit indices of each turn. Units before the first user message form a turn too."""
        starts = [index for index, unit in enumerate(self.units) if index == 0 or unit[0].role == "user"]
        return [range(start, end) for start, end in pairwise([*starts, len(self.units)])]

    def messages(self, units: Iterable[int]) -> list[Message]:
        """Return the messages of the units with these indices, and of the last user unit, in order."""
        last_user_unit = self.last_user_unit
        selected = set(units) if last_user_unit is None else {last_user_unit, *units}
        return [message for index in sorted(selected) for message in self.units[index]]

    def since(self, start: int) -> list[Message]:
        """Return the messages of all units from the index `start` on, and before them the last user unit if earlier."""
        return self.messages(range(start, len(self.units)))


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Divide messages into leading system messages and units, leaving out unmatched tool calls and results."""
    head = tuple(takewhile(lambda message: message.role == "system", messages))
    body = messages[len(head) :]
    results = _results_by_request(body)
    complete_rounds = {request: indices for request, indices in results.items() if _is_complete(body, request, indices)}
    last_results = {request: max(indices) for request, indices in complete_rounds.items()}
    valid_indices = {index for index, message in enumerate(body) if message.role != "tool" and not message.tool_calls}
    valid_indices.update(last_results, *complete_rounds.values())
    return Conversation(head, _units(body, sorted(valid_indices), last_results))


def _results_by_request(body: Sequence[Message]) -> dict[int, list[int]]:
    """Return the indices of the results of each message with tool calls, by the index of that message.

    If several calls have the same id, a result belongs to the last call before it.
    """
    request_by_call_id: dict[str, int] = {}
    """The index of the last message so far that has a call with this id."""
    results: dict[int, list[int]] = {}
    for index, message in enumerate(body):
        if message.tool_calls:
            results[index] = []
            request_by_call_id.update({call.id: index for call in message.tool_calls})
        elif message.role == "tool" and (request := request_by_call_id.get(message.tool_call_id or "")) is not None:
            results[request].append(index)
    return results


def _is_complete(body: Sequence[Message], request: int, results: Sequence[int]) -> bool:
    """Return True if all tool calls of the message with the index `request` have results."""
    result_ids = {body[index].tool_call_id or "" for index in results}
    return result_ids == {call.id for call in body[request].tool_calls}


def _units(body: Sequence[Message], valid_indices: Sequence[int], last_results: dict[int, int]) -> list[Unit]:
    """Group the messages with valid indices into units.

    `last_results` maps the index of each message with tool calls to the index of the last result of these calls.
    """
    units: list[list[Message]] = []
    end = -1
    for index in valid_indices:
        if index > end:
            units.append([])
        units[-1].append(body[index])
        end = max(end, last_results.get(index, index))
    return [tuple(unit) for unit in units]


def _has_user(unit: Unit) -> bool:
    return any(message.role == "user" for message in unit)


# -- tokens, estimated without a provider

CHARACTERS_PER_TOKEN: Final = 4
TOKENS_PER_FILE: Final = 1000
"""Estimated tokens of a message part that is not text, such as an image."""


def estimate_tokens(messages: Message | Iterable[Message]) -> int:
    """Return the estimated number of tokens of messages, including tool calls: a quarter of their characters.

    The estimate of each message is rounded up.
    """
    if not isinstance(messages, Message):
        return sum(estimate_tokens(message) for message in messages)
    message = messages
    characters = len(message.text) + sum(len(call.name) + len(call.written) for call in message.tool_calls)
    parts = [] if isinstance(message.content, str) else message.content
    files = sum(part.get("type") != "text" for part in parts)
    return -(-characters // CHARACTERS_PER_TOKEN) + files * TOKENS_PER_FILE


# -- limits


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the messages to send; infinity means no limit."""

    messages: float = inf
    """Maximum number of messages, not counting leading system messages."""
    tokens: float = inf
    """Maximum number of tokens, counting those of leading system messages too."""

    def allow(self, messages: Sequence[Message], further_tokens: int = 0) -> bool:
        """Return True if the messages, and `further_tokens` in addition to their tokens, are within the limits."""
        return not self.minus(messages, further_tokens).are_exceeded

    def half(self) -> Limits:
        """Return half of both limits, but at least 1 each."""
        return Limits(max(self.messages / 2, 1), max(self.tokens / 2, 1))

    def without(self, messages: Sequence[Message]) -> Limits:
        """Return the limits that remain for other messages if these are sent, but at least 1 each."""
        remaining = self.minus(messages)
        return Limits(max(remaining.messages, 1), max(remaining.tokens, 1))

    def minus(self, messages: Sequence[Message], further_tokens: int = 0) -> Limits:
        """Return the limits that remain for other messages if these are sent; below zero if these exceed the limits."""
        tokens = estimate_tokens(messages) + further_tokens if self.tokens < inf else 0
        return Limits(self.messages - len(messages), self.tokens - tokens)

    @property
    def are_exceeded(self) -> bool:
        """True if a limit is below zero."""
        return min(self.messages, self.tokens) < 0


def recent_start(conversation: Conversation, limits: Limits) -> int:
    """Return the index of the first unit to send so that a conversation stays within the limits.

    It is the first unit of a turn if at least the last turn fits. Otherwise it is a later unit of the last turn, and
    the user message of that turn is sent too. The last user message and the last unit are always sent, because a model
    that does not see the results of its tool calls would repeat the calls forever.
    """
    units = conversation.units
    if not units:
        return 0
    remaining = Limits(limits.messages, limits.tokens - estimate_tokens(conversation.head))
    last = len(units) - 1
    last_user_unit = conversation.last_user_unit
    for index in {last} if last_user_unit is None else {last_user_unit, last}:
        remaining = remaining.minus(units[index])
    first = 0 if last_user_unit is None else last_user_unit + 1
    for index in reversed(range(first, last)):
        remaining = remaining.minus(units[index])
        if remaining.are_exceeded:
            return index + 1
    return 0 if last_user_unit is None else _start_with_turns(conversation, last_user_unit, remaining)


def _start_with_turns(conversation: Conversation, start: int, remaining: Limits) -> int:
    """Return the first unit of the earliest turn such that all units from it up to `start` fit into `remaining`.

    Return `start` if no further turn fits.
    """
    for turn in reversed(conversation.turns()):
        earlier_units = range(turn.start, min(turn.stop, start))
        if not earlier_units:
            continue
        remaining = remaining.minus([message for index in earlier_units for message in conversation.units[index]])
        if remaining.are_exceeded:
            break
        start = turn.start
    return start


def check_positive(owner: str, **values: int | None) -> None:
    """Raise InvalidConfig for a value that is neither a positive integer nor None. `owner` is the name in the error."""
    for name, value in values.items():
        if value is not None and (type(value) is not int or value < 1):
            raise InvalidConfig(f"{name} of {owner} is {value!r}. Pass a positive integer.")


# -- statistics


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """The sizes of a conversation and of the messages selected from it. Tokens are estimated."""

    messages: int
    tokens: int
    sent_messages: int
    sent_tokens: int


def memory_stats(messages: Sequence[Message], selected: Sequence[Message]) -> MemoryStats:
    """Return the sizes of a conversation and of the messages selected from it."""
    return MemoryStats(len(messages), estimate_tokens(messages), len(selected), estimate_tokens(selected))

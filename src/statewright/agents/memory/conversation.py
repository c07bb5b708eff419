"""A conversation divided into units that are sent or left out as a whole, and turns of units.

A unit is one message, or an assistant message with tool calls together with everything up to the last of its results.
A turn begins with a message of the user. Results without their call, and calls without all of their results, belong to
no unit: every provider refuses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

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

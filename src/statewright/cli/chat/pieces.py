"""What is shown of a run, in an order that can be read.

Several agents may speak at once. One of them is let finish; what the others say meanwhile is kept, and follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, cast

from statewright.messages import Message
from statewright.models import MessageChunk, ToolCallDelta, Usage


@dataclass(frozen=True, slots=True)
class Shown:
    """Something to be shown."""

    kind: Literal["text", "thought", "call", "result", "failure", "again", "end"]
    """Of `end`: what was said by one speaker is complete; of `again`: it is not, and is going to be said anew."""
    text: str = ""
    name: str = ""
    """Who speaks, or the tool."""


class _Question(NamedTuple):
    """What a model is asked: the task that asks, and the how many-th of its questions this is."""

    task: str
    place: str


_MESSAGE_ID: Final = re.compile(r"([^-]+)-(\d+)(?:-\d+)*")
"""A task, the place of the question in it, and, for answers that were begun anew, which one it is."""


def _question_of(message_id: str) -> _Question:
    """Which question a message answers; one that other code has numbered answers a question of its own."""
    if found := _MESSAGE_ID.fullmatch(message_id):
        return _Question(found[1], found[2])
    return _Question(message_id, "")


@dataclass(slots=True)
class _Saying:
    """One message that is being made."""

    question: _Question
    kept: list[Shown] = field(default_factory=list[Shown])
    """What could not be shown yet."""
    calls: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """Name and arguments of the calls that are not complete, by their places."""
    is_complete: bool = False


class Pieces:
    """Follows the parts of the stream modes `messages` and `tasks`."""

    def __init__(self) -> None:
        self._sayings: dict[str, _Saying] = {}
        """By the ids of messages, in the order in which they began. The first one is shown as it comes."""
        self._usage: dict[str, Usage] = {}

    @property
    def usage(self) -> Usage:
        """What the models have used up, as far as they have told."""
        return sum(self._usage.values(), Usage())

    def take(self, mode: str, part: Any) -> Iterator[Shown]:
        """What is to be shown after a part of the stream."""
        if mode == "tasks":
            if "error" in part:
                self._complete(part["id"])
        else:
            message, origin = part
            if isinstance(message, MessageChunk):
                self._add(message, origin)
            elif isinstance(message, Message):
                self._add_whole(message, origin)
        yield from self._due()

    def end(self) -> Iterator[Shown]:
        """What is left at the end of the run."""
        for saying in self._sayings.values():
            _finish(saying)
        yield from self._due()

    def _complete(self, task: str) -> None:
        """A task is over, and so is what it said."""
        for saying in self._sayings.values():
            if saying.question.task == task:
                _finish(saying)

    def _break_off(self, question: _Question) -> None:
        """An answer is begun anew: what there is of it stays as it is, and its calls will not be made."""
        for saying in self._sayings.values():
            if saying.question == question and not saying.is_complete:
                saying.calls = {}
                saying.kept.append(Shown("again"))

    def _add(self, chunk: MessageChunk, origin: Mapping[str, Any]) -> None:
        message_id = chunk.id or ""
        saying = self._saying(message_id)
        speaker = chunk.name or str(origin.get("node") or "")
        if chunk.reasoning:
            saying.kept.append(Shown("thought", chunk.reasoning, speaker))
        if chunk.text:
            saying.kept.append(Shown("text", chunk.text, speaker))
        for delta in chunk.tool_call_chunks:
            _add_call(saying, delta)
        if chunk.usage is not None:
            self._usage[message_id] = chunk.usage

    def _saying(self, message_id: str) -> _Saying:
        """The message of an id. A task says one thing after the other: what it said before is complete."""
        if message_id not in self._sayings:
            question = _question_of(message_id)
            self._break_off(question)
            self._complete(question.task)
            self._sayings[message_id] = _Saying(question)
        return self._sayings[message_id]

    def _add_whole(self, message: Message, origin: Mapping[str, Any]) -> None:
        """A message of which no pieces were seen."""
        if message.role not in ("assistant", "tool"):
            return
        saying = _Saying(_Question(message.id or "", ""))
        if message.role == "tool":
            failed = (message.metadata or {}).get("status") == "error"
            saying.kept.append(Shown("failure" if failed else "result", message.text, message.name or ""))
        elif message.text:
            saying.kept.append(Shown("text", message.text, message.name or str(origin.get("node") or "")))
        saying.calls = {place: [call.name, call.written] for place, call in enumerate(message.tool_calls)}
        _finish(saying)
        self._sayings[message.id or f"whole {id(message)}"] = saying

    def _due(self) -> Iterator[Shown]:
        """What can be shown now: all of the first, and of those behind it once it is complete."""
        while self._sayings:
            first = next(iter(self._sayings))
            saying = self._sayings[first]
            yield from saying.kept
            saying.kept.clear()
            if not saying.is_complete:
                return
            yield Shown("end")
            del self._sayings[first]


def _add_call(saying: _Saying, delta: ToolCallDelta) -> None:
    call = saying.calls.setdefault(delta.index, ["", ""])
    call[0] += delta.name or ""
    call[1] += delta.arguments
    if _is_whole(call[1]):
        name, arguments = saying.calls.pop(delta.index)
        saying.kept.append(Shown("call", arguments, name))


def _is_whole(arguments: str) -> bool:
    """Whether the arguments of a call are complete, so that it can be shown before its tool is called."""
    if not arguments.endswith("}"):
        return False
    try:
        return isinstance(cast(object, json.loads(arguments)), dict)
    except ValueError:
        return False


def _finish(saying: _Saying) -> None:
    for name, arguments in saying.calls.values():
        saying.kept.append(Shown("call", arguments, name))
    saying.calls = {}
    saying.is_complete = True

"""Sequencing of streamed output, for a display that shows one message at a time.

Several agents may stream concurrently. The first message is shown as it arrives; the others are buffered until it is
complete.
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
class OutputPiece:
    """A piece of output to show."""

    kind: Literal["text", "thought", "call", "result", "failure", "restart", "end"]
    """`end` means that a message is complete, and `restart` that it broke off and is going to be generated again."""
    text: str = ""
    name: str = ""
    """The speaker or the tool."""


class _ModelCall(NamedTuple):
    """A model call, identified by the task that makes it and by its position among the model calls of that task."""

    task: str
    position: str


_MESSAGE_ID: Final = re.compile(r"([^-]+)-(\d+)(?:-\d+)*")
"""A message id: the task, the position of the model call in the task, and the number of the retry, if any."""


def _parse_message_id(message_id: str) -> _ModelCall:
    """Return the model call that a message id names. An id of any other form stands for a model call of its own."""
    if match := _MESSAGE_ID.fullmatch(message_id):
        return _ModelCall(match[1], match[2])
    return _ModelCall(message_id, "")


@dataclass(slots=True)
class _OpenMessage:
    """A message that is being streamed."""

    model_call: _ModelCall
    buffer: list[OutputPiece] = field(default_factory=list[OutputPiece])
    """Pieces that have not been shown yet."""
    tool_calls: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """Incomplete tool calls by their index in the message, each as a list of its name and its arguments so far."""
    is_complete: bool = False


class OutputSequencer:
    """Turns parts of the stream modes `messages` and `tasks` into pieces of output, one message after the other."""

    def __init__(self) -> None:
        self._messages: dict[str, _OpenMessage] = {}
        """Messages that have not been shown completely, by id, in the order in which they began."""
        self._usage: dict[str, Usage] = {}
        """Token usage by message id."""

    @property
    def usage(self) -> Usage:
        """The total token usage that models have reported."""
        return sum(self._usage.values(), Usage())

    def feed(self, mode: str, part: Any) -> Iterator[OutputPiece]:
        """Add a part of the stream, and yield the output that can now be shown."""
        if mode == "tasks":
            if "error" in part:  # the end of a task
                self._finish_task(part["id"])
        else:
            message, origin = part
            if isinstance(message, MessageChunk):
                self._add_chunk(message, origin)
            elif isinstance(message, Message):
                self._add_complete(message, origin)
        yield from self._pop_ready()

    def end(self) -> Iterator[OutputPiece]:
        """Mark all messages as complete, and yield the remaining output."""
        for open_message in self._messages.values():
            _finish(open_message)
        yield from self._pop_ready()

    def _finish_task(self, task: str) -> None:
        """Mark the messages of a finished task as complete."""
        for open_message in self._messages.values():
            if open_message.model_call.task == task:
                _finish(open_message)

    def _mark_restarted(self, call: _ModelCall) -> None:
        """Mark the incomplete messages of a model call as restarted, and drop their incomplete tool calls."""
        for open_message in self._messages.values():
            if open_message.model_call == call and not open_message.is_complete:
                open_message.tool_calls = {}
                open_message.buffer.append(OutputPiece("restart"))

    def _add_chunk(self, chunk: MessageChunk, origin: Mapping[str, Any]) -> None:
        message_id = chunk.id or ""
        open_message = self._find_or_open(message_id)
        speaker = chunk.name or str(origin.get("node") or "")
        if chunk.reasoning:
            open_message.buffer.append(OutputPiece("thought", chunk.reasoning, speaker))
        if chunk.text:
            open_message.buffer.append(OutputPiece("text", chunk.text, speaker))
        for delta in chunk.tool_call_chunks:
            _add_tool_call_delta(open_message, delta)
        if chunk.usage is not None:
            self._usage[message_id] = chunk.usage

    def _find_or_open(self, message_id: str) -> _OpenMessage:
        """Return the open message with an id, or open one.

        A task streams one message at a time, so a new message completes the earlier messages of its task.
        """
        if message_id not in self._messages:
            call = _parse_message_id(message_id)
            self._mark_restarted(call)
            self._finish_task(call.task)
            self._messages[message_id] = _OpenMessage(call)
        return self._messages[message_id]

    def _add_complete(self, message: Message, origin: Mapping[str, Any]) -> None:
        """Add a message that was not streamed."""
        if message.role not in ("assistant", "tool"):
            return
        open_message = _OpenMessage(_ModelCall(message.id or "", ""))
        if message.role == "tool":
            has_failed = (message.metadata or {}).get("status") == "error"
            kind = "failure" if has_failed else "result"
            open_message.buffer.append(OutputPiece(kind, message.text, message.name or ""))
        elif message.text:
            open_message.buffer.append(OutputPiece("text", message.text, message.name or str(origin.get("node") or "")))
        open_message.tool_calls = {index: [call.name, call.written] for index, call in enumerate(message.tool_calls)}
        _finish(open_message)
        self._messages[message.id or f"complete {id(message)}"] = open_message

    def _pop_ready(self) -> Iterator[OutputPiece]:
        """Yield the buffered output of the first message and, once a message is complete, that of the next one."""
        while self._messages:
            first = next(iter(self._messages))
            open_message = self._messages[first]
            yield from open_message.buffer
            open_message.buffer.clear()
            if not open_message.is_complete:
                return
            yield OutputPiece("end")
            del self._messages[first]


def _add_tool_call_delta(open_message: _OpenMessage, delta: ToolCallDelta) -> None:
    """Add a delta to a tool call, which is shown as soon as its arguments are complete."""
    call = open_message.tool_calls.setdefault(delta.index, ["", ""])
    call[0] += delta.name or ""
    call[1] += delta.arguments
    if _is_complete(call[1]):
        name, arguments = open_message.tool_calls.pop(delta.index)
        open_message.buffer.append(OutputPiece("call", arguments, name))


def _is_complete(arguments: str) -> bool:
    """Return True if the streamed arguments of a call are a complete JSON object."""
    if not arguments.endswith("}"):
        return False
    try:
        return isinstance(cast(object, json.loads(arguments)), dict)
    except ValueError:
        return False


def _finish(open_message: _OpenMessage) -> None:
    """Mark a message as complete, including its tool calls."""
    for name, arguments in open_message.tool_calls.values():
        open_message.buffer.append(OutputPiece("call", arguments, name))
    open_message.tool_calls = {}
    open_message.is_complete = True

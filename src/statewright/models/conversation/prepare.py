"""Repair a conversation so that every provider accepts it.

Providers refuse requests that a thread can easily contain; Anthropic and Google refuse the most:

- a tool call without its result directly after it, a result without its call, a second result, an id used twice;
- an assistant message at the end. Older models of Anthropic continued that message; Claude 4.6 and later refuse
  the request;
- an empty message, an empty part of one, an empty result at Anthropic, or no messages but those of the system;
- a tool call whose name or id is too long, or has characters other than letters, digits, `_` and `-`;
- text that cannot be encoded as UTF-8.

Threads come to contain them in many ways: a run stops between a call and its result, a user writes while an approval is
open, a message is removed or trimmed, a second agent of a network follows the first, structured output is requested.
The thread itself is not changed; `prepare_request` repairs the messages to send. `check_request` refuses a request that
was not repaired, in models that stand for a provider: a request that passes there passes everywhere.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, cast

from statewright.data.encodable import encodable_text
from statewright.errors import ModelError
from statewright.messages import Message, ToolCall, copied, encodable_message
from statewright.models.conversation.files import with_sendable_files
from statewright.models.conversation.tool_calls import problem_of_calls, with_valid_calls
from statewright.models.model import ModelRequest

YOUR_TURN: Final = "It is your turn now. Act on the conversation so far as your instructions say."
"""Appended to a conversation that ends with an assistant message, of another agent or of the model itself."""
OPENING: Final = "(The conversation begins with the assistant.)"
_NOT_MADE: Final = "Error: this call was not made."
_NO_OUTPUT: Final = "(no output)"
"""Sent as the result of a tool that returned nothing."""
_logger: Final = logging.getLogger("statewright.agents")


def prepare_request(request: ModelRequest) -> ModelRequest:
    """Return the request with a conversation that every provider accepts; unchanged if it is valid already.

    A warning is logged for each dropped tool result.
    """
    messages = request.messages
    if not _is_sendable(messages):
        messages = with_valid_calls(_without_blanks(repair_tool_rounds(messages)))
        messages = with_sendable_files(_encodable(messages))
    if not _has_conversation(messages) or (messages[-1].role == "assistant" and not request.continue_last):
        messages = [*messages, Message(YOUR_TURN)]
    system = encodable_text(request.system)
    if messages is request.messages and system is request.system:
        return request
    return replace(request, messages=messages, system=system)


def check_request(request: ModelRequest) -> None:
    """Raise ModelError for a request that a provider would refuse, naming the first invalid message."""
    problem = next(_problems(request), None)
    if problem is not None:
        raise ModelError(
            f"A provider would refuse this request: {problem}. Agents and `statewright.models.prepare_request` repair "
            f"conversations before they send them."
        )


def repair_tool_rounds(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with the results of each answer's tool calls directly after it, in the order of the calls.

    A result moves to the nearest earlier call with its id; a result without a call, or a second one, is dropped. A call
    without a result gets an error as its result. Messages in order are returned unchanged.
    """
    if _is_in_order(messages):
        return messages
    results = _results_by_call(messages)
    complete: list[Message] = []
    for position, message in enumerate(messages):
        if message.role != "tool":
            complete.append(message)
            complete.extend(
                _next_result(results[position, call.id]) or _missing_result(call) for call in message.tool_calls
            )
    return complete


def _next_result(results: deque[Message]) -> Message | None:
    return results.popleft() if results else None


def _is_in_order(messages: Sequence[Message]) -> bool:
    waiting: list[str] = []
    """Ids of calls without a result so far, the next one last."""
    for message in messages:
        if message.role == "tool":
            if not waiting or waiting.pop() != message.tool_call_id:
                return False
        elif waiting:
            return False
        elif message.tool_calls:
            waiting = [call.id for call in reversed(message.tool_calls)]
    return not waiting


def _results_by_call(messages: Sequence[Message]) -> Mapping[tuple[int, str], deque[Message]]:
    """Return the results by the position of the message with the calls, and the call id: at most one per call."""
    latest: dict[str, int] = {}
    results: dict[tuple[int, str], deque[Message]] = defaultdict(deque)
    for position, message in enumerate(messages):
        latest.update((call.id, position) for call in message.tool_calls)
        if message.role != "tool":
            continue
        call_id = message.tool_call_id or ""
        if call_id not in latest:
            _log_dropped(message, f"no call before it has the id {call_id!r}")
            continue
        index = latest[call_id]
        calls = sum(call.id == call_id for call in messages[index].tool_calls)
        if len(results[index, call_id]) < calls:
            results[index, call_id].append(message)
        else:
            _log_dropped(message, f"the call {call_id!r} has a result already")
    return results


def _log_dropped(result: Message, reason: str) -> None:
    _logger.warning("A result of tool %r is not sent: %s.", result.name or "unknown", reason)


def _missing_result(call: ToolCall) -> Message:
    return Message(_NOT_MADE, role="tool", name=call.name, tool_call_id=call.id, metadata={"status": "error"})


def _without_blanks(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages without empty ones, empty parts, and the blanks that models write before a call."""
    if not any(_has_blank_text(message) or _has_blank_part(message) for message in messages):
        return messages
    shortened = (_with_text(message) for message in messages)
    return [message for message in shortened if message.tool_calls or not _has_blank_text(message)]


def _has_blank_text(message: Message) -> bool:
    """Return True for a blank message. An answer with tool calls may be empty."""
    content = message.content
    if not content and message.tool_calls:
        return False
    if isinstance(content, str):
        return not content or content.isspace()
    return all(map(_is_blank, content))


def _has_blank_part(message: Message) -> bool:
    return not isinstance(message.content, str) and any(map(_is_blank, message.content))


def _is_blank(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "text" and not str(part.get("text", "")).strip()


def _with_text(message: Message) -> Message:
    """Return a message without blank text; a blank tool result gets a placeholder."""
    blank = _has_blank_text(message)
    if not blank and not _has_blank_part(message):
        return message
    changed = copied(message)
    if blank:
        changed.content = _NO_OUTPUT if message.role == "tool" else ""
    else:
        changed.content = [part for part in cast("list[dict[str, Any]]", message.content) if not _is_blank(part)]
    return changed


def _has_conversation(messages: Sequence[Message]) -> bool:
    """Return True if there are messages other than the system's, which providers take separately."""
    return any(message.role != "system" for message in messages)


def starting_with_user(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages, preceded by a user message if the first is the assistant's, for providers that need it."""
    first = next((message.role for message in messages if message.role != "system"), None)
    return [Message(OPENING), *messages] if first == "assistant" else messages


# -- text and ids


def _encodable(messages: Sequence[Message]) -> Sequence[Message]:
    encodable = [message if _is_plain_ascii(message) else encodable_message(message) for message in messages]
    return encodable if any(new is not old for new, old in zip(encodable, messages, strict=True)) else messages


_PLAIN: Final = (int, bool, type(None))
"""Types of arguments, besides ASCII text, that can always be sent. A float may be infinite."""


def _is_plain_ascii(message: Message) -> bool:
    """Return True if a message and the arguments of its calls are ASCII text and plain numbers, as nearly all are.

    Every message is checked for every request, so nothing is copied here.
    """
    if not isinstance(message.content, str) or not message.content.isascii():
        return False
    for call in message.tool_calls:
        if call.invalid is not None or not call.id.isascii() or not call.name.isascii():
            return False
        for name, value in call.arguments.items():
            if not name.isascii() or not (value.isascii() if type(value) is str else type(value) in _PLAIN):
                return False
    return True


def with_own_call_ids(message: Message, conversation: Sequence[Message]) -> Message:
    """Return an answer whose tool calls have unique ids; unchanged if they are unique already.

    Some servers give every call the same id, or none.
    """
    if not message.tool_calls:
        return message
    used_ids = {call.id for call in chain.from_iterable(earlier.tool_calls for earlier in conversation)}
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        call_id = call.id
        number = 1
        while not call_id or call_id in used_ids:
            number += 1
            call_id = f"{call.id or 'call'}-{number}"
        used_ids.add(call_id)
        calls.append(call if call_id == call.id else ToolCall(call_id, call.name, call.arguments, call.invalid))
    if all(new is old for new, old in zip(calls, message.tool_calls, strict=True)):
        return message
    renamed = copied(message)
    renamed.tool_calls = tuple(calls)
    return renamed


# -- what a provider refuses

_ENDS_WITH_ASSISTANT: Final = "its conversation ends with the assistant, and continue_last is not set"


def _is_sendable(messages: Sequence[Message]) -> bool:
    """Return True if nothing but the end needs repair: one fast pass over plain text with calls in order.

    A conversation is checked before every model call. False may also mean that it needs a closer check.
    """
    waiting: list[ToolCall] = []
    """Calls without a result so far, the next one last."""
    used_ids: set[str] = set()
    has_conversation = False
    for message in messages:
        content, role, calls = message.content, message.role, message.tool_calls
        if role == "tool":
            if not waiting or calls:
                return False
            call = waiting.pop()
            if call.id != message.tool_call_id or (message.name and message.name != call.name):
                return False
        elif waiting:
            return False
        if content.isspace() if content and isinstance(content, str) else not calls:
            return False
        if not _is_plain_ascii(message) or (calls and problem_of_calls(calls, used_ids)):
            return False
        waiting.extend(reversed(calls))
        has_conversation = has_conversation or role != "system"
    return has_conversation and not waiting


def _problems(request: ModelRequest) -> Any:
    messages = request.messages
    if _is_sendable(messages):
        if messages[-1].role == "assistant" and not request.continue_last:
            yield _ENDS_WITH_ASSISTANT
        return
    if not _has_conversation(messages):
        yield "its conversation is empty"
        return
    used_ids: set[str] = set()
    waiting: dict[str, None] = {}
    """Ids of calls without a result so far."""
    for number, message in enumerate(messages):
        where = f"message {number} ({message.role})"
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                yield f"{where} answers the call {message.tool_call_id!r}, which is not open"
            waiting.pop(cast("str", message.tool_call_id), None)
        elif waiting:
            yield f"{where} follows calls without a result: {', '.join(waiting)}"
        if _has_blank_text(message) or _has_blank_part(message):
            yield f"{where} has no text, or a part without"
        ids = [call.id for call in message.tool_calls]
        if problem := problem_of_calls(message.tool_calls, used_ids):
            yield f"{where} {problem}"
        if not _is_plain_ascii(message) and encodable_message(message) is not message:
            yield f"{where} has text that cannot be encoded as UTF-8, or numbers that are not finite"
        waiting = waiting if message.role == "tool" else dict.fromkeys(ids)
    if waiting:
        yield f"it ends with calls without a result: {', '.join(waiting)}"
    elif messages[-1].role == "assistant" and not request.continue_last:
        yield _ENDS_WITH_ASSISTANT

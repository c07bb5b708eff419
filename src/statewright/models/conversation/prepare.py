"""Repair a conversation so that every provider accepts it.

Providers refuse some conversations that threads often contain. Anthropic and Google are the strictest. At least one
provider refuses:

- a tool call whose result does not directly follow, a result without a call, a second result, an id used twice;
- an assistant message at the end. Older models of Anthropic continue such a message; Claude 4.6 and later refuse it;
- an empty message, an empty message part, an empty tool result, or no messages except system messages;
- a tool call whose name or id is too long, or has characters other than letters, digits, `_` and `-`;
- text that cannot be encoded as UTF-8.

A thread gets into such a state in many ways: a run stops between a call and its result, a user writes while a call
waits for approval, a message is removed or trimmed, one agent of a network follows another, structured output is
requested after an answer. Models invent names of tools ("save the text!"), and servers give all calls the same id, or
ids that another provider refuses (`functions.save:0`).

The thread itself is not changed: `prepare_request` repairs the messages to send. `check_request` raises an error for a
request that still needs repair. Adapters and test doubles call it, so that a request that one of them accepts is
accepted by all.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from operator import is_
from typing import Any, Final

from statewright.data.encodable import encodable_text
from statewright.errors import ModelError
from statewright.messages import Message, ToolCall, encodable_message, replace
from statewright.models.conversation.files import with_sendable_files
from statewright.models.model import ModelRequest

YOUR_TURN: Final = "It is your turn now. Act on the conversation so far as your instructions say."
"""The user message that is appended to a conversation that ends with an assistant message."""
OPENING: Final = "(The conversation begins with the assistant.)"
"""The user message that precedes a conversation that begins with an assistant message."""
_NOT_MADE: Final = "Error: this call was not made."
"""The result of a tool call that has no result."""
_NO_OUTPUT: Final = "(no output)"
"""The content of a tool result that is blank."""
_logger: Final = logging.getLogger("statewright.agents")


def prepare_request(request: ModelRequest) -> ModelRequest:
    """Return the request with a conversation that every provider accepts; the same object if it is already valid.

    A warning is logged for each tool result that is dropped.
    """
    messages = request.messages
    if not _is_sendable(messages):
        messages = _with_valid_calls(_without_blanks(repair_tool_rounds(messages)))
        messages = [with_sendable_files(encodable_message(message)) for message in messages]
        messages = request.messages if _are_same(messages, request.messages) else messages
    if not _has_conversation(messages) or (messages[-1].role == "assistant" and not request.continue_last):
        messages = [*messages, Message(YOUR_TURN)]
    system = encodable_text(request.system)
    if messages is request.messages and system is request.system:
        return request
    return replace(request, messages=messages, system=system)


def _are_same(new: Sequence[object], old: Sequence[object]) -> bool:
    """Return True if two sequences contain identical objects, in the same order."""
    return len(new) == len(old) and all(map(is_, new, old))


def check_request(request: ModelRequest) -> None:
    """Raise ModelError, which names the first invalid message, if a provider would refuse the request."""
    problem = next(_problems(request), None)
    if problem is not None:
        raise ModelError(
            f"A provider would refuse this request: {problem}. Agents and `statewright.models.prepare_request` repair "
            f"conversations before they send them."
        )


def repair_tool_rounds(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with the results of each answer's tool calls directly after it, in the order of the calls.

    A result is moved to the nearest earlier call with the same id. A result without a call, and a second result of a
    call, are dropped. A call without a result gets an error as its result. If nothing has to be repaired, the same
    object is returned.
    """
    results = _results_by_call(messages)
    repaired: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            continue
        repaired.append(message)
        for call in message.tool_calls:
            call_results = results[index, call.id]
            repaired.append(call_results.popleft() if call_results else _missing_result(call))
    return messages if _are_same(repaired, messages) else repaired


def _results_by_call(messages: Sequence[Message]) -> Mapping[tuple[int, str], deque[Message]]:
    """Return the results of the calls, at most one for each call.

    The keys are the index of the message with the call, and the id of the call; several calls may have the same key.
    """
    index_by_call_id: dict[str, int] = {}
    """The index of the last message so far that has a call with this id."""
    results: dict[tuple[int, str], deque[Message]] = defaultdict(deque)
    for index, message in enumerate(messages):
        index_by_call_id.update((call.id, index) for call in message.tool_calls)
        if message.role != "tool":
            continue
        call_id = message.tool_call_id or ""
        call_index = index_by_call_id.get(call_id)
        if call_index is None:
            reason = "no earlier call has the id %r"
        elif len(results[call_index, call_id]) >= sum(call.id == call_id for call in messages[call_index].tool_calls):
            reason = "the call %r already has a result"
        else:
            results[call_index, call_id].append(message)
            continue
        _logger.warning(f"A result of tool %r is not sent: {reason}.", message.name or "unknown", call_id)
    return results


def _missing_result(call: ToolCall) -> Message:
    return Message(_NOT_MADE, role="tool", name=call.name, tool_call_id=call.id, metadata={"status": "error"})


def _without_blanks(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages without blank messages, blank parts, and the blank text that models write before tool calls.

    A blank tool result gets a placeholder as its content, because its call needs a result.
    """
    stripped = map(_strip_blanks, messages)
    return [message for message in stripped if message.tool_calls or not _has_blank_text(message)]


def _has_blank_text(message: Message) -> bool:
    """Return True for a message that has only whitespace. A message with tool calls may be empty, but not blank."""
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


def _strip_blanks(message: Message) -> Message:
    """Return a message without blank text and blank parts; a blank tool result gets a placeholder."""
    if _has_blank_text(message):
        return replace(message, content=_NO_OUTPUT if message.role == "tool" else "")
    if isinstance(message.content, str) or not _has_blank_part(message):
        return message
    return replace(message, content=[part for part in message.content if not _is_blank(part)])


def _has_conversation(messages: Sequence[Message]) -> bool:
    """Return True if there are messages other than system messages, which providers take separately."""
    return any(message.role != "system" for message in messages)


def starting_with_user(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages, preceded by a user message if the first one is the assistant's.

    Some providers refuse a conversation that begins with the assistant.
    """
    first = next((message.role for message in messages if message.role != "system"), None)
    return [Message(OPENING), *messages] if first == "assistant" else messages


# -- names and ids of calls

_VALID_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Matches the tool names that every provider accepts; OpenAI and Anthropic are the strictest."""
_VALID_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""Matches the call ids that every provider accepts; OpenAI's chat completions are the strictest."""
_FORBIDDEN: Final = re.compile(r"[^a-zA-Z0-9_-]")
_ID_PREFIX_LENGTH: Final = 24
"""The number of characters of an invalid id that its replacement keeps, so that a reader recognises the id."""


def _with_valid_calls(messages: Sequence[Message]) -> list[Message]:
    """Return the messages in which all tool calls have valid names and unique, valid ids.

    In `messages`, results must already follow their calls, in the order of the calls.
    """
    used_ids: set[str] = set()
    pending_calls: deque[ToolCall] = deque()
    """The calls, with their valid names and ids, whose results come next."""
    valid: list[Message] = []
    for message in messages:
        if message.tool_calls:
            calls = tuple(_valid_call(call, used_ids) for call in message.tool_calls)
            pending_calls = deque(calls)
            if not _are_same(calls, message.tool_calls):
                message = replace(message, tool_calls=calls)
        elif message.role == "tool" and pending_calls:
            call = pending_calls.popleft()
            name = message.name and call.name
            if (message.tool_call_id, message.name) != (call.id, name):
                message = replace(message, tool_call_id=call.id, name=name)
        valid.append(message)
    return valid


def _valid_call(call: ToolCall, used_ids: set[str]) -> ToolCall:
    call_id = call.id if _VALID_ID.fullmatch(call.id) and call.id not in used_ids else _unique_id(call.id, used_ids)
    used_ids.add(call_id)
    name = call.name if _VALID_NAME.fullmatch(call.name) else _FORBIDDEN.sub("_", call.name)[:64] or "unnamed"
    return call if call_id == call.id and name == call.name else replace(call, id=call_id, name=name)


def _unique_id(call_id: str, used_ids: set[str]) -> str:
    """Return a unique, valid id that replaces an id. It is the same whenever the same conversation is sent."""
    start = _FORBIDDEN.sub("_", call_id)[:_ID_PREFIX_LENGTH] or "call"
    number = 1
    while True:
        number += 1
        digest = blake2b(f"{call_id}\0{number}".encode(errors="surrogatepass"), digest_size=6).hexdigest()
        if (unique := f"{start}-{digest}") not in used_ids:
            return unique


def _problem_of_calls(calls: Iterable[ToolCall], used_ids: set[str]) -> str | None:
    """Return the reason why a provider would refuse the calls, or None; and add the ids of the calls to `used_ids`."""
    problem = None
    for call in calls:
        problem = problem or _problem_of_call(call, used_ids)
        used_ids.add(call.id)
    return problem


def _problem_of_call(call: ToolCall, used_ids: set[str]) -> str | None:
    if not _VALID_NAME.fullmatch(call.name):
        return f"calls a tool {call.name[:80]!r}: names have 1 to 64 letters, digits, '_' and '-'"
    if not _VALID_ID.fullmatch(call.id):
        return f"has a call with the id {call.id[:80]!r}: ids have 1 to 40 letters, digits, '_' and '-'"
    return f"has a call with the id {call.id!r}, which another call has" if call.id in used_ids else None


def with_own_call_ids(message: Message, conversation: Sequence[Message]) -> Message:
    """Return a model's answer in which the ids of tool calls are unique in the conversation.

    Some servers give every call the same id, or an empty one. If the ids are already unique, the same object is
    returned.
    """
    if not message.tool_calls:
        return message
    used_ids = {call.id for earlier in conversation for call in earlier.tool_calls}
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        call_id = call.id
        number = 1
        while not call_id or call_id in used_ids:
            number += 1
            call_id = f"{call.id or 'call'}-{number}"
        used_ids.add(call_id)
        calls.append(call if call_id == call.id else replace(call, id=call_id))
    return message if _are_same(calls, message.tool_calls) else replace(message, tool_calls=tuple(calls))


# -- what a provider refuses

_ALWAYS_FINITE: Final = (int, bool, type(None))
"""The types of arguments, besides ASCII text, of which all values can be sent. A float may be infinite."""


def _is_plain_ascii(message: Message) -> bool:
    """Return True if a message has only ASCII text, and the arguments of its calls only ASCII text and integers.

    This is the common case. The check runs for every message of every request, so it copies nothing.
    """
    if not isinstance(message.content, str) or not message.content.isascii():
        return False
    for call in message.tool_calls:
        if call.invalid is not None or not call.id.isascii() or not call.name.isascii():
            return False
        for name, value in call.arguments.items():
            if not name.isascii() or not (value.isascii() if type(value) is str else type(value) in _ALWAYS_FINITE):
                return False
    return True


_ENDS_WITH_ASSISTANT: Final = "its conversation ends with the assistant, and continue_last is not set"


def _is_sendable(messages: Sequence[Message]) -> bool:
    """Return True if a conversation certainly needs no repair, except perhaps of its end.

    This is a single fast pass, because it runs before every model call. It recognises conversations of ASCII text in
    which all calls are followed by their results in order; it may return False for other valid conversations.
    """
    open_calls: list[ToolCall] = []
    """The calls without a result so far. The last item is the call whose result comes next."""
    used_ids: set[str] = set()
    has_conversation = False
    for message in messages:
        content, role, calls = message.content, message.role, message.tool_calls
        if role == "tool":
            if not open_calls or calls:
                return False
            call = open_calls.pop()
            if call.id != message.tool_call_id or (message.name and message.name != call.name):
                return False
        elif open_calls:
            return False
        if content.isspace() if content and isinstance(content, str) else not calls:
            return False
        if not _is_plain_ascii(message) or (calls and _problem_of_calls(calls, used_ids)):
            return False
        open_calls.extend(reversed(calls))
        has_conversation = has_conversation or role != "system"
    return has_conversation and not open_calls


def _problems(request: ModelRequest) -> Iterator[str]:
    """Yield the problems of a request, lazily, because the caller needs only the first."""
    messages = request.messages
    if _is_sendable(messages):
        if messages[-1].role == "assistant" and not request.continue_last:
            yield _ENDS_WITH_ASSISTANT
        return
    if not _has_conversation(messages):
        yield "its conversation is empty"
        return
    used_ids: set[str] = set()
    open_calls: dict[str, None] = {}
    """The ids of the calls without a result so far, in order."""
    for index, message in enumerate(messages):
        location = f"message {index} ({message.role})"
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                yield f"{location} answers the call {message.tool_call_id!r}, which is not open"
            open_calls.pop(message.tool_call_id or "", None)
        elif open_calls:
            yield f"{location} follows calls without a result: {', '.join(open_calls)}"
        if _has_blank_text(message) or _has_blank_part(message):
            yield f"{location} has no text, or a part without text"
        if problem := _problem_of_calls(message.tool_calls, used_ids):
            yield f"{location} {problem}"
        if not _is_plain_ascii(message) and encodable_message(message) is not message:
            yield f"{location} has text that cannot be encoded as UTF-8, or numbers that are not finite"
        if message.role != "tool":
            open_calls = dict.fromkeys(call.id for call in message.tool_calls)
    if open_calls:
        yield f"it ends with calls without a result: {', '.join(open_calls)}"
    elif messages[-1].role == "assistant" and not request.continue_last:
        yield _ENDS_WITH_ASSISTANT

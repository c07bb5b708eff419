"""Repair names and ids of tool calls so that every provider accepts them.

Models invent tools ("save the text!"), servers give all calls one id, or ids that another provider refuses
(`functions.save:0`), and a thread may contain the calls of several agents whose models count from one. A provider
refuses a conversation with such a call, and every later turn of its thread. In the messages that are sent, names are
spelled with the characters that are allowed everywhere, and each call has a unique id; the thread is not changed.

The limits are the narrowest of any provider: 64 characters of `[a-zA-Z0-9_-]` for a name (OpenAI, Anthropic), 40 for an
id (OpenAI's chat completions).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from statewright.messages import Message, ToolCall, copied

_VALID_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_VALID_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_FORBIDDEN: Final = re.compile(r"[^a-zA-Z0-9_-]")
_KEPT_OF_ID: Final = 24
"""Characters of an id that are kept, for recognition, before the digits that make it unique."""


def with_valid_calls(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with valid names and ids of tool calls; unchanged if they are valid already.

    Results must follow their calls, in the order of the calls.
    """
    used_ids: set[str] = set()
    pending_calls: deque[ToolCall] = deque()
    """The calls, as they are sent, whose results come next."""
    valid: list[Message] = []
    for message in messages:
        if message.tool_calls:
            message = _with_calls(message, used_ids)
            pending_calls = deque(message.tool_calls)
        elif message.role == "tool" and pending_calls:
            message = _with_call_id(message, pending_calls.popleft())
        valid.append(message)
    return valid if any(new is not old for new, old in zip(valid, messages, strict=True)) else messages


def problem_of_calls(calls: Iterable[ToolCall], used_ids: set[str]) -> str | None:
    """Return why a provider refuses tool calls, or None, and add their ids to `taken`."""
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
    return f"has a call with the id {call.id!r}, which another one has" if call.id in used_ids else None


def _with_calls(message: Message, used_ids: set[str]) -> Message:
    """Return a message with valid calls, whose ids are unique and added to `taken`."""
    calls = [_valid_call(call, used_ids) for call in message.tool_calls]
    if all(new is old for new, old in zip(calls, message.tool_calls, strict=True)):
        return message
    changed = copied(message)
    changed.tool_calls = tuple(calls)
    return changed


def _valid_call(call: ToolCall, used_ids: set[str]) -> ToolCall:
    call_id = call.id if _VALID_ID.fullmatch(call.id) and call.id not in used_ids else _unique_id(call.id, used_ids)
    used_ids.add(call_id)
    name = call.name if _VALID_NAME.fullmatch(call.name) else _FORBIDDEN.sub("_", call.name)[:64] or "unnamed"
    return call if call_id == call.id and name == call.name else ToolCall(call_id, name, call.arguments, call.invalid)


def _unique_id(call_id: str, used_ids: set[str]) -> str:
    """Return a unique id, which is the same whenever the same conversation is sent."""
    start = _FORBIDDEN.sub("_", call_id)[:_KEPT_OF_ID] or "call"
    number = 1
    while True:
        number += 1
        digest = blake2b(f"{call_id}\0{number}".encode(errors="surrogatepass"), digest_size=6).hexdigest()
        if (unique := f"{start}-{digest}") not in used_ids:
            return unique


def _with_call_id(result: Message, call: ToolCall) -> Message:
    """Return a result with the id and the name of its call as it is sent."""
    name = call.name if result.name else result.name
    if result.tool_call_id == call.id and result.name == name:
        return result
    changed = copied(result)
    changed.tool_call_id, changed.name = call.id, name
    return changed

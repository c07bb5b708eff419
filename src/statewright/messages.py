"""Messages of a conversation, and conversion from other common forms.

A `Message` has the same form for every provider. `as_message` accepts our own class, OpenAI-style dicts,
`(role, text)` pairs, plain text, and LangChain messages. Messages are values: use `replace` instead of changing one,
because checkpoints and other nodes refer to the same object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from statewright.data.encodable import encodable_json, encodable_text, finite_json
from statewright.errors import InvalidUpdateError
from statewright.extras import optional
from statewright.langchain_forms import (
    CallForm,
    MessageForm,
    calls_of,
    joined_text,
    read_call,
    read_langchain,
    role_of,
    write_langchain,
)

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "Message",
    "RemoveMessage",
    "ToolCall",
    "ToolResult",
    "as_message",
    "copied",
    "encodable_message",
    "form_of",
    "langchain_calls",
    "read_tool_call",
    "replace",
]

REMOVE_ALL_MESSAGES = "__remove_all__"
"""As the id of a `RemoveMessage`: remove all messages before it."""


@dataclass(slots=True)
class ToolCall:
    """A model's request to call a tool."""

    id: str
    """The id chosen by the model, to which the result refers."""
    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    invalid: str | None = None
    """The text that the model wrote as arguments, if it is not a JSON object; `arguments` is empty then."""

    @property
    def written(self) -> str:
        """The arguments as JSON text, or the invalid text that the model wrote."""
        if self.invalid is not None:
            return self.invalid
        return json.dumps(finite_json(self.arguments), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the call in OpenAI's form, with the arguments as JSON text."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.written}}


@dataclass(slots=True)
class ToolResult:
    """The result of a tool call, which becomes a message with the role `tool`."""

    tool_call_id: str
    content: Any
    name: str | None = None

    def to_message(self) -> Message:
        """Return the result as a message."""
        content = self.content if isinstance(self.content, str) else json.dumps(self.content, ensure_ascii=False)
        return Message(content, role="tool", name=self.name, tool_call_id=self.tool_call_id)


@dataclass(slots=True)
class Message:
    """A message of a conversation."""

    content: str | list[dict[str, Any]]
    """Text, or parts in the provider-neutral form `{"type": "text", "text": ...}`."""
    role: str = "user"
    id: str | None = None
    """Unique in the conversation; generated when a message without one is added to the state."""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """The id of the call whose result this is, for the role `tool`."""
    metadata: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The text of all text parts, concatenated."""
        return joined_text(self.content)

    @property
    def finish_reason(self) -> str | None:
        """Why the model ended this answer: `stop`, `tools`, `length` or `refused`; None if the role is not `assistant`.

        With `length` the answer is truncated; with `refused` it does not have the requested content.
        """
        if self.role != "assistant":
            return None
        return (self.metadata or {}).get("finish_reason") or ("tools" if self.tool_calls else "stop")

    def to_dict(self) -> dict[str, Any]:
        """Return the message in OpenAI's form, with its id and metadata; empty fields are omitted."""
        optional = {
            "id": self.id,
            "name": self.name,
            "tool_calls": [call.to_dict() for call in self.tool_calls] or None,
            "tool_call_id": self.tool_call_id,
            "metadata": self.metadata,
        }
        present = {key: value for key, value in optional.items() if value is not None}
        return {"role": self.role, "content": self.content, **present}

    def to_langchain(self) -> Any:
        """Return the message as a LangChain message. Raises MissingLibrary without langchain-core."""
        with optional("LangChain messages need", extra="langchain"):
            return write_langchain(form_of(self))


def copied(message: Message) -> Message:
    """Return a copy of a message that the caller may change. Four times as fast as `dataclasses.replace`."""
    if type(message) is not Message:
        return replace(message)
    return Message(
        message.content,
        message.role,
        message.id,
        message.name,
        message.tool_calls,
        message.tool_call_id,
        message.metadata,
    )


def encodable_message(message: Message) -> Message:
    """Return a message with text that UTF-8 can encode, and tool arguments that JSON can represent.

    The same object is returned if nothing changes.
    """
    content = message.content
    if type(content) is str and not message.tool_calls and not message.metadata and content.isascii():
        return message  # nearly always
    content, metadata = encodable_json(content), encodable_json(message.metadata)
    calls = message.tool_calls and tuple(map(_encodable_call, message.tool_calls))
    is_clean = content is message.content and metadata is message.metadata
    if is_clean and all(new is old for new, old in zip(calls, message.tool_calls, strict=True)):
        return message
    clean = copied(message)
    clean.content, clean.tool_calls, clean.metadata = content, calls, metadata
    return clean


def _encodable_call(call: ToolCall) -> ToolCall:
    arguments = finite_json(encodable_json(call.arguments))
    invalid = call.invalid if call.invalid is None else encodable_text(call.invalid)
    if arguments is call.arguments and invalid is call.invalid:
        return call
    return ToolCall(call.id, call.name, arguments, invalid)


@dataclass(slots=True)
class RemoveMessage:
    """An update that removes the message with this id; `REMOVE_ALL_MESSAGES` removes all messages before it."""

    id: str


def as_message(value: object) -> Message | RemoveMessage:
    """Return a value as a message. Raises InvalidUpdateError if it is not in one of the accepted forms."""
    if type(value) is dict:  # the most common form, and the slowest one to match
        return _from_dict(cast(dict[str, Any], value))
    match value:
        case Message() | RemoveMessage():
            return value
        case ToolResult():
            return value.to_message()
        case str():
            return Message(encodable_text(value))
        case (str() as role, str() | list()):
            content = encodable_json(cast("tuple[str, Any]", value)[1])
            return Message(content, role=role_of(role, cast(object, value)))
        case Mapping():
            return _from_dict(cast(Mapping[str, Any], value))
        case _ if hasattr(value, "type") and hasattr(value, "content"):
            return _from_langchain(value)
        case _:
            raise InvalidUpdateError(
                f"A message was expected, not {value!r} of type {type(value).__name__}. Write a Message, "
                f"a dict with 'role' and 'content', a (role, text) pair, or text."
            )


def form_of(message: Message) -> MessageForm:
    """Return the fields of a message, to be converted to LangChain."""
    calls = tuple(CallForm(call.id, call.name, call.arguments, call.invalid) for call in message.tool_calls)
    return MessageForm(
        message.content, message.role, message.id, message.name, calls, message.tool_call_id, message.metadata
    )


def _from_langchain(value: Any) -> Message | RemoveMessage:
    if value.type == "remove":
        return RemoveMessage(str(value.id))
    form = read_langchain(value)
    calls = tuple(ToolCall(*call) for call in form.tool_calls)
    return Message(form.content, form.role, form.id, form.name, calls, form.tool_call_id, form.metadata)


def langchain_calls(answer: Any) -> list[ToolCall]:
    """Return the calls in an answer of a LangChain model: the valid ones, then the invalid ones."""
    return [ToolCall(*call) for call in calls_of(answer)]


def _from_dict(data: Mapping[str, Any]) -> Message | RemoveMessage:
    role = data.get("role", data.get("type"))
    if role == "remove":
        return RemoveMessage(str(data["id"]))
    calls = data.get("tool_calls")
    if "content" not in data and not calls:
        raise InvalidUpdateError(f"The message {dict(data)!r} has no 'content'.")
    return Message(
        encodable_json(data.get("content") or ""),
        role=role_of(role, data),
        id=data.get("id"),
        name=data.get("name"),
        tool_calls=tuple(map(_tool_call, calls)) if calls else (),
        tool_call_id=data.get("tool_call_id"),
        metadata=data.get("metadata"),
    )


def _tool_call(data: ToolCall | Mapping[str, Any]) -> ToolCall:
    """Return a tool call from OpenAI's nested form, or from a flat one with `args` or `arguments`."""
    if isinstance(data, ToolCall):
        return data
    function = cast(Mapping[str, Any], data.get("function", data))
    arguments = function.get("arguments", function.get("args", {}))
    return read_tool_call(str(data.get("id") or ""), str(function["name"]), arguments)


def read_tool_call(call_id: str, name: str, arguments: object) -> ToolCall:
    """Return a call with the arguments that a model wrote: a mapping, or text that should be a JSON object.

    Other text becomes `invalid`. NaN and infinities, which JSON does not have, become None.
    """
    return ToolCall(*read_call(call_id, name, arguments))

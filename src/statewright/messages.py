"""Messages of a conversation, and their conversion from and to other common forms.

A `Message` has the same form for every provider. `as_message` accepts our own classes, dicts as in OpenAI's API,
`(role, text)` pairs, plain text, and LangChain messages. Messages are values: use `replace` instead of changing a
message, because checkpoints and other nodes refer to the same object.
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
"""The id with which a `RemoveMessage` removes all messages before it."""


@dataclass(slots=True)
class ToolCall:
    """A model's request to call a tool."""

    id: str
    """The id of the call, chosen by the model. The result of the call has it as `tool_call_id`."""
    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    invalid: str | None = None
    """The text that the model wrote as arguments if it is not a JSON object; `arguments` is then empty. None if the
    arguments are valid."""

    @property
    def written(self) -> str:
        """The arguments as JSON text, or the invalid text that the model wrote."""
        if self.invalid is not None:
            return self.invalid
        return json.dumps(finite_json(self.arguments), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the call as in OpenAI's API, with the arguments as JSON text."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.written}}


@dataclass(slots=True)
class ToolResult:
    """The result of a tool call, which becomes a message with the role `tool`."""

    tool_call_id: str
    content: Any
    name: str | None = None

    def to_message(self) -> Message:
        """Return the result as a message. A content that is not a string becomes JSON text."""
        content = self.content if isinstance(self.content, str) else json.dumps(self.content, ensure_ascii=False)
        return Message(content, role="tool", name=self.name, tool_call_id=self.tool_call_id)


@dataclass(slots=True)
class Message:
    """A message of a conversation."""

    content: str | list[dict[str, Any]]
    """Text, or a list of parts as in OpenAI's API, such as `{"type": "text", "text": ...}`."""
    role: str = "user"
    """`system`, `user`, `assistant` or `tool`."""
    id: str | None = None
    """An id that is unique in the conversation. It is generated when a message without an id is added to the state."""
    name: str | None = None
    """The name of the speaker, or of the tool."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """The id of the tool call of which the message is the result; None unless the role is `tool`."""
    metadata: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The text of all text parts, concatenated."""
        return joined_text(self.content)

    @property
    def finish_reason(self) -> str | None:
        """The reason why the model ended this answer; None if the role is not `assistant`.

        The reason is `stop` or `tools`; or `length`, if the answer was cut off at a token limit; or `refused`, if the
        model or a content filter refused to answer.
        """
        if self.role != "assistant":
            return None
        return (self.metadata or {}).get("finish_reason") or ("tools" if self.tool_calls else "stop")

    def to_dict(self) -> dict[str, Any]:
        """Return the message as in OpenAI's API, with its id and its metadata. Fields without a value are omitted."""
        optional_fields = {
            "id": self.id,
            "name": self.name,
            "tool_calls": [call.to_dict() for call in self.tool_calls] or None,
            "tool_call_id": self.tool_call_id,
            "metadata": self.metadata,
        }
        present_fields = {key: value for key, value in optional_fields.items() if value is not None}
        return {"role": self.role, "content": self.content, **present_fields}

    def to_langchain(self) -> Any:
        """Return the message as a LangChain message. Raises MissingLibrary if langchain-core is not installed."""
        with optional("LangChain messages need", extra="langchain"):
            return write_langchain(form_of(self))


def copied(message: Message) -> Message:
    """Return a copy of a message, which the caller may change."""
    if type(message) is not Message:
        return replace(message)
    # This does the same as `replace`, but faster, and every model call needs copies of messages.
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
    """Return a message whose text can be encoded as UTF-8, and whose tool arguments can be written as JSON.

    If the message is already like this, the same object is returned.
    """
    content = message.content
    if type(content) is str and not message.tool_calls and not message.metadata and content.isascii():
        return message  # the common case
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
    """Convert a value to a message. Raises InvalidUpdateError if it is not in one of the accepted forms."""
    if type(value) is dict:  # the most common form, which the `match` below would recognise late
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
    """Return the fields of a message as the form that `langchain_forms` converts to a LangChain message."""
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
    """Return the tool calls in the answer of a LangChain model: the valid calls, and after them the invalid calls."""
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
    """Return a tool call from a dict as in OpenAI's API, or from a flat dict with `args` or `arguments`."""
    if isinstance(data, ToolCall):
        return data
    function = cast(Mapping[str, Any], data.get("function", data))
    arguments = function.get("arguments", function.get("args", {}))
    return read_tool_call(str(data.get("id") or ""), str(function["name"]), arguments)


def read_tool_call(call_id: str, name: str, arguments: object) -> ToolCall:
    """Return a tool call with the arguments that a model wrote: a mapping, or text that should be a JSON object.

    Any other text becomes `ToolCall.invalid`. NaN and infinities, which JSON does not have, become None.
    """
    return ToolCall(*read_call(call_id, name, arguments))

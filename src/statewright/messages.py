"""Messages of a conversation, and what people write when they mean one.

A `Message` is one shape for every provider. `as_message` accepts what the field writes: our own class, OpenAI-style
dicts, `(role, text)` pairs, plain text, and LangChain messages. Messages are values: `replace` one rather than
changing it, since checkpoints and other nodes hold the same object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from statewright.encodable import encodable_json, encodable_text, finite_json
from statewright.errors import InvalidUpdateError
from statewright.extras import optional

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "Message",
    "RemoveMessage",
    "ToolCall",
    "ToolResult",
    "as_message",
    "copied",
    "encodable_message",
    "read_tool_call",
    "replace",
]

REMOVE_ALL_MESSAGES = "__remove_all__"
"""As the id of a `RemoveMessage`: drop every message that stands before it."""

ROLES = ("system", "user", "assistant", "tool")
_ROLE_BY_ALIAS = {**{role: role for role in ROLES}, "human": "user", "ai": "assistant", "developer": "system"}


@dataclass(slots=True)
class ToolCall:
    """A model's wish to have a tool called."""

    id: str
    """Given by the model; the result names it."""
    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    invalid: str | None = None
    """What the model wrote for the arguments, if that is no JSON object; `arguments` are empty then."""

    @property
    def written(self) -> str:
        """The arguments as JSON text, or what the model wrote instead."""
        if self.invalid is not None:
            return self.invalid
        return json.dumps(finite_json(self.arguments), ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """The call as OpenAI writes it: the arguments are JSON text."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.written}}


@dataclass(slots=True)
class ToolResult:
    """What a tool answered to one call; becomes a message with the role `tool`."""

    tool_call_id: str
    content: Any
    name: str | None = None

    def to_message(self) -> Message:
        content = self.content if isinstance(self.content, str) else json.dumps(self.content, ensure_ascii=False)
        return Message(content, role="tool", name=self.name, tool_call_id=self.tool_call_id)


@dataclass(slots=True)
class Message:
    """One message of a conversation."""

    content: str | list[dict[str, Any]]
    """Text, or parts in the provider-neutral form `{"type": "text", "text": ...}`."""
    role: str = "user"
    id: str | None = None
    """Names the message within its conversation; one is given when it enters the state without."""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """For the role `tool`: the call that this message answers."""
    metadata: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """All text of the message, joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.get("text", "") for part in self.content if part.get("type") == "text")

    @property
    def finish_reason(self) -> str | None:
        """The reason why the model ended this answer: `stop`, `tools`, `length` or `refused`.

        An answer that ended with `length` was cut off; one that ended with `refused` is not what was asked for. None
        for messages that are not of the assistant.
        """
        if self.role != "assistant":
            return None
        return (self.metadata or {}).get("finish_reason") or ("tools" if self.tool_calls else "stop")

    def to_dict(self) -> dict[str, Any]:
        """The message as OpenAI writes it, with its id; absent parts are left out."""
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
        """The message as a LangChain message. Raises MissingLibrary without langchain-core."""
        from statewright.langchain_messages import to_langchain

        with optional("LangChain messages need", extra="langchain"):
            return to_langchain(self)


def copied(message: Message) -> Message:
    """The same message as another object, which may be changed. Four times as fast as `dataclasses.replace`."""
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
    """Return the message with text that can be encoded as UTF-8, and calls of tools that JSON can write.

    It is the message itself if all of it can be.
    """
    content = message.content
    if type(content) is str and not message.tool_calls and not message.metadata and content.isascii():  # nearly always
        return message
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
    """An update that removes the message with this id, or with `REMOVE_ALL_MESSAGES` all before it."""

    id: str


def as_message(value: object) -> Message | RemoveMessage:
    """The message that `value` means. Raises InvalidUpdateError for anything that is none."""
    if type(value) is dict:  # nearly always, and dearest to find out by matching
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
            return Message(content, role=_role(role, cast(object, value)))
        case Mapping():
            return _from_dict(cast(Mapping[str, Any], value))
        case _ if hasattr(value, "type") and hasattr(value, "content"):
            from statewright.langchain_messages import read_langchain

            return read_langchain(value)
        case _:
            raise InvalidUpdateError(
                f"A message was expected, found {value!r} of type {type(value).__name__}. Write a Message, "
                f"a dict with 'role' and 'content', a (role, text) pair, or text."
            )


def role_of(name: object, default: str | None = None) -> str:
    """Return the role that a name means. Raises InvalidUpdateError for an unknown one without a `default`."""
    if default is not None:
        return _ROLE_BY_ALIAS.get(cast(str, name), default)
    return _role(name, name)


def _role(name: object, found: object) -> str:
    try:
        return _ROLE_BY_ALIAS[cast(str, name)]
    except (KeyError, TypeError):
        known = ", ".join(sorted(_ROLE_BY_ALIAS))
        raise InvalidUpdateError(f"Unknown role {name!r} in the message {found!r}. Roles: {known}.") from None


def _from_dict(data: Mapping[str, Any]) -> Message | RemoveMessage:
    role = data.get("role", data.get("type"))
    if role == "remove":
        return RemoveMessage(str(data["id"]))
    calls = data.get("tool_calls")
    if "content" not in data and not calls:
        raise InvalidUpdateError(f"The message {dict(data)!r} has no 'content'.")
    return Message(
        encodable_json(data.get("content") or ""),
        role=_role(role, data),
        id=data.get("id"),
        name=data.get("name"),
        tool_calls=tuple(map(_tool_call, calls)) if calls else (),
        tool_call_id=data.get("tool_call_id"),
        metadata=data.get("metadata"),
    )


def _tool_call(data: ToolCall | Mapping[str, Any]) -> ToolCall:
    """A tool call as OpenAI nests it, or flat with `args` or `arguments`."""
    if isinstance(data, ToolCall):
        return data
    function = cast(Mapping[str, Any], data.get("function", data))
    arguments = function.get("arguments", function.get("args", {}))
    return read_tool_call(str(data.get("id") or ""), str(function["name"]), arguments)


def read_tool_call(identity: str, name: str, arguments: object) -> ToolCall:
    """A call with the arguments that a model gave: a mapping, or text, which may turn out to be no JSON object.

    JSON knows no NaN and no infinity: where a model wrote one, there is None.
    """
    found: object = arguments
    if isinstance(arguments, str):
        try:
            found = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            found = None
    if isinstance(found, Mapping):
        return ToolCall(identity, name, finite_json(encodable_json(dict(cast(Mapping[str, Any], found)))))
    return ToolCall(identity, name, invalid=arguments if isinstance(arguments, str) else repr(arguments))

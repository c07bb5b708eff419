"""Lossless conversion between our messages and LangChain's.

In both directions, the fields that both kinds of messages have are converted first. Then the result is converted back,
and every field that differs from the original is recorded in the result: fields of a LangChain message under
`metadata["provider"]["langchain"]` in our message, and fields of our message under `response_metadata["statewright"]`
in the LangChain message. Therefore nothing depends on the list of fields in some version of langchain-core, and a
message that loses nothing has no record.

A record does not override changes that were made to a message after its conversion: recorded content and calls are used
only if the message still has the content and the calls that it had then.

The *form* of a message or a call has its fields without its methods. The module `messages` imports this module, so the
functions here take and return forms instead of `Message` and `ToolCall`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from statewright.data.encodable import encodable_json, finite_json
from statewright.errors import InvalidUpdateError

LANGCHAIN_RECORD: Final = "langchain"
"""The key under `provider` in the metadata of our message. Its value has the fields of a LangChain message that our
message does not have."""
OWN_RECORD: Final = "statewright"
"""The key in the `response_metadata` of a LangChain message. Its value has the fields of our message that the LangChain
message does not have."""
DUPLICATE_KWARGS: Final = ("tool_calls", "function_call", "parsed")
"""The keys of `additional_kwargs` that duplicate other fields."""
_ROLE_BY_TYPE: Final[Mapping[str, str]] = {"human": "user", "ai": "assistant", "function": "tool"}
_CALL_BLOCK_TYPES: Final = (
    "tool_call",
    "tool_call_chunk",
    "invalid_tool_call",
    "tool_use",
    "function_call",
    "input_json_delta",
)
_REASONING_BLOCK_TYPES: Final = ("reasoning", "thinking", "redacted_thinking")
_SHARED_FIELDS: Final = ("content", "tool_calls", "invalid_tool_calls")
"""The fields of a LangChain message that our message has too. If our message was changed after the conversion, its
values take precedence over recorded ones."""
_UNRECORDED_FIELDS: Final = ("type", "id", "name", "status", "artifact")
"""The fields of a LangChain message that are not compared: our message holds them elsewhere, and `type` is recorded
separately."""
DERIVED_FIELDS: Final = "as_they_are"
"""The key, in the record of our fields, of a list of LangChain field names. We computed those fields from our own
message, so `read_langchain` does not record them as LangChain data."""
_ADDED_METADATA: Final = "without"
"""The key of the names of metadata items that the conversion added and our message did not have."""
_CALL_KEYS: Final = ("id", "name", "args", "invalid")
"""The keys of a recorded tool call, in the order of the fields of `CallForm`."""
_MISSING: Final = object()
ROLES: Final = ("system", "user", "assistant", "tool")
_ROLE_BY_ALIAS: Final = {**{role: role for role in ROLES}, "human": "user", "ai": "assistant", "developer": "system"}


class CallForm(NamedTuple):
    """The fields of a `ToolCall`."""

    id: str
    name: str
    arguments: dict[str, Any]
    invalid: str | None = None


@dataclass(slots=True)
class MessageForm:
    """The fields of a `Message`."""

    content: str | list[dict[str, Any]]
    role: str
    id: str | None
    name: str | None
    tool_calls: tuple[CallForm, ...]
    tool_call_id: str | None
    metadata: dict[str, Any] | None

    @property
    def text(self) -> str:
        """The text of all text parts, concatenated."""
        return joined_text(self.content)


def joined_text(content: str | list[dict[str, Any]]) -> str:
    """Return the text of content: the content itself if it is text, or else the concatenated text of its text parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if part.get("type") == "text")


def role_of(name: object, message: object) -> str:
    """Return the role with this name or alias. Raises InvalidUpdateError, which shows `message`, for an unknown one."""
    try:
        return _ROLE_BY_ALIAS[cast(str, name)]
    except (KeyError, TypeError):
        aliases = ", ".join(sorted(_ROLE_BY_ALIAS))
        raise InvalidUpdateError(f"Unknown role {name!r} in the message {message!r}. Roles: {aliases}.") from None


def read_call(call_id: str, name: str, arguments: object) -> CallForm:
    """Return a tool call with the arguments that a model wrote: a mapping, or text that should be a JSON object.

    Anything else is kept as text in the field `invalid`, and the arguments are then empty. NaN and infinities, which
    JSON does not have, become None.
    """
    value: object = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            value = None
    if isinstance(value, Mapping):
        return CallForm(call_id, name, finite_json(encodable_json(dict(cast(Mapping[str, Any], value)))))
    return CallForm(call_id, name, {}, arguments if isinstance(arguments, str) else repr(arguments))


# -- from LangChain


def read_langchain(value: Any) -> MessageForm:
    """Return the form of a LangChain message, or of an object with the same attributes.

    The message must not be a RemoveMessage. Raises InvalidUpdateError for an unknown type of message.
    """
    if str(value.type).endswith("Chunk"):
        from langchain_core.messages import message_chunk_to_message

        value = message_chunk_to_message(value)
    message = _common_form(value)
    if not hasattr(value, "model_fields_set"):  # not a LangChain class, but an object with the same attributes
        return message
    own_record: dict[str, Any] = {}
    response_metadata: Mapping[str, Any] = value.response_metadata
    if OWN_RECORD in response_metadata:
        own_record = response_metadata[OWN_RECORD]
        response_metadata = {name: item for name, item in response_metadata.items() if name != OWN_RECORD}
    converted_back = _fields_of(_basic_message(message))
    # Fields that only `converted_back` has are defaults of its class, so they are not recorded.
    fields = {**_fields_of(value), "response_metadata": response_metadata}
    record = {
        name: field
        for name, field in fields.items()
        if name not in _UNRECORDED_FIELDS and not _is_same(field, converted_back.get(name, _MISSING))
    }
    if value.type not in ("human", "ai", "system", "tool"):
        record["type"] = value.type
    for name in own_record.get(DERIVED_FIELDS, ()):
        record.pop(name, None)
    if record:
        message.metadata = {**(message.metadata or {}), "provider": {LANGCHAIN_RECORD: record}}
    return _with_own_record(message, own_record, value) if own_record else message


def _common_form(value: Any) -> MessageForm:
    """Return the form with the fields of a LangChain message that our message has too."""
    message_type = value.type
    if message_type == "chat":
        role = _ROLE_BY_ALIAS.get(value.role, "user")
    else:
        role = _ROLE_BY_TYPE.get(message_type) or role_of(message_type, value)
    content = content_of(value) if role == "assistant" else _parts(value.content)
    metadata: dict[str, Any] = {}
    if getattr(value, "status", None) == "error":
        metadata["status"] = "error"
    if (artifact := getattr(value, "artifact", None)) is not None:
        metadata["artifact"] = artifact
    if role == "assistant" and (reasoning := reasoning_of(value)):
        metadata["reasoning"] = reasoning
    return MessageForm(
        content,
        role=role,
        id=getattr(value, "id", None),
        name=getattr(value, "name", None),
        tool_calls=tuple(calls_of(value)),
        tool_call_id=getattr(value, "tool_call_id", None),
        metadata=metadata or None,
    )


def _with_own_record(message: MessageForm, own_record: Mapping[str, Any], value: Any) -> MessageForm:
    """Return the form with our recorded fields, which the LangChain message `value` does not have."""
    if "content" in own_record.get(DERIVED_FIELDS, ()):
        message.content = _parts(value.content)
    if "role" in own_record:
        message.role = own_record["role"]
    if "tool_call_id" in own_record and not message.tool_call_id:
        message.tool_call_id = own_record["tool_call_id"]
    calls = tuple(CallForm(*map(call.get, _CALL_KEYS)) for call in own_record.get("tool_calls", ()))
    if {call.id for call in message.tool_calls} <= {call.id for call in calls}:
        message.tool_calls = calls or message.tool_calls
    if "metadata" in own_record or _ADDED_METADATA in own_record:
        converted: Mapping[str, Any] = message.metadata or {}
        recorded: dict[str, Any] = own_record.get("metadata", {})
        metadata = {**converted, **recorded} if "provider" in recorded else {**recorded, **converted}
        provider: Any = recorded.get("provider")
        if isinstance(provider, Mapping) and "provider" in converted:
            metadata["provider"] = {**cast("Mapping[str, Any]", provider), **converted["provider"]}
        remaining = {name: value for name, value in metadata.items() if name not in own_record.get(_ADDED_METADATA, ())}
        message.metadata = remaining if remaining or "metadata" in own_record else None
    return message


def _parts(content: Any) -> str | list[dict[str, Any]]:
    """Return LangChain's content, in which a string in a list of parts becomes a text part."""
    if isinstance(content, str):
        return content
    parts = cast("list[str | dict[str, Any]]", content)
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


# -- the response of a model


def calls_of(response: Any) -> list[CallForm]:
    """Return the tool calls of a response: the valid calls, then the calls whose arguments are not a JSON object."""
    valid = [
        read_call(call.get("id") or "", call["name"], call["args"])
        for call in getattr(response, "tool_calls", None) or ()
    ]
    invalid = [
        CallForm(call.get("id") or "", call.get("name") or "", {}, call.get("args") or "")
        for call in getattr(response, "invalid_tool_calls", None) or ()
    ]
    return valid + invalid


def reasoning_of(response: Any) -> str:
    """Return the text of all reasoning blocks of a response."""
    return "".join(block.get("reasoning") or "" for block in _blocks(response) if block.get("type") == "reasoning")


def text_of(response: Any) -> str:
    """Return the text of all text blocks of a response."""
    return "".join(block.get("text") or "" for block in _blocks(response) if block.get("type") == "text")


def content_of(response: Any) -> str | list[dict[str, Any]]:
    """Return the parts of a response that are neither reasoning nor tool calls; a string if they are all text."""
    if isinstance(response.content, str) and not hasattr(response, "content_blocks"):
        return response.content
    other_types = (*_CALL_BLOCK_TYPES, *_REASONING_BLOCK_TYPES)
    parts = [_without_random_id(block) for block in _blocks(response) if _block_type(block) not in other_types]
    return text_of(response) if all(part.get("type") == "text" for part in parts) else parts


def _without_random_id(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block without the random id that LangChain generates at each access of `content_blocks`."""
    return {name: value for name, value in block.items() if name != "id" or not str(value).startswith("lc_")}


def _blocks(response: Any) -> Sequence[Mapping[str, Any]]:
    return getattr(response, "content_blocks", None) or ()


def _block_type(block: Mapping[str, Any]) -> str | None:
    """Return the type of a block; for a non-standard block, the type that the provider gave it."""
    if block.get("type") == "non_standard":
        return cast("Mapping[str, Any]", block.get("value") or {}).get("type")
    return block.get("type")


# -- to LangChain


def is_langchain_message(value: object) -> bool:
    """Return True for a LangChain message, without importing LangChain."""
    classes = cast("tuple[type[Any], ...]", type(value).__mro__)
    return any(cls.__name__ == "BaseMessage" and cls.__module__.startswith("langchain_core.") for cls in classes)


def write_langchain(message: MessageForm) -> Any:
    """Return the LangChain message for a form."""
    converted = _restore(message)
    own_record = _lost_fields(message, read_langchain(converted))
    if own_record:
        converted.response_metadata = {**converted.response_metadata, OWN_RECORD: own_record}
    return converted


def write_removal(message_id: str) -> Any:
    """Return a LangChain RemoveMessage that removes the message with this id."""
    from langchain_core.messages import RemoveMessage

    return RemoveMessage(id=message_id)


def _restore(message: MessageForm) -> Any:
    """Return the LangChain message for a form, with the fields of an earlier LangChain message that were recorded."""
    record = _record_of(message)
    basic = _basic_message(message)
    if not record:
        return basic
    restored = _with_record(basic, record)
    converted_back = _common_form(restored)
    reasoning = (message.metadata or {}).get("reasoning")
    if (converted_back.text, converted_back.tool_calls) == (message.text, message.tool_calls) and (
        converted_back.content == message.content and (converted_back.metadata or {}).get("reasoning") == reasoning
    ):
        return restored
    # The content, calls or reasoning were changed after the conversion, so the record must not override them.
    return _with_record(basic, _without_shared_fields(record))


def _without_shared_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recorded fields that our message does not have."""
    fields = {name: value for name, value in record.items() if name not in _SHARED_FIELDS}
    if "additional_kwargs" in fields:
        duplicates = (*DUPLICATE_KWARGS, "reasoning_content")
        extra = {name: value for name, value in fields["additional_kwargs"].items() if name not in duplicates}
        fields["additional_kwargs"] = extra
    return fields


def _record_of(message: MessageForm) -> Mapping[str, Any]:
    """Return the recorded fields of a LangChain message; an empty mapping if there are none."""
    provider: Any = (message.metadata or {}).get("provider")
    record: Any = cast("Mapping[str, Any]", provider).get(LANGCHAIN_RECORD) if isinstance(provider, Mapping) else None
    return cast("Mapping[str, Any]", record) if isinstance(record, Mapping) else {}


def _basic_message(message: MessageForm) -> Any:
    """Return a LangChain message with the fields of our message that LangChain's message has too."""
    from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

    metadata = message.metadata or {}
    common: dict[str, Any] = {"content": message.content, "id": message.id, "name": message.name}
    match message.role:
        case "assistant":
            valid, invalid = _langchain_calls(message.tool_calls)
            reasoning = metadata.get("reasoning")
            if isinstance(reasoning, str):
                common["additional_kwargs"] = {"reasoning_content": reasoning}
            return AIMessage(**common, tool_calls=valid, invalid_tool_calls=invalid)
        case "tool":
            status = "error" if metadata.get("status") == "error" else "success"
            call_id = message.tool_call_id or ""
            return ToolMessage(**common, tool_call_id=call_id, status=status, artifact=metadata.get("artifact"))
        case "system":
            return SystemMessage(**common)
        case "user":
            return HumanMessage(**common)
        case role:
            return ChatMessage(**common, role=role)


def _langchain_calls(calls: Iterable[CallForm]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return two lists of LangChain's tool calls: the valid calls, and those whose arguments are not a JSON object."""
    valid: list[dict[str, Any]] = []
    invalid: list[dict[str, Any]] = []
    for call in calls:
        fields: dict[str, Any] = {"name": call.name, "args": call.arguments, "id": call.id}
        if call.invalid is None:
            valid.append({**fields, "type": "tool_call"})
        else:
            invalid.append({**fields, "args": call.invalid, "error": None, "type": "invalid_tool_call"})
    return valid, invalid


def _with_record(basic: Any, record: Mapping[str, Any]) -> Any:
    """Return a copy of a LangChain message with the recorded fields, which may require another class of message."""
    from langchain_core.messages import ChatMessage, FunctionMessage

    classes: dict[str, Any] = {"chat": ChatMessage, "function": FunctionMessage}
    fields = {name: value for name, value in record.items() if name != "type"}
    message_class = classes.get(record.get("type", ""))
    if message_class is None:
        return basic.model_copy(update=fields)  # not validated, because validators would derive calls from other fields
    common = {"content": basic.content, "id": basic.id, "name": basic.name}
    return message_class(**{**common, **fields})


def _lost_fields(message: MessageForm, converted_back: MessageForm) -> dict[str, Any]:
    """Return the record of the fields that a message loses when it is converted to LangChain's form and back.

    `converted_back` is the result of these two conversions.
    """
    own_record: dict[str, Any] = {}
    if message.role != converted_back.role:
        own_record |= {"role": message.role, DERIVED_FIELDS: ["type", "role"]}
    if message.content != converted_back.content:
        own_record[DERIVED_FIELDS] = ["content", "additional_kwargs"]
    if message.tool_call_id != converted_back.tool_call_id:
        own_record["tool_call_id"] = message.tool_call_id
    if message.tool_calls != converted_back.tool_calls:
        own_record["tool_calls"] = [dict(zip(_CALL_KEYS, call, strict=True)) for call in message.tool_calls]
    metadata = _without_record(message.metadata or {})
    returned = _without_record(converted_back.metadata or {})
    lost = {name: value for name, value in metadata.items() if not _is_same(value, returned.get(name, _MISSING))}
    if lost or (message.metadata is not None and not metadata and not _record_of(message)):
        own_record["metadata"] = lost
    if added := [name for name in returned if name not in metadata]:
        own_record[_ADDED_METADATA] = added
    return own_record


def _without_record(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without the record of LangChain's fields."""
    provider = metadata.get("provider")
    if not isinstance(provider, Mapping) or LANGCHAIN_RECORD not in provider:
        return dict(metadata)
    provider_items = {
        name: value for name, value in cast("Mapping[str, Any]", provider).items() if name != LANGCHAIN_RECORD
    }
    items = {name: value for name, value in metadata.items() if name != "provider"}
    return {**items, "provider": provider_items} if provider_items else items


def _fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a LangChain message, including extra fields that its class does not declare."""
    return dict(value)


def _is_same(value: Any, other: Any) -> bool:
    """Return True if two values are equal. An array, whose comparison is not a bool, is equal only to itself."""
    if value is other:
        return True
    try:
        return type(value) is type(other) and bool(value == other)
    except Exception:  # raised by the comparison of a user-defined class
        return False

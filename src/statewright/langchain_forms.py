"""Lossless conversion of messages from and to LangChain.

Each direction first converts the fields that both sides have. It then converts the result back, and records every field
that differs from the original: LangChain's fields under `metadata["provider"]["langchain"]`, our fields under
`response_metadata["statewright"]`. So nothing depends on a list of the fields of some version of langchain-core, and
a message without such fields has no record.

A record never overrides a message that was changed after the conversion: recorded content and calls are used only if
the message still has the content and calls that it had then.

*Forms* have the fields of `Message` and `ToolCall` without their methods, so that `messages` can import this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from statewright.data.encodable import encodable_json, finite_json
from statewright.errors import InvalidUpdateError

KEPT: Final = "langchain"
"""Key under `provider` in the metadata of a message: the fields of a LangChain message that our message lacks."""
OWN: Final = "statewright"
"""Key in the `response_metadata` of a LangChain message: the fields of our message that it lacks."""
DUPLICATE_KWARGS: Final = ("tool_calls", "function_call", "parsed")
"""Keys of `additional_kwargs` that duplicate other fields."""
_ROLE_BY_TYPE: Final[Mapping[str, str]] = {"human": "user", "ai": "assistant", "function": "tool"}
_CALLS: Final = ("tool_call", "tool_call_chunk", "invalid_tool_call", "tool_use", "function_call", "input_json_delta")
_THOUGHTS: Final = ("reasoning", "thinking", "redacted_thinking")
_SHARED: Final = ("content", "tool_calls", "invalid_tool_calls")
"""LangChain fields that our message has too. If our message was changed later, its values take precedence."""
_NOT_RECORDED: Final = ("type", "id", "name", "status", "artifact")
AS_THEY_ARE: Final = "as_they_are"
"""Key in the record of our fields: LangChain fields that were derived from ours, and so are not recorded when read."""
_CALL_KEYS: Final = ("id", "name", "args", "invalid")
"""The keys of a recorded call, in the order of `CallForm`."""
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
        """All text of the message, joined."""
        return joined_text(self.content)


def joined_text(content: str | list[dict[str, Any]]) -> str:
    """Return the text of content that may consist of parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if part.get("type") == "text")


def role_of(name: object, source: object) -> str:
    """Return the role for a name or alias. Raises InvalidUpdateError, with the `source`, for an unknown one."""
    try:
        return _ROLE_BY_ALIAS[cast(str, name)]
    except (KeyError, TypeError):
        aliases = ", ".join(sorted(_ROLE_BY_ALIAS))
        raise InvalidUpdateError(f"Unknown role {name!r} in the message {source!r}. Roles: {aliases}.") from None


def read_call(call_id: str, name: str, arguments: object) -> CallForm:
    """Return a call with the arguments that a model wrote: a mapping, or text that should be a JSON object.

    Other text becomes `invalid`. NaN and infinities, which JSON does not have, become None.
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
    """Return the form of a LangChain message other than a removal. Raises InvalidUpdateError for an unknown type."""
    if str(value.type).endswith("Chunk"):
        from langchain_core.messages import message_chunk_to_message

        value = message_chunk_to_message(value)
    message = _common_form(value)
    if not hasattr(value, "model_fields_set"):  # not a LangChain class, but an object with the same attributes
        return message
    own: dict[str, Any] = {}
    response_metadata: Mapping[str, Any] = value.response_metadata
    if OWN in response_metadata:
        own = response_metadata[OWN]
        response_metadata = {name: item for name, item in response_metadata.items() if name != OWN}
    converted_back = _fields_of(_basic_message(message))
    # Fields that only `converted_back` has are defaults of its class, and need no record.
    fields = {**_fields_of(value), "response_metadata": response_metadata}
    record = {
        name: field
        for name, field in fields.items()
        if name not in _NOT_RECORDED and not _is_same(field, converted_back.get(name, _MISSING))
    }
    if value.type not in ("human", "ai", "system", "tool"):
        record["type"] = value.type
    for name in own.get(AS_THEY_ARE, ()):
        record.pop(name, None)
    if record:
        message.metadata = {**(message.metadata or {}), "provider": {KEPT: record}}
    return _with_own(message, own, value) if own else message


def _common_form(value: Any) -> MessageForm:
    """Return the part of a LangChain message that our fields can represent."""
    kind = value.type
    role = _ROLE_BY_ALIAS.get(value.role, "user") if kind == "chat" else _ROLE_BY_TYPE.get(kind) or role_of(kind, kind)
    content = content_of(value) if role == "assistant" else _parts(value.content)
    metadata: dict[str, Any] = {}
    if getattr(value, "status", None) == "error":
        metadata["status"] = "error"
    if (artifact := getattr(value, "artifact", None)) is not None:
        metadata["artifact"] = artifact
    if role == "assistant" and (thoughts := reasoning_of(value)):
        metadata["reasoning"] = thoughts
    return MessageForm(
        content,
        role=role,
        id=getattr(value, "id", None),
        name=getattr(value, "name", None),
        tool_calls=tuple(calls_of(value)),
        tool_call_id=getattr(value, "tool_call_id", None),
        metadata=metadata or None,
    )


def _with_own(message: MessageForm, own: Mapping[str, Any], value: Any) -> MessageForm:
    """Return the message with our recorded fields, which LangChain's cannot represent."""
    if "content" in own.get(AS_THEY_ARE, ()):
        message.content = _parts(value.content)
    if "role" in own:
        message.role = own["role"]
    if "tool_call_id" in own and not message.tool_call_id:
        message.tool_call_id = own["tool_call_id"]
    calls = tuple(CallForm(*map(call.get, _CALL_KEYS)) for call in own.get("tool_calls", ()))
    if {call.id for call in message.tool_calls} <= {call.id for call in calls}:
        message.tool_calls = calls or message.tool_calls
    if "metadata" in own or "without" in own:
        present = message.metadata or {}
        recorded: dict[str, Any] = own.get("metadata", {})
        metadata = {**present, **recorded} if "provider" in recorded else {**recorded, **present}
        provider: Any = recorded.get("provider")
        if isinstance(provider, Mapping) and "provider" in present:
            metadata["provider"] = {**cast("Mapping[str, Any]", provider), **present["provider"]}
        remaining = {name: value for name, value in metadata.items() if name not in own.get("without", ())}
        message.metadata = remaining if remaining or "metadata" in own else None
    return message


def _parts(content: Any) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts = cast("list[str | dict[str, Any]]", content)
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


# -- the answer of a model


def calls_of(answer: Any) -> list[CallForm]:
    """Return the calls of an answer: the valid ones, then those whose arguments are not a JSON object."""
    valid = [
        read_call(call.get("id") or "", call["name"], call["args"])
        for call in getattr(answer, "tool_calls", None) or ()
    ]
    invalid = [
        CallForm(call.get("id") or "", call.get("name") or "", {}, call.get("args") or "")
        for call in getattr(answer, "invalid_tool_calls", None) or ()
    ]
    return valid + invalid


def reasoning_of(answer: Any) -> str:
    """Return the text of all reasoning blocks of an answer."""
    return "".join(block.get("reasoning") or "" for block in _blocks(answer) if block.get("type") == "reasoning")


def text_of(answer: Any) -> str:
    """Return the text of all text blocks of an answer."""
    return "".join(block.get("text") or "" for block in _blocks(answer) if block.get("type") == "text")


def content_of(answer: Any) -> str | list[dict[str, Any]]:
    """Return the parts of an answer that are neither reasoning nor calls; one string if all of them are text."""
    if isinstance(answer.content, str) and not hasattr(answer, "content_blocks"):
        return answer.content
    parts = [_part(block) for block in _blocks(answer) if _kind(block) not in (*_CALLS, *_THOUGHTS)]
    return text_of(answer) if all(part.get("type") == "text" for part in parts) else parts


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block without the random id that LangChain generates at each access of `content_blocks`."""
    return {name: value for name, value in block.items() if name != "id" or not str(value).startswith("lc_")}


def _blocks(answer: Any) -> Sequence[Mapping[str, Any]]:
    return getattr(answer, "content_blocks", None) or ()


def _kind(block: Mapping[str, Any]) -> str | None:
    kind = block.get("type")
    return cast("Mapping[str, Any]", block.get("value") or {}).get("type") if kind == "non_standard" else kind


# -- to LangChain


def is_langchain_message(value: object) -> bool:
    """Return whether a value is a LangChain message, without importing the package."""
    kinds = cast("tuple[type[Any], ...]", type(value).__mro__)
    return any(kind.__name__ == "BaseMessage" and kind.__module__.startswith("langchain_core.") for kind in kinds)


def write_langchain(message: MessageForm) -> Any:
    """Return a form as a LangChain message."""
    converted = _restore(message)
    own = _unexpressed(message, read_langchain(converted))
    if own:
        converted.response_metadata = {**converted.response_metadata, OWN: own}
    return converted


def write_removal(message_id: str) -> Any:
    """Return a LangChain message that removes the message with an id."""
    from langchain_core.messages import RemoveMessage

    return RemoveMessage(id=message_id)


def _restore(message: MessageForm) -> Any:
    """Return a LangChain message with the fields that were recorded when ours was converted from one."""
    record = _record_of(message)
    basic = _basic_message(message)
    if not record:
        return basic
    restored = _with_record(basic, record)
    form = _common_form(restored)
    reasoning = (message.metadata or {}).get("reasoning")
    if (form.text, form.tool_calls) == (message.text, message.tool_calls) and (
        form.content == message.content and (form.metadata or {}).get("reasoning") == reasoning
    ):
        return restored
    # The content, calls or reasoning were changed after the conversion, so the record must not override them.
    return _with_record(basic, _without_shared(record))


def _without_shared(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recorded fields that our message does not have as well."""
    fields = {name: value for name, value in record.items() if name not in _SHARED}
    if "additional_kwargs" in fields:
        duplicates = (*DUPLICATE_KWARGS, "reasoning_content")
        extra = {name: value for name, value in fields["additional_kwargs"].items() if name not in duplicates}
        fields["additional_kwargs"] = extra
    return fields


def _record_of(message: MessageForm) -> Mapping[str, Any]:
    provider: Any = (message.metadata or {}).get("provider")
    record: Any = cast("Mapping[str, Any]", provider).get(KEPT) if isinstance(provider, Mapping) else None
    return cast("Mapping[str, Any]", record) if isinstance(record, Mapping) else {}


def _basic_message(message: MessageForm) -> Any:
    """Return the part of our message that LangChain's fields can represent."""
    from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

    metadata = message.metadata or {}
    common: dict[str, Any] = {"content": message.content, "id": message.id, "name": message.name}
    match message.role:
        case "assistant":
            valid, invalid = _langchain_calls(message.tool_calls)
            thoughts = metadata.get("reasoning")
            if isinstance(thoughts, str):
                common["additional_kwargs"] = {"reasoning_content": thoughts}
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
    """Return calls in LangChain's form: the valid ones, and those whose arguments are not a JSON object."""
    valid: list[dict[str, Any]] = []
    invalid: list[dict[str, Any]] = []
    for call in calls:
        form: dict[str, Any] = {"name": call.name, "args": call.arguments, "id": call.id}
        if call.invalid is None:
            valid.append({**form, "type": "tool_call"})
        else:
            invalid.append({**form, "args": call.invalid, "error": None, "type": "invalid_tool_call"})
    return valid, invalid


def _with_record(basic: Any, record: Mapping[str, Any]) -> Any:
    """Return a basic message with recorded fields, which may require another class."""
    from langchain_core.messages import ChatMessage, FunctionMessage

    classes: dict[str, Any] = {"chat": ChatMessage, "function": FunctionMessage}
    fields = {name: value for name, value in record.items() if name != "type"}
    kind = classes.get(record.get("type", ""))
    if kind is None:
        return basic.model_copy(update=fields)  # unvalidated: validators would derive calls from other fields
    common = {"content": basic.content, "id": basic.id, "name": basic.name}
    return kind(**{**common, **fields})


def _unexpressed(message: MessageForm, back: MessageForm) -> dict[str, Any]:
    """Return the fields that a message loses when it is converted to LangChain and back; `back` is the result."""
    own: dict[str, Any] = {}
    if message.role != back.role:
        own |= {"role": message.role, AS_THEY_ARE: ["type", "role"]}
    if message.content != back.content:
        own[AS_THEY_ARE] = ["content", "additional_kwargs"]
    if message.tool_call_id != back.tool_call_id:
        own["tool_call_id"] = message.tool_call_id
    if message.tool_calls != back.tool_calls:
        own["tool_calls"] = [dict(zip(_CALL_KEYS, call, strict=True)) for call in message.tool_calls]
    metadata, returned = _without_record(message.metadata or {}), _without_record(back.metadata or {})
    lost = {name: value for name, value in metadata.items() if not _is_same(value, returned.get(name, _MISSING))}
    if lost or (message.metadata is not None and not metadata and not _record_of(message)):
        own["metadata"] = lost
    if added := [name for name in returned if name not in metadata]:
        own["without"] = added
    return own


def _without_record(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without the record of LangChain's fields."""
    provider = metadata.get("provider")
    if not isinstance(provider, Mapping) or KEPT not in provider:
        return dict(metadata)
    provider_items = {name: value for name, value in cast("Mapping[str, Any]", provider).items() if name != KEPT}
    items = {name: value for name, value in metadata.items() if name != "provider"}
    return {**items, "provider": provider_items} if provider_items else items


def _fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a LangChain message, including those that its class does not declare."""
    return dict(value)


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values are equal; an array, whose comparison is not a bool, equals only itself."""
    if value is other:
        return True
    try:
        return type(value) is type(other) and bool(value == other)
    except Exception:  # the comparison of a user's class
        return False

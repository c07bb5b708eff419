"""Conversion of messages from and to LangChain, without loss in either direction.

Each direction first converts the fields that both sides have, converts the result back, and records every field in
which that differs from the original: fields of LangChain under `metadata["provider"]["langchain"]`, fields of ours
under `response_metadata["statewright"]`. So nothing depends on a list of the fields that a version of langchain-core
has, and a message that has no such fields carries no record.

A record never wins over a message that was changed after the conversion: recorded content and calls are used only
while the message still says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast, overload

from statewright.messages import Message, RemoveMessage, ToolCall, as_message, read_tool_call, role_of

KEPT: Final = "langchain"
"""Under `provider` in the metadata of a message: the fields of a LangChain message that ours do not express."""
OWN: Final = "statewright"
"""In the `response_metadata` of a LangChain message: the fields of ours that it does not express."""
SAID_ELSEWHERE: Final = ("tool_calls", "function_call", "parsed")
"""Keys of `additional_kwargs` that repeat other fields."""
_ROLE_BY_TYPE: Final[Mapping[str, str]] = {"human": "user", "ai": "assistant", "function": "tool"}
_CALLS: Final = ("tool_call", "tool_call_chunk", "invalid_tool_call", "tool_use", "function_call", "input_json_delta")
_THOUGHTS: Final = ("reasoning", "thinking", "redacted_thinking")
_SAID: Final = ("content", "tool_calls", "invalid_tool_calls")
"""Fields of LangChain that our message expresses too, so that a change of it has to win."""
_NOT_KEPT: Final = ("type", "id", "name", "status", "artifact")
AS_THEY_ARE: Final = "as_they_are"
"""In the record of our fields: fields of LangChain that need no record of their own when they are read."""
_MISSING: Final = object()


# -- from LangChain


@overload
def from_langchain(messages: list[Any]) -> list[Message | RemoveMessage]: ...
@overload
def from_langchain(messages: object) -> Any: ...
def from_langchain(messages: object) -> Any:
    """Return a message of LangChain, or each one of a list, as ours.

    Messages of ours, dicts, pairs and text are read as `add_messages` reads them. Raises InvalidUpdateError for
    anything else.
    """
    if isinstance(messages, list):
        return [as_message(message) for message in cast("list[Any]", messages)]
    return as_message(messages)


def read_langchain(value: Any) -> Message | RemoveMessage:
    """Return one message of LangChain as ours. Raises InvalidUpdateError for a type without a role."""
    if value.type == "remove":
        return RemoveMessage(str(value.id))
    if str(value.type).endswith("Chunk"):
        from langchain_core.messages import message_chunk_to_message

        value = message_chunk_to_message(value)
    message = _expressed(value)
    if not hasattr(value, "model_fields_set"):  # an object of the same shape, without the rest
        return message
    own: dict[str, Any] = {}
    facts: Mapping[str, Any] = value.response_metadata
    if OWN in facts:
        own = facts[OWN]
        facts = {name: fact for name, fact in facts.items() if name != OWN}
    bare = _fields_of(_bare(message))
    # A field that the bare message has and the original does not is the default of its class.
    fields = {**_fields_of(value), "response_metadata": facts}
    kept = {
        name: field
        for name, field in fields.items()
        if name not in _NOT_KEPT and not _is_same(field, bare.get(name, _MISSING))
    }
    if value.type not in ("human", "ai", "system", "tool"):
        kept["type"] = value.type
    if AS_THEY_ARE in own:  # the message was ours before
        for name in own[AS_THEY_ARE]:
            kept.pop(name, None)
    if kept:
        message.metadata = {**(message.metadata or {}), "provider": {KEPT: kept}}
    return _with_own(message, own, value) if own else message


def _expressed(value: Any) -> Message:
    """Return the message as far as our fields express it."""
    kind = value.type
    role = role_of(value.role, "user") if kind == "chat" else _ROLE_BY_TYPE.get(kind) or role_of(kind)
    content = content_of(value) if role == "assistant" else _parts(value.content)
    metadata: dict[str, Any] = {}
    if getattr(value, "status", None) == "error":
        metadata["status"] = "error"
    if (artifact := getattr(value, "artifact", None)) is not None:
        metadata["artifact"] = artifact
    if role == "assistant" and (thoughts := reasoning_of(value)):
        metadata["reasoning"] = thoughts
    return Message(
        content,
        role=role,
        id=getattr(value, "id", None),
        name=getattr(value, "name", None),
        tool_calls=tuple(calls_of(value)),
        tool_call_id=getattr(value, "tool_call_id", None),
        metadata=metadata or None,
    )


def _with_own(message: Message, own: Mapping[str, Any], value: Any) -> Message:
    """Return the message with the recorded fields that LangChain does not express."""
    if "content" in own.get(AS_THEY_ARE, ()):
        message.content = _parts(value.content)
    if "role" in own:
        message.role = own["role"]
    if "tool_call_id" in own and not message.tool_call_id:
        message.tool_call_id = own["tool_call_id"]
    calls = tuple(map(_read_call, own.get("tool_calls", ())))
    if {call.id for call in message.tool_calls} <= {call.id for call in calls}:
        message.tool_calls = calls or message.tool_calls
    if "metadata" in own or "without" in own:
        present = message.metadata or {}
        recorded: dict[str, Any] = own.get("metadata", {})
        metadata = {**present, **recorded} if "provider" in recorded else {**recorded, **present}
        provider: Any = recorded.get("provider")
        if isinstance(provider, Mapping) and "provider" in present:
            metadata["provider"] = {**cast("Mapping[str, Any]", provider), **present["provider"]}
        rest = {name: value for name, value in metadata.items() if name not in own.get("without", ())}
        message.metadata = rest if rest or "metadata" in own else None
    return message


def _parts(content: Any) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts = cast("list[str | dict[str, Any]]", content)
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]


# -- the answer of a model


def calls_of(answer: Any) -> list[ToolCall]:
    """Return the calls of an answer: those in order, then those whose arguments are not a JSON object."""
    good = [
        read_tool_call(call.get("id") or "", call["name"], call["args"])
        for call in getattr(answer, "tool_calls", None) or ()
    ]
    bad = [
        ToolCall(call.get("id") or "", call.get("name") or "", invalid=call.get("args") or "")
        for call in getattr(answer, "invalid_tool_calls", None) or ()
    ]
    return good + bad


def reasoning_of(answer: Any) -> str:
    """Return the reasoning of a model, joined."""
    return "".join(block.get("reasoning") or "" for block in _blocks(answer) if block.get("type") == "reasoning")


def text_of(answer: Any) -> str:
    """Return all text of an answer, joined."""
    return "".join(block.get("text") or "" for block in _blocks(answer) if block.get("type") == "text")


def content_of(answer: Any) -> str | list[dict[str, Any]]:
    """Return text where there is nothing else; otherwise all parts that are neither reasoning nor calls."""
    if isinstance(answer.content, str) and not hasattr(answer, "content_blocks"):
        return answer.content
    parts = [_part(block) for block in _blocks(answer) if _kind(block) not in (*_CALLS, *_THOUGHTS)]
    return text_of(answer) if all(part.get("type") == "text" for part in parts) else parts


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block without the id that LangChain draws at random whenever it is read."""
    return {name: value for name, value in block.items() if name != "id" or not str(value).startswith("lc_")}


def _blocks(answer: Any) -> Sequence[Mapping[str, Any]]:
    return getattr(answer, "content_blocks", None) or ()


def _kind(block: Mapping[str, Any]) -> str | None:
    kind = block.get("type")
    return cast("Mapping[str, Any]", block.get("value") or {}).get("type") if kind == "non_standard" else kind


# -- to LangChain


@overload
def to_langchain(messages: list[Any]) -> list[Any]: ...
@overload
def to_langchain(messages: object) -> Any: ...
def to_langchain(messages: object) -> Any:
    """Return a message of ours, or each one of a list, as a message of LangChain; those of LangChain as they are.

    Raises ImportError where langchain-core is not installed, InvalidUpdateError for anything that is not a message.
    """
    if isinstance(messages, list):
        return [_to_langchain(message) for message in cast("list[Any]", messages)]
    return _to_langchain(messages)


def is_langchain_message(value: object) -> bool:
    """Return whether a value is a message of LangChain, without loading the package."""
    kinds = cast("tuple[type[Any], ...]", type(value).__mro__)
    return any(kind.__name__ == "BaseMessage" and kind.__module__.startswith("langchain_core.") for kind in kinds)


def _to_langchain(value: object) -> Any:
    if is_langchain_message(value):
        return value
    message = as_message(value)
    if isinstance(message, RemoveMessage):
        from langchain_core.messages import RemoveMessage as LangChainRemoveMessage

        return LangChainRemoveMessage(id=message.id)
    converted = _restored(message)
    own = _unexpressed(message, cast("Message", read_langchain(converted)))
    if own:
        converted.response_metadata = {**converted.response_metadata, OWN: own}
    return converted


def _restored(message: Message) -> Any:
    """Return the message of LangChain, with the fields that were recorded when it was converted."""
    kept = _kept(message)
    bare = _bare(message)
    if not kept:
        return bare
    whole = _built(bare, kept)
    said = _expressed(whole)
    reasoning = (message.metadata or {}).get("reasoning")
    if (said.text, said.tool_calls) == (message.text, message.tool_calls) and (
        said.content == message.content and (said.metadata or {}).get("reasoning") == reasoning
    ):
        return whole
    return _built(bare, changed_since(kept))


def changed_since(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recorded fields that hold for a message whose content or calls were changed."""
    rest = {name: value for name, value in kept.items() if name not in _SAID}
    if "additional_kwargs" in rest:
        repeats = (*SAID_ELSEWHERE, "reasoning_content")
        extra = {name: value for name, value in rest["additional_kwargs"].items() if name not in repeats}
        rest["additional_kwargs"] = extra
    return rest


def _kept(message: Message) -> Mapping[str, Any]:
    provider: Any = (message.metadata or {}).get("provider")
    kept: Any = cast("Mapping[str, Any]", provider).get(KEPT) if isinstance(provider, Mapping) else None
    return cast("Mapping[str, Any]", kept) if isinstance(kept, Mapping) else {}


def _bare(message: Message) -> Any:
    """Return the message of LangChain as far as its fields express ours."""
    from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

    metadata = message.metadata or {}
    common: dict[str, Any] = {"content": message.content, "id": message.id, "name": message.name}
    match message.role:
        case "assistant":
            good, bad = _written_calls(message.tool_calls)
            thoughts = metadata.get("reasoning")
            if isinstance(thoughts, str):
                common["additional_kwargs"] = {"reasoning_content": thoughts}
            return AIMessage(**common, tool_calls=good, invalid_tool_calls=bad)
        case "tool":
            status = "error" if metadata.get("status") == "error" else "success"
            call_id = message.tool_call_id or ""
            return ToolMessage(**common, tool_call_id=call_id, status=status, artifact=metadata.get("artifact"))
        case "system":
            return SystemMessage(**common)
        case "user":
            return HumanMessage(**common)
        case other:
            return ChatMessage(**common, role=other)


def _written_calls(calls: Iterable[ToolCall]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the calls as LangChain writes them: those in order, and those whose arguments are not a JSON object."""
    good: list[dict[str, Any]] = []
    bad: list[dict[str, Any]] = []
    for call in calls:
        if call.invalid is None:
            good.append({"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"})
        else:
            wrong = {"name": call.name, "args": call.invalid, "id": call.id, "error": None}
            bad.append({**wrong, "type": "invalid_tool_call"})
    return good, bad


def _built(bare: Any, kept: Mapping[str, Any]) -> Any:
    """Return the bare message with recorded fields, which may make it one of another class."""
    from langchain_core.messages import ChatMessage, FunctionMessage

    classes: dict[str, Any] = {"chat": ChatMessage, "function": FunctionMessage}
    fields = {name: value for name, value in kept.items() if name != "type"}
    kind = classes.get(kept.get("type", ""))
    if kind is None:
        return bare.model_copy(update=fields)  # unvalidated: validators would read calls out of the rest
    common = {"content": bare.content, "id": bare.id, "name": bare.name}
    return kind(**{**common, **fields})


def _unexpressed(message: Message, back: Message) -> dict[str, Any]:
    """Return the fields of a message in which the one that was converted there and back differs."""
    own: dict[str, Any] = {}
    if message.role != back.role:
        own |= {"role": message.role, AS_THEY_ARE: ["type", "role"]}
    if message.content != back.content:
        own[AS_THEY_ARE] = ["content", "additional_kwargs"]
    if message.tool_call_id != back.tool_call_id:
        own["tool_call_id"] = message.tool_call_id
    if message.tool_calls != back.tool_calls:
        own["tool_calls"] = [_plain_call(call) for call in message.tool_calls]
    metadata, returned = _without_kept(message.metadata or {}), _without_kept(back.metadata or {})
    more = {name: value for name, value in metadata.items() if not _is_same(value, returned.get(name, _MISSING))}
    if more or (message.metadata is not None and not metadata and not _kept(message)):
        own["metadata"] = more
    if missing := [name for name in returned if name not in metadata]:
        own["without"] = missing
    return own


def _without_kept(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without the record of LangChain's fields."""
    provider = metadata.get("provider")
    if not isinstance(provider, Mapping) or KEPT not in provider:
        return dict(metadata)
    others = {name: value for name, value in cast("Mapping[str, Any]", provider).items() if name != KEPT}
    rest = {name: value for name, value in metadata.items() if name != "provider"}
    return {**rest, "provider": others} if others else rest


def _plain_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "args": call.arguments, "invalid": call.invalid}


def _read_call(written: Mapping[str, Any]) -> ToolCall:
    return ToolCall(written["id"], written["name"], written["args"], written["invalid"])


def _fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a message of LangChain, those that its class does not declare included."""
    return dict(value)


def _is_same(value: Any, other: Any) -> bool:
    """Return whether two values are equal; arrays, whose comparison is not a bool, are equal to themselves only."""
    if value is other:
        return True
    try:
        return type(value) is type(other) and bool(value == other)
    except Exception:  # the comparison of a user's class
        return False

"""Provider-specific parts of an answer that have to be sent back: reasoning with signatures, and ids of items.

They are kept as plain JSON in the message's metadata under `provider`: the parts of the answer in order, without the
text and the arguments, which are in the message itself. So a message that was edited is sent as edited. Only the
provider that gave the answer, at the same address, gets this back; others get text and calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit, urlunsplit

from statewright.messages import Message, ToolCall

if TYPE_CHECKING:
    from pydantic_ai import messages as vendor

_WITHOUT_RECORD = ({"part_kind", "length"}, {"part_kind", "tool_call_id"})
"""The fields of parts that need no record: the message has all of their content."""
_OF_RESPONSE = ("provider_name", "canonical_system", "provider_response_id", "model_name")


class Source(NamedTuple):
    """The source of an answer: the provider and its address."""

    name: str
    url: str
    """Without a password, since it is stored."""

    @classmethod
    def at(cls, name: str, url: str) -> Source:
        parts = urlsplit(url)
        return cls(name, urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))


def provenance_of(response: vendor.ModelResponse, source: Source) -> dict[str, Any] | None:
    """Return the record of an answer; None if its text and calls suffice."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse

    needed = ModelResponse(parts=response.parts, **{name: getattr(response, name) for name in _OF_RESPONSE})
    dumped = ModelMessagesTypeAdapter.dump_python([needed], mode="json", exclude_none=True)[0]
    parts = [_without_content(part) for part in dumped["parts"] if part["part_kind"] != "file"]
    if all(set(part) in _WITHOUT_RECORD for part in parts):
        return None
    origin = {key: dumped[key] for key in _OF_RESPONSE if key in dumped}
    return {"name": source.name, "url": source.url, **origin, "parts": parts}


def _without_content(part: dict[str, Any]) -> dict[str, Any]:
    match part["part_kind"]:
        case "text":
            fields = {key: value for key, value in part.items() if key != "content"}
            return {**fields, "length": len(part["content"])}
        case "tool-call":
            return {key: value for key, value in part.items() if key not in ("args", "tool_name", "provider_name")} | (
                {"provider_name": part["provider_name"]} if "id" in part or "provider_details" in part else {}
            )
        case _:
            return part


def restore_response(message: Message, source: Source) -> vendor.ModelResponse:
    """Restore the response of an assistant message, as far as it is from this provider."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    record = (message.metadata or {}).get("provider")
    if not _is_from(record, source):
        return _plain(message)
    fields = cast("Mapping[str, Any]", record)
    origin = {key: fields[key] for key in _OF_RESPONSE if key in fields}
    dumped = {"kind": "response", **origin, "parts": list(_parts(message, fields["parts"]))}
    return cast("vendor.ModelResponse", ModelMessagesTypeAdapter.validate_python([dumped])[0])


def _is_from(record: object, source: Source) -> bool:
    if not isinstance(record, Mapping):
        return False
    fields = cast("Mapping[str, Any]", record)
    return (
        fields.get("name") == source.name and fields.get("url") == source.url and isinstance(fields.get("parts"), list)
    )


def _plain(message: Message) -> vendor.ModelResponse:
    from pydantic_ai import messages as vendor

    text = [vendor.TextPart(message.text)] if message.text else []
    calls = [vendor.ToolCallPart(call.name, call.written, call.id) for call in message.tool_calls]
    return vendor.ModelResponse(parts=[*text, *calls])


def _parts(message: Message, record: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the recorded parts with the current content of the message; additional content comes last."""
    texts = _texts(message.text, [part["length"] for part in record if part["part_kind"] == "text"])
    calls = {call.id: call for call in message.tool_calls}
    for part in record:
        match part["part_kind"]:
            case "text":
                content = next(texts)
                if content:
                    yield {**{key: part[key] for key in part if key != "length"}, "content": content}
            case "tool-call":
                if (call := calls.pop(part["tool_call_id"], None)) is not None:
                    yield {**part, **_call(call)}
            case _:
                yield dict(part)
    yield from ({"part_kind": "text", "content": text} for text in texts if text)
    yield from ({"part_kind": "tool-call", **_call(call)} for call in calls.values())


def _texts(text: str, lengths: Sequence[int]) -> Iterator[str]:
    """Yield the text divided as it was, or undivided if it was changed."""
    if sum(lengths) != len(text):
        yield text
        yield from [""] * (len(lengths) - 1)
        return
    start = 0
    for length in lengths:
        yield text[start : start + length]
        start += length


def _call(call: ToolCall) -> dict[str, Any]:
    return {"tool_name": call.name, "args": call.written, "tool_call_id": call.id}

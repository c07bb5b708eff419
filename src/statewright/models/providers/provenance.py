"""Provider-specific parts of an answer that its provider must get back unchanged, such as reasoning with signatures.

The parts of an answer are recorded in order, as plain JSON, in the message's metadata under `provider`. The text and
the arguments of calls are not recorded, because the message has them, and edits of the message must take effect. The
record is sent only to the provider that gave the answer, at the same URL; other providers get only text and calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit, urlunsplit

from statewright.messages import Message, ToolCall

if TYPE_CHECKING:
    from pydantic_ai import messages as vendor

_WITHOUT_RECORD = ({"part_kind", "length"}, {"part_kind", "tool_call_id"})
"""The sets of fields of parts that need no record. If all parts of an answer have such fields, it is not recorded."""
_RESPONSE_FIELDS = ("provider_name", "canonical_system", "provider_response_id", "model_name")
"""The fields of a response that are recorded besides its parts."""


class AnswerSource(NamedTuple):
    """The source of an answer: the provider and its URL."""

    name: str
    url: str
    """The URL without credentials and query, because it is stored."""

    @classmethod
    def at(cls, name: str, url: str) -> AnswerSource:
        """Return the source with a provider's name, and its URL without credentials and query."""
        parts = urlsplit(url)
        return cls(name, urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")))


def provenance_of(response: vendor.ModelResponse, source: AnswerSource) -> dict[str, Any] | None:
    """Return the record of an answer; None if the message itself has everything that must be sent again."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse

    recorded_response = ModelResponse(
        parts=response.parts, **{name: getattr(response, name) for name in _RESPONSE_FIELDS}
    )
    dumped = ModelMessagesTypeAdapter.dump_python([recorded_response], mode="json", exclude_none=True)[0]
    parts = [_without_content(part) for part in dumped["parts"] if part["part_kind"] != "file"]
    if all(set(part) in _WITHOUT_RECORD for part in parts):
        return None
    origin = {key: dumped[key] for key in _RESPONSE_FIELDS if key in dumped}
    return {"name": source.name, "url": source.url, **origin, "parts": parts}


def _without_content(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part without the content that the message has."""
    match part["part_kind"]:
        case "text":
            fields = {key: value for key, value in part.items() if key != "content"}
            return {**fields, "length": len(part["content"])}
        case "tool-call":
            omitted = ["args", "tool_name"]
            if "id" not in part and "provider_details" not in part:  # nothing else is specific to the provider
                omitted.append("provider_name")
            return {key: value for key, value in part.items() if key not in omitted}
        case _:
            return part


def restore_response(message: Message, source: AnswerSource) -> vendor.ModelResponse:
    """Convert an assistant message to a response of pydantic-ai, with its recorded parts if it is from this source."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    record: Any = (message.metadata or {}).get("provider")
    match record:
        case {"name": source.name, "url": source.url, "parts": list()}:
            origin = {key: record[key] for key in _RESPONSE_FIELDS if key in record}
            dumped = {"kind": "response", **origin, "parts": list(_restore_parts(message, record["parts"]))}
            return cast("vendor.ModelResponse", ModelMessagesTypeAdapter.validate_python([dumped])[0])
        case _:
            return _response_without_record(message)


def _response_without_record(message: Message) -> vendor.ModelResponse:
    from pydantic_ai import messages as vendor

    text = [vendor.TextPart(message.text)] if message.text else []
    calls = [vendor.ToolCallPart(call.name, call.written, call.id) for call in message.tool_calls]
    return vendor.ModelResponse(parts=[*text, *calls])


def _restore_parts(message: Message, record: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the recorded parts with the current content of the message. Content without a recorded part comes last."""
    texts = _split_text(message.text, [part["length"] for part in record if part["part_kind"] == "text"])
    calls = {call.id: call for call in message.tool_calls}
    for part in record:
        match part["part_kind"]:
            case "text":
                content = next(texts)
                if content:
                    yield {**{key: part[key] for key in part if key != "length"}, "content": content}
            case "tool-call":
                if (call := calls.pop(part["tool_call_id"], None)) is not None:
                    yield {**part, **_call_fields(call)}
            case _:
                yield dict(part)
    yield from ({"part_kind": "text", "content": text} for text in texts if text)
    yield from ({"part_kind": "tool-call", **_call_fields(call)} for call in calls.values())


def _split_text(text: str, lengths: Sequence[int]) -> Iterator[str]:
    """Yield the text in pieces of these lengths; if its length has changed, the whole text, and empty pieces."""
    if sum(lengths) != len(text):
        yield text
        yield from [""] * (len(lengths) - 1)
        return
    start = 0
    for length in lengths:
        yield text[start : start + length]
        start += length


def _call_fields(call: ToolCall) -> dict[str, Any]:
    return {"tool_name": call.name, "args": call.written, "tool_call_id": call.id}

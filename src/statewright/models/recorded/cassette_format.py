"""The JSON form of requests, answers and errors in a cassette.

A recorded request has everything that is sent, except values that differ between runs and mean nothing to a model: the
ids and metadata of messages, the metadata of the request, and its timeout. The ids of tool calls are replaced by
numbered ids, because some adapters generate random ids. Secrets in the settings of a request, such as an API key in its
headers, are masked, because cassettes are committed to version control. Requests that differ only in secrets are equal.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Final, cast

from statewright.data.mappings import without_none
from statewright.errors import ModelAnswerInvalid, ModelError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models.model import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    StreamRestarted,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageUpdate,
)
from statewright.redaction import Redactor, make_mask, secrets_in_settings

JsonObject = dict[str, Any]
_REDACTOR: Final = Redactor()
_BYTES: Final = "$bytes"
_DATETIME: Final = "$datetime"
_DICT: Final = "$dict"
"""The keys of dicts that stand for bytes, for a datetime, and for a dict whose only key is one of these three keys."""


# -- requests


def encode_request(request: ModelRequest) -> JsonObject:
    """Encode the parts of a request that are sent. Settings that are not set are omitted."""
    numbered_ids: dict[str, str] = {}
    form = request.output
    values = {
        "model": request.model,
        "system": request.system or None,
        "messages": [_encode_message(message, numbered_ids) for message in request.messages],
        "tools": [without_none(_fields(tool)) for tool in request.tools] or None,
        "tool_choice": None if request.tool_choice == "auto" else request.tool_choice,
        "output": None if form is None else _fields(form),
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
        "stop": list(request.stop) or None,
        "seed": request.seed,
        "parallel_tool_calls": request.parallel_tool_calls,
        "extra": dict(request.extra) or None,
    }
    return mask_settings(encode_value(without_none(values), "request"))


def mask_settings(request: JsonObject) -> JsonObject:
    """Return an encoded request with the secrets in its settings masked. They are recognised by name or shape."""
    if "extra" not in request:
        return request
    return {**request, "extra": _REDACTOR.value(request["extra"])}


def _encode_message(message: Message, numbered_ids: dict[str, str]) -> JsonObject:
    """Encode a message. `numbered_ids` maps the ids of the calls so far to the ids that replace them."""

    def number_id(call_id: str) -> str:
        return numbered_ids.setdefault(call_id, f"call-{len(numbered_ids) + 1}")

    calls = [{**_encode_call(call), "id": number_id(call.id)} for call in message.tool_calls]
    return without_none(
        {
            "role": message.role,
            "name": message.name,
            "content": message.content,
            "tool_calls": calls or None,
            "tool_call_id": None if message.tool_call_id is None else number_id(message.tool_call_id),
        }
    )


def _fields(value: Any) -> JsonObject:
    """Return the fields of a dataclass by name. Unlike `asdict`, it does not copy their values."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


# -- answers


def encode_response(response: ModelResponse) -> JsonObject:
    """Encode a response. Fields that are not set are omitted."""
    message = response.message
    encoded_message = without_none(
        {
            "content": message.content,
            "tool_calls": [_encode_call(call) for call in message.tool_calls] or None,
            "id": message.id,
            "name": message.name,
            "metadata": message.metadata or None,
        }
    )
    values = {
        "message": encoded_message,
        "usage": _encode_usage(response.usage),
        "model": response.model,
        "finish_reason": response.finish_reason,
    }
    return encode_value(without_none(values), "response")


def decode_response(data: JsonObject) -> ModelResponse:
    """Decode a response."""
    values = decode_value(data)
    fields = values["message"]
    message = Message(
        fields["content"],
        role="assistant",
        id=fields.get("id"),
        name=fields.get("name"),
        tool_calls=tuple(ToolCall(**call) for call in fields.get("tool_calls", ())),
        metadata=fields.get("metadata"),
    )
    return ModelResponse(message, Usage(**values.get("usage", {})), values.get("model"), values.get("finish_reason"))


def _encode_call(call: ToolCall) -> JsonObject:
    values = {"id": call.id, "name": call.name, "arguments": call.arguments}
    return values if call.invalid is None else {**values, "invalid": call.invalid}


def _encode_usage(usage: Usage) -> JsonObject:
    return {name: value for name, value in asdict(usage).items() if value}


# -- events of streamed answers


def encode_event(event: ModelEvent) -> JsonObject | None:
    """Encode an event of a stream; return None for the final response, which is encoded separately."""
    match event:
        case TextDelta(text):
            return {"text": text}
        case ReasoningDelta(text):
            return {"reasoning": text}
        case ToolCallDelta(index, call_id, name, arguments):
            return without_none({"call": index, "id": call_id, "name": name, "arguments": arguments or None})
        case UsageUpdate(usage):
            return {"usage": _encode_usage(usage)}
        case StreamRestarted():
            return {"restarted": True}
        case _:
            return None


def decode_event(data: JsonObject) -> ModelEvent:
    """Decode an event of a stream."""
    match data:
        case {"text": text}:
            return TextDelta(text)
        case {"reasoning": text}:
            return ReasoningDelta(text)
        case {"usage": usage}:
            return UsageUpdate(Usage(**usage))
        case {"restarted": True}:
            return StreamRestarted()
        case _:
            return ToolCallDelta(data["call"], data.get("id"), data.get("name"), data.get("arguments", ""))


# -- errors


def encode_error(error: ModelError, settings: Mapping[str, Any]) -> JsonObject:
    """Encode an error of a model, in which the secrets in the `settings` of the request are masked."""
    known_classes = (ModelUnavailable, ModelAnswerInvalid)
    error_class = next((cls for cls in known_classes if isinstance(error, cls)), ModelError)
    values = {
        "kind": error_class.__name__,
        "message": make_mask(secrets_in_settings(settings))(str(error)),
        "status": getattr(error, "status", None),
        "retry_after": getattr(error, "retry_after", None),
    }
    return without_none(values)


def decode_error(data: JsonObject) -> ModelError:
    """Decode an error."""
    message = data["message"]
    if data["kind"] == ModelUnavailable.__name__:
        return ModelUnavailable(message, status=data.get("status"), retry_after=data.get("retry_after"))
    return ModelAnswerInvalid(message) if data["kind"] == ModelAnswerInvalid.__name__ else ModelError(message)


# -- values


def encode_value(value: Any, path: str) -> Any:
    """Encode plain data, bytes and datetimes as JSON values. Raises ModelError, with the `path`, for other values."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {_BYTES: base64.b64encode(value).decode()}
        case datetime():
            return {_DATETIME: value.isoformat()}
        case Mapping():
            return _encode_mapping(cast("Mapping[Any, Any]", value), path)
        case list() | tuple():
            return [encode_value(item, f"{path}[{n}]") for n, item in enumerate(cast("Sequence[Any]", value))]
        case _:
            raise ModelError(
                f"{path} is {value!r} of type {type(value).__name__}, which a cassette cannot hold. "
                f"Use plain data: strings, numbers, lists and dicts."
            )


def _encode_mapping(value: Mapping[Any, Any], path: str) -> JsonObject:
    for key in value:
        if not isinstance(key, str):
            raise ModelError(f"{path} has the key {key!r}, which a cassette cannot hold. Use strings as keys.")
    values = {key: encode_value(item, f"{path}.{key}") for key, item in value.items()}
    return {_DICT: values} if len(values) == 1 and next(iter(values)) in (_BYTES, _DATETIME, _DICT) else values


def decode_value(data: Any) -> Any:
    """Decode a value, the inverse of `encode_value`."""
    if isinstance(data, list):
        return [decode_value(item) for item in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    values = cast(JsonObject, data)
    if len(values) == 1:
        ((key, inner),) = values.items()
        if key == _BYTES:
            return base64.b64decode(inner)
        if key == _DATETIME:
            return datetime.fromisoformat(inner)
        values = inner if key == _DICT else values
    return {key: decode_value(item) for key, item in values.items()}

"""The JSON form of requests, answers and errors in a cassette.

A request is written with everything that is sent, except what differs from run to run and means nothing to a model: ids
of messages, their metadata, the metadata of the request, and the timeout. Ids of calls are numbered, since some
adapters draw them at random. Secrets in the settings of a request, such as a key in its headers, are masked, since
cassettes are committed; requests that differ in nothing else are equal.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any, Final, cast

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
from statewright.redaction import Redactor, mask_of, secrets_in_settings

JsonObject = dict[str, Any]
_REDACTOR: Final = Redactor()
_BYTES: Final = "$bytes"
_INSTANT: Final = "$datetime"
_DICT: Final = "$dict"
"""Wraps a dict that would otherwise be read as one of the above."""


# -- requests


def encode_request(request: ModelRequest) -> JsonObject:
    """Encode the parts of a request that are sent; unset settings are omitted."""
    calls: dict[str, str] = {}
    form = request.output
    values = {
        "model": request.model,
        "system": request.system or None,
        "messages": [_encode_message(message, calls) for message in request.messages],
        "tools": [_without_empty(_fields(tool)) for tool in request.tools] or None,
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
    return mask_settings(encode_value(_without_empty(values), "request"))


def mask_settings(request: JsonObject) -> JsonObject:
    """Return an encoded request with the values masked whose name or shape is that of a secret."""
    if "extra" not in request:
        return request
    return {**request, "extra": _REDACTOR.value(request["extra"])}


def _encode_message(message: Message, calls: dict[str, str]) -> JsonObject:
    """Encode a message; `calls` maps the ids of calls so far to the ids that are written."""
    return _without_empty(
        {
            "role": message.role,
            "name": message.name,
            "content": message.content,
            "tool_calls": [{**_encode_call(call), "id": _number_call(call.id, calls)} for call in message.tool_calls]
            or None,
            "tool_call_id": None if message.tool_call_id is None else _number_call(message.tool_call_id, calls),
        }
    )


def _number_call(call_id: str, calls: dict[str, str]) -> str:
    return calls.setdefault(call_id, f"call-{len(calls) + 1}")


def _fields(value: Any) -> JsonObject:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _without_empty(data: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in data.items() if value is not None}


# -- answers


def encode_response(response: ModelResponse) -> JsonObject:
    """Encode a response; unknown fields are omitted."""
    message = response.message
    written = _without_empty(
        {
            "content": message.content,
            "tool_calls": [_encode_call(call) for call in message.tool_calls] or None,
            "id": message.id,
            "name": message.name,
            "metadata": message.metadata or None,
        }
    )
    values = {
        "message": written,
        "usage": _encode_usage(response.usage),
        "model": response.model,
        "finish_reason": response.finish_reason,
    }
    return encode_value(_without_empty(values), "response")


def decode_response(data: JsonObject) -> ModelResponse:
    """Decode a response."""
    values = decode_value(data)
    written = values["message"]
    message = Message(
        written["content"],
        role="assistant",
        id=written.get("id"),
        name=written.get("name"),
        tool_calls=tuple(ToolCall(**call) for call in written.get("tool_calls", ())),
        metadata=written.get("metadata"),
    )
    return ModelResponse(message, Usage(**values.get("usage", {})), values.get("model"), values.get("finish_reason"))


def _encode_call(call: ToolCall) -> JsonObject:
    values = {"id": call.id, "name": call.name, "arguments": call.arguments}
    return values if call.invalid is None else {**values, "invalid": call.invalid}


def _encode_usage(usage: Usage) -> JsonObject:
    return {name: value for name, value in asdict(usage).items() if value}


# -- pieces of answers


def encode_event(event: ModelEvent) -> JsonObject | None:
    """Encode an event of a stream; None for the final response, which is written separately."""
    match event:
        case TextDelta(text):
            return {"text": text}
        case ReasoningDelta(text):
            return {"reasoning": text}
        case ToolCallDelta(index, call_id, name, arguments):
            return _without_empty({"call": index, "id": call_id, "name": name, "arguments": arguments or None})
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
    """Encode an error of a model, without the secrets in the settings of its request."""
    kind = next(
        (error_class for error_class in (ModelUnavailable, ModelAnswerInvalid) if isinstance(error, error_class)),
        ModelError,
    )
    status, wait = (getattr(error, name, None) for name in ("status", "retry_after"))
    values = {
        "kind": kind.__name__,
        "message": mask_of(secrets_in_settings(settings))(str(error)),
        "status": status,
        "retry_after": wait,
    }
    return _without_empty(values)


def decode_error(data: JsonObject) -> ModelError:
    """Decode an error."""
    message = data["message"]
    if data["kind"] == ModelUnavailable.__name__:
        return ModelUnavailable(message, status=data.get("status"), retry_after=data.get("retry_after"))
    return ModelAnswerInvalid(message) if data["kind"] == ModelAnswerInvalid.__name__ else ModelError(message)


# -- values


def encode_value(value: Any, path: str) -> Any:
    """Encode plain data, bytes and instants as JSON. Raises ModelError for other values."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {_BYTES: base64.b64encode(value).decode()}
        case datetime():
            return {_INSTANT: value.isoformat()}
        case Mapping():
            return _encode_mapping(cast("Mapping[Any, Any]", value), path)
        case list() | tuple():
            return [encode_value(item, f"{path}[{n}]") for n, item in enumerate(cast("Sequence[Any]", value))]
        case _:
            raise ModelError(
                f"{path} is {value!r} of type {type(value).__name__}, which a cassette cannot hold. "
                f"Use plain data: text, numbers, lists and dicts."
            )


def _encode_mapping(value: Mapping[Any, Any], path: str) -> JsonObject:
    for key in value:
        if not isinstance(key, str):
            raise ModelError(f"{path} has the key {key!r}, which a cassette cannot hold. Keys have to be text.")
    values = {key: encode_value(item, f"{path}.{key}") for key, item in value.items()}
    return {_DICT: values} if len(values) == 1 and next(iter(values)) in (_BYTES, _INSTANT, _DICT) else values


def decode_value(data: Any) -> Any:
    """Decode a value."""
    if isinstance(data, list):
        return [decode_value(item) for item in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    values = cast(JsonObject, data)
    if len(values) == 1:
        ((key, inner),) = values.items()
        if key == _BYTES:
            return base64.b64decode(inner)
        if key == _INSTANT:
            return datetime.fromisoformat(inner)
        values = inner if key == _DICT else values
    return {key: decode_value(item) for key, item in values.items()}

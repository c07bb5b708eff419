"""Conversions that adapters share: output schemas, settings, HTTP statuses and finish reasons.

Every provider accepts an output schema whose root is an object. OpenAI refuses strict schemas whose root is a list, a
number, an enum or a union, and LangChain may send the schema as the schema of a tool's arguments, which are an object.
Therefore any other schema is wrapped: it becomes the schema of the only field of an object. The name of a schema may
come from a class, such as `Box[int]`, or from a title, so characters that providers refuse are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.data.mappings import without_none
from statewright.messages import replace
from statewright.models.model import FinishReason, ModelRequest, ModelResponse, OutputForm

FIELD: Final = "value"
"""The only field of the object that wraps an answer that is not itself an object."""
_MAX_NAME_LENGTH: Final = 64
_DEFINITIONS: Final = ("$defs", "definitions")
_ROOT_KEYWORDS: Final = ("$schema", "$id", *_DEFINITIONS)
"""Keywords that are valid only at the root of a schema."""


def provider_form(form: OutputForm) -> OutputForm:
    """Return an output form with a name and a schema that every provider accepts; the schema may be wrapped."""
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", form.name).strip("_")[:_MAX_NAME_LENGTH] or "answer"
    if is_wrapped(form):
        return OutputForm(_wrapped(form.schema), name)
    schema = form.schema if "type" in form.schema or "$ref" in form.schema else {"type": "object", **form.schema}
    return OutputForm(schema, name)


def is_wrapped(form: OutputForm | None) -> bool:
    """Return True if a form does not describe an object, so that `provider_form` wraps it in an object."""
    return form is not None and not _is_object(form.schema, form.schema, seen=frozenset())


def unwrapped(response: ModelResponse, form: OutputForm | None) -> ModelResponse:
    """Return the response without the object in which `provider_form` wrapped the answer.

    An answer that is not such an object, for example because it was cut off, is returned unchanged.
    """
    if not is_wrapped(form):
        return response
    try:
        value: Any = json.loads(without_fence(response.text))
    except (ValueError, RecursionError):
        return response
    if not isinstance(value, dict) or list(cast("dict[str, Any]", value)) != [FIELD]:
        return response
    content = json.dumps(value[FIELD], ensure_ascii=False)
    return replace(response, message=replace(response.message, content=content))


def without_fence(text: str) -> str:
    """Return the text of an answer without the Markdown code fence around it, if there is one."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        return stripped[3:-3].removeprefix("json").strip()
    return stripped


def _is_object(schema: Mapping[str, Any], root: Mapping[str, Any], *, seen: frozenset[str]) -> bool:
    """Return True if a schema describes only objects. `seen` are the references that led to this schema."""
    if "anyOf" in schema or "oneOf" in schema:
        return False
    if "type" in schema:
        return schema["type"] == "object"
    reference = schema.get("$ref")
    if not isinstance(reference, str) or reference in seen:
        return "properties" in schema
    target: Any = root
    for key in reference.removeprefix("#").split("/")[1:]:
        target = cast("Mapping[str, Any]", target).get(key) if isinstance(target, Mapping) else None
    return isinstance(target, Mapping) and _is_object(
        cast("Mapping[str, Any]", target), root, seen=seen | frozenset((reference,))
    )


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object whose only field has the given schema."""
    inner = {key: value for key, value in schema.items() if key not in _ROOT_KEYWORDS}
    outer: dict[str, Any] = {
        "type": "object",
        "properties": {FIELD: inner},
        "required": [FIELD],
        "additionalProperties": False,
    }
    outer |= {key: schema[key] for key in _DEFINITIONS if key in schema}
    rebased: dict[str, Any] = _rebased(outer)
    if rebased == outer:
        return outer
    # The schema refers to its root. This is no longer the root, so it becomes a definition.
    rebased["$defs"] = {**rebased.get("$defs", {}), FIELD: rebased["properties"][FIELD]}
    rebased["properties"] = {FIELD: {"$ref": f"#/$defs/{FIELD}"}}
    return rebased


def _is_root_reference(reference: Any) -> bool:
    """Return True for a reference to the root, or to a part of the root that is not a definition."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    return reference.removeprefix("#/").partition("/")[0] not in _DEFINITIONS


def _rebased(value: Any) -> Any:
    """Return a schema in which references to the old root refer to the definition that it has become."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        changed = {key: _rebased(item) for key, item in mapping.items()}
        if _is_root_reference(mapping.get("$ref")):
            changed["$ref"] = f"#/$defs/{FIELD}{mapping['$ref'][1:].rstrip('/')}"
        return changed
    return [_rebased(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


# -- settings


def sampling_settings(request: ModelRequest, *, stop: str = "stop") -> dict[str, Any]:
    """Return the sampling settings of a request that are set. `stop` is the key for the stop sequences."""
    return without_none(
        {
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "top_p": request.top_p,
            stop: list(request.stop) or None,
            "seed": request.seed,
        }
    )


# -- HTTP statuses

RETRIED_STATUSES: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which a retry may succeed."""


def is_temporary(status: int) -> bool:
    """Return True if a retry may succeed after a response with this status."""
    return status in RETRIED_STATUSES or status >= 500


# -- finish reasons

_WORDS: Final[Mapping[FinishReason, str]] = {
    "stop": "stop end_turn stop_sequence completed complete",
    "tools": "tool_call tool_calls function_call tool_use",
    "length": "length max_tokens max_output_tokens model_length model_context_window_exceeded error_limit incomplete",
    "refused": "content_filter content_filtered refusal safety recitation blocklist prohibited_content spii language "
    "image_safety image_prohibited_content image_recitation guardrail_intervened error_toxic other",
}
"""The providers' words for each finish reason, in lower case, separated by spaces. Google reports `OTHER` for an answer
that it withholds without saying why."""
_REASONS: Final[Mapping[str, FinishReason]] = {
    word: reason for reason, words in _WORDS.items() for word in words.split()
}
_KEYS: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")
"""The keys under which providers report a finish reason."""


def finish_reason_of(word: object) -> FinishReason | None:
    """Return the finish reason for a provider's word; None for an unknown one."""
    return _REASONS.get(str(word).lower())


def find_finish_reason(metadata: Mapping[str, Any]) -> FinishReason | None:
    """Return the finish reason in the metadata of a provider's answer; None if there is none, or if it is unknown."""
    # OpenAI's Responses API has the reason here; its `status` is only `incomplete`.
    details: Any = metadata.get("incomplete_details")
    if isinstance(details, Mapping):
        reason = finish_reason_of(cast("Mapping[str, Any]", details).get("reason"))
        if reason is not None:
            return reason
    word = next((metadata[key] for key in _KEYS if metadata.get(key)), "")
    return finish_reason_of(word)

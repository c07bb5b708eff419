"""Map the finish reasons of each provider to ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.models.model import FinishReason

_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "complete": "stop",
    "tool_calls": "tools",
    "function_call": "tools",
    "tool_use": "tools",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "error_limit": "length",
    "incomplete": "length",
    "content_filter": "refused",
    "content_filtered": "refused",
    "refusal": "refused",
    "safety": "refused",
    "recitation": "refused",
    "blocklist": "refused",
    "prohibited_content": "refused",
    "spii": "refused",
    "language": "refused",
    "image_safety": "refused",
    "image_prohibited_content": "refused",
    "image_recitation": "refused",
    "guardrail_intervened": "refused",
    "error_toxic": "refused",
    "other": "refused",
}
"""The providers' words in lower case, and ours. Google reports `OTHER` for an answer that it withholds for an
undisclosed reason."""
_KEYS: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")


def finish_reason_of(word: object) -> FinishReason | None:
    """Return the finish reason for a provider's word; None for an unknown one."""
    return _REASONS.get(str(word).lower())


def find_finish_reason(facts: Mapping[str, Any]) -> FinishReason | None:
    """Return the finish reason in a provider's metadata of an answer; None if there is no known one."""
    details: Any = facts.get("incomplete_details")
    if isinstance(details, Mapping):  # the reason of an `incomplete` answer of OpenAI's Responses API
        found = finish_reason_of(cast("Mapping[str, Any]", details).get("reason"))
        if found is not None:
            return found
    word = next((facts[key] for key in _KEYS if facts.get(key)), "")
    return finish_reason_of(word)

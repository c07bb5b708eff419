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
"""What providers write, in small letters, and what it means. Google says `OTHER` of an answer that it withholds for a
reason that it does not tell."""
_KEYS: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason", "status")


def finish_reason_of(word: object) -> FinishReason | None:
    """Return what a word of a provider means; None for one that is not known."""
    return _REASONS.get(str(word).lower())


def find_finish_reason(facts: Mapping[str, Any]) -> FinishReason | None:
    """Return the reason that stands in what a provider told of an answer; None if there is none that is known."""
    details: Any = facts.get("incomplete_details")
    if isinstance(details, Mapping):  # OpenAI's responses say there why one is `incomplete`
        found = finish_reason_of(cast("Mapping[str, Any]", details).get("reason"))
        if found is not None:
            return found
    word = next((facts[key] for key in _KEYS if facts.get(key)), "")
    return finish_reason_of(word)

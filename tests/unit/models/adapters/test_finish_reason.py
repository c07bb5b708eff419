"""Finish reasons of all providers."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from statewright.messages import langchain_calls
from statewright.models import OutputForm
from statewright.models.adapters.conversion import find_finish_reason, finish_reason_of
from statewright.models.adapters.langchain.conversion import convert_answer_call, convert_response

METADATA: list[tuple[dict[str, Any], str | None]] = [
    ({"finish_reason": "stop"}, "stop"),
    ({"stop_reason": "end_turn"}, "stop"),
    ({"stop_reason": "model_context_window_exceeded"}, "length"),
    ({"stopReason": "content_filtered"}, "refused"),
    ({"done_reason": "length"}, "length"),
    ({"finish_reason": "OTHER"}, "refused"),
    ({"finish_reason": "MAX_TOKENS"}, "length"),
    ({"finish_reason": "SPII"}, "refused"),
    ({"finish_reason": "BLOCKLIST"}, "refused"),
    ({"finish_reason": "PROHIBITED_CONTENT"}, "refused"),
    ({"status": "completed", "incomplete_details": None}, "stop"),
    ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "refused"),
    ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
    ({"status": "incomplete", "incomplete_details": {"reason": "of another kind"}}, "length"),
    ({"finish_reason": "never heard of"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("metadata", "reason"), METADATA)
def test_finish_reasons_are_found_in_any_metadata_key(metadata: dict[str, Any], reason: str | None) -> None:
    assert find_finish_reason(metadata) == reason


@pytest.mark.parametrize(("metadata", "reason"), METADATA)
@pytest.mark.parametrize("has_call", [False, True])
def test_langchain_answers_have_the_finish_reason(metadata: dict[str, Any], reason: str | None, has_call: bool) -> None:
    calls = [{"name": "answer", "args": {}, "id": "1"}] if has_call else []
    answer = AIMessage("half", tool_calls=calls, response_metadata=metadata)
    response = convert_response(answer, langchain_calls(answer), metadata, "m")
    is_ended = reason in ("length", "refused")
    assert response.finish_reason == ("tools" if has_call and not is_ended else reason)
    if has_call:
        form = OutputForm({"type": "object"})
        assert convert_answer_call(response, form).finish_reason == (reason if is_ended else "stop")


@pytest.mark.parametrize("word", [None, 7, "", "STOP"])
def test_unknown_finish_reasons_are_ignored(word: object) -> None:
    assert finish_reason_of(word) == ("stop" if word == "STOP" else None)

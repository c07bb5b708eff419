"""Conversion of the answers of providers."""

from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, FilePart, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from statewright.errors import ModelUnavailable
from statewright.models import Usage
from statewright.models.providers.incoming import convert_response, convert_usage
from statewright.models.providers.provenance import AnswerSource

SOURCE = AnswerSource("openai", "http://127.0.0.1:1")
STOPPED: dict[str, Any] = {"finish_reason": "stop", "provider_details": {"finish_reason": "stop"}}


def convert(*parts: Any, streamed: bool = False, **fields: Any) -> Any:
    return convert_response(ModelResponse(parts=parts, **{**STOPPED, **fields}), SOURCE, streamed=streamed)


def test_text_parts_are_joined() -> None:
    answer = convert(TextPart("a"), ThinkingPart("hm"), TextPart("b"))
    assert (answer.text, answer.reasoning, answer.message.role) == ("ab", "hm", "assistant")


def test_a_plain_answer_has_no_metadata() -> None:
    assert convert(TextPart("a")).message.metadata is None


@pytest.mark.parametrize(
    ("args", "arguments", "invalid"),
    [('{"a": 1}', {"a": 1}, None), ({"a": 1}, {"a": 1}, None), (None, {}, None), ("", {}, None), ('{"a', {}, '{"a')],
)
def test_arguments_of_calls_are_parsed(args: Any, arguments: dict[str, Any], invalid: str | None) -> None:
    (call,) = convert(ToolCallPart("add", args, "c")).message.tool_calls
    assert (call.id, call.name, call.arguments, call.invalid) == ("c", "add", arguments, invalid)


@pytest.mark.parametrize(
    ("provider_reason", "reason"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "refused"), ("tool_call", "tools")],
)
def test_finish_reasons_are_translated(provider_reason: str, reason: str) -> None:
    assert convert(TextPart("a"), finish_reason=provider_reason).finish_reason == reason


def test_an_answer_with_calls_has_the_finish_reason_tools() -> None:
    assert convert(ToolCallPart("add", "{}", "c")).finish_reason == "tools"
    assert convert(ToolCallPart("add", "{", "c"), finish_reason="length").finish_reason == "length"


def test_the_text_of_a_refusal_becomes_the_text() -> None:
    answer = convert(finish_reason="content_filter", provider_details={"refusal": "I will not."})
    assert (answer.text, answer.finish_reason) == ("I will not.", "refused")


def test_an_answer_that_broke_off_makes_the_model_unavailable() -> None:
    with pytest.raises(ModelUnavailable, match=r"'openai' at http.*broke off.*3 characters of text and 0 tool calls"):
        convert(TextPart("abc"), finish_reason=None, provider_details=None)


def test_a_missing_finish_reason_is_allowed_except_in_a_stream() -> None:
    assert convert(TextPart("a"), provider_details={}).finish_reason == "stop"
    with pytest.raises(ModelUnavailable, match="broke off"):
        convert(TextPart("a"), provider_details={}, streamed=True)


def test_an_answer_with_an_error_reason_makes_the_model_unavailable() -> None:
    with pytest.raises(ModelUnavailable, match="ended with 'MALFORMED'"):
        convert(TextPart("a"), finish_reason="error", provider_details={"finish_reason": "MALFORMED"})


def test_files_become_parts_after_the_text() -> None:
    answer = convert(TextPart("a"), FilePart(BinaryContent(b"\0", media_type="image/png")))
    assert answer.message.content == [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


def test_usage_is_converted_with_all_its_fields() -> None:
    usage = RequestUsage(input_tokens=9, output_tokens=5, cache_read_tokens=3, output_reasoning_tokens=2)
    assert convert_usage(usage, 0.5) == Usage(9, 5, 0.5, 3, 2)


def test_the_cost_of_a_known_model_is_computed() -> None:
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0)
    priced = convert(TextPart("a"), usage=usage, model_name="gpt-4.1", provider_name="openai").usage
    assert priced.cost > 0
    assert priced.input_tokens == 1_000_000


@pytest.mark.parametrize("model", ["nobody-knows-me", None])
def test_the_cost_of_an_unknown_model_is_zero(model: str | None) -> None:
    assert convert(TextPart("a"), model_name=model, provider_name="x").usage.cost == 0.0


def test_a_cost_that_the_provider_reports_is_used() -> None:
    assert convert(TextPart("a"), usage=RequestUsage(cost=Decimal("0.25"))).usage.cost == 0.25

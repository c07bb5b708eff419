"""Answers of providers as our responses."""

from decimal import Decimal
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, FilePart, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from statewright.errors import ModelUnavailable
from statewright.models import Usage
from statewright.models.providers.incoming import convert_response, convert_usage
from statewright.models.providers.provenance import Source

SOURCE = Source("openai", "http://127.0.0.1:1")
STOPPED: dict[str, Any] = {"finish_reason": "stop", "provider_details": {"finish_reason": "stop"}}


def read(*parts: Any, streamed: bool = False, **about: Any) -> Any:
    return convert_response(ModelResponse(parts=parts, **{**STOPPED, **about}), SOURCE, streamed=streamed)


def test_text_is_joined_as_it_was_streamed() -> None:
    answer = read(TextPart("a"), ThinkingPart("hm"), TextPart("b"))
    assert (answer.text, answer.reasoning, answer.message.role) == ("ab", "hm", "assistant")


def test_an_answer_without_anything_besides_has_no_metadata() -> None:
    assert read(TextPart("a")).message.metadata is None


@pytest.mark.parametrize(
    ("args", "arguments", "invalid"),
    [('{"a": 1}', {"a": 1}, None), ({"a": 1}, {"a": 1}, None), (None, {}, None), ("", {}, None), ('{"a', {}, '{"a')],
)
def test_arguments_of_calls(args: Any, arguments: dict[str, Any], invalid: str | None) -> None:
    (call,) = read(ToolCallPart("add", args, "c")).message.tool_calls
    assert (call.id, call.name, call.arguments, call.invalid) == ("c", "add", arguments, invalid)


@pytest.mark.parametrize(
    ("theirs", "ours"), [("stop", "stop"), ("length", "length"), ("content_filter", "refused"), ("tool_call", "tools")]
)
def test_reasons_to_end(theirs: str, ours: str) -> None:
    assert read(TextPart("a"), finish_reason=theirs).finish_reason == ours


def test_calls_are_a_reason_of_their_own() -> None:
    assert read(ToolCallPart("add", "{}", "c")).finish_reason == "tools"
    assert read(ToolCallPart("add", "{", "c"), finish_reason="length").finish_reason == "length"


def test_the_words_of_a_refusal_are_the_text() -> None:
    answer = read(finish_reason="content_filter", provider_details={"refusal": "I will not."})
    assert (answer.text, answer.finish_reason) == ("I will not.", "refused")


def test_an_answer_that_broke_off_is_none() -> None:
    with pytest.raises(ModelUnavailable, match=r"'openai' at http.*broke off.*3 characters of text and 0 tool calls"):
        read(TextPart("abc"), finish_reason=None, provider_details=None)


def test_some_servers_leave_out_the_reason_but_not_in_a_stream() -> None:
    assert read(TextPart("a"), provider_details={}).finish_reason == "stop"
    with pytest.raises(ModelUnavailable, match="broke off"):
        read(TextPart("a"), provider_details={}, streamed=True)


def test_an_answer_that_failed_on_the_way_is_none() -> None:
    with pytest.raises(ModelUnavailable, match="ended with 'MALFORMED'"):
        read(TextPart("a"), finish_reason="error", provider_details={"finish_reason": "MALFORMED"})


def test_files_stand_beside_the_text() -> None:
    answer = read(TextPart("a"), FilePart(BinaryContent(b"\0", media_type="image/png")))
    assert answer.message.content == [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


def test_usage_has_all_its_kinds() -> None:
    usage = RequestUsage(input_tokens=9, output_tokens=5, cache_read_tokens=3, output_reasoning_tokens=2)
    assert convert_usage(usage, 0.5) == Usage(9, 5, 0.5, 3, 2)


def test_a_known_model_has_a_price() -> None:
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0)
    priced = read(TextPart("a"), usage=usage, model_name="gpt-4.1", provider_name="openai").usage
    assert priced.cost > 0
    assert priced.input_tokens == 1_000_000


@pytest.mark.parametrize("model", ["nobody-knows-me", None])
def test_an_unknown_model_has_none(model: str | None) -> None:
    assert read(TextPart("a"), model_name=model, provider_name="x").usage.cost == 0.0


def test_a_price_that_the_provider_told_counts() -> None:
    assert read(TextPart("a"), usage=RequestUsage(cost=Decimal("0.25"))).usage.cost == 0.25

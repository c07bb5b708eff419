"""Encoding of requests, responses and errors as plain data."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.errors import ModelAnswerInvalid, ModelError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    OutputForm,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    Usage,
    UsageUpdate,
)
from statewright.models.recorded.cassette_format import (
    decode_error,
    decode_event,
    decode_response,
    decode_value,
    encode_error,
    encode_event,
    encode_request,
    encode_response,
    encode_value,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.datetimes(),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from(("$bytes", "$datetime", "$dict")), inside, max_size=3)
    ),
    max_leaves=8,
)


def test_a_simple_request_is_encoded_briefly() -> None:
    assert encode_request(ModelRequest((Message("hi"),))) == {"messages": [{"role": "user", "content": "hi"}]}


def test_all_settings_of_a_request_are_encoded() -> None:
    request = ModelRequest(
        (Message("hi", name="ann"),),
        system="be kind",
        tools=(ToolSpec("look", "Looks.", {"type": "object"}, strict=True),),
        output=OutputForm({"type": "object"}),
        model="m",
        temperature=0.5,
        tool_choice="any",
        max_tokens=5,
        top_p=0.1,
        stop=("END",),
        seed=3,
        parallel_tool_calls=False,
        extra={"effort": "low"},
    )
    assert encode_request(request) == {
        "model": "m",
        "system": "be kind",
        "messages": [{"role": "user", "name": "ann", "content": "hi"}],
        "tools": [{"name": "look", "description": "Looks.", "parameters": {"type": "object"}, "strict": True}],
        "tool_choice": "any",
        "output": {"schema": {"type": "object"}, "name": "answer"},
        "temperature": 0.5,
        "top_p": 0.1,
        "max_tokens": 5,
        "stop": ["END"],
        "seed": 3,
        "parallel_tool_calls": False,
        "extra": {"effort": "low"},
    }


def test_ids_metadata_and_the_timeout_are_not_encoded() -> None:
    first = ModelRequest((Message("hi", id="1", metadata={"a": 1}),), metadata={"state": "x"}, timeout=3.0)
    assert encode_request(first) == encode_request(ModelRequest((Message("hi", id="2"),)))


def test_call_ids_are_encoded_as_numbers() -> None:
    def conversation(first: str, second: str) -> ModelRequest:
        calls = (ToolCall(first, "look", {"a": 1}), ToolCall(second, "look", invalid="{"))
        results = (Message("x", role="tool", tool_call_id=second), Message("y", role="tool", tool_call_id=first))
        return ModelRequest((Message("", role="assistant", tool_calls=calls), *results))

    encoded = encode_request(conversation("a", "b"))
    assert encoded == encode_request(conversation("c", "d"))
    assert encoded["messages"][0]["tool_calls"] == [
        {"id": "call-1", "name": "look", "arguments": {"a": 1}},
        {"id": "call-2", "name": "look", "arguments": {}, "invalid": "{"},
    ]
    assert [message["tool_call_id"] for message in encoded["messages"][1:]] == ["call-2", "call-1"]


@pytest.mark.parametrize(
    "response",
    [
        ModelResponse(Message("hi", role="assistant")),
        ModelResponse(
            Message(
                "hi",
                role="assistant",
                id="m1",
                name="bot",
                tool_calls=(ToolCall("1", "look", {"a": [1]}), ToolCall("2", "look", invalid="{")),
                metadata={"reasoning": "hm", "provider": {"sign": b"\x00", "at": datetime(2026, 1, 1, tzinfo=UTC)}},
            ),
            Usage(1, 2, 0.5, 1, 1),
            "m",
            "tools",
        ),
        ModelResponse(Message([{"type": "image", "data": b"png"}], role="assistant"), finish_reason="length"),
    ],
)
def test_responses_survive_encoding(response: ModelResponse) -> None:
    assert decode_response(encode_response(response)) == response


@pytest.mark.parametrize(
    "event",
    [
        TextDelta("x"),
        TextDelta(""),
        ReasoningDelta("hm"),
        ToolCallDelta(1, "c", "look"),
        ToolCallDelta(0, arguments='{"a'),
        UsageUpdate(Usage(1, 2, 0.5)),
    ],
)
def test_stream_events_survive_encoding(event: ModelEvent) -> None:
    encoded = encode_event(event)
    assert encoded is not None
    assert decode_event(encoded) == event


def test_the_final_event_is_not_encoded() -> None:
    assert encode_event(ResponseFinished(ModelResponse(Message("x", role="assistant")))) is None


@pytest.mark.parametrize(
    "error",
    [ModelError("wrong"), ModelAnswerInvalid("odd"), ModelUnavailable("busy", status=429, retry_after=2.5)],
)
def test_errors_survive_encoding(error: ModelError) -> None:
    back = decode_error(encode_error(error, {}))
    assert (type(back), str(back)) == (type(error), str(error))
    assert vars(back) == vars(error)


@given(values)
def test_plain_values_survive_encoding(value: Any) -> None:
    assert decode_value(encode_value(value, "x")) == value


@pytest.mark.parametrize(
    ("extra", "path"),
    [({"a": [object()]}, r"request\.extra\.a\[0\] is <object"), ({"a": {1: 2}}, r"request\.extra\.a has the key 1")],
)
def test_other_values_are_rejected_with_their_path(extra: dict[str, Any], path: str) -> None:
    with pytest.raises(ModelError, match=path):
        encode_request(ModelRequest((), extra=extra))

"""The model that answers from a script."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from statewright.errors import ModelError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, TextDelta, ToolCallDelta, Usage

REQUEST = ModelRequest((Message("12345678"),), system="1234")


def complete(model: ScriptedModel, request: ModelRequest = REQUEST) -> Any:
    return asyncio.run(model.complete(request))


def test_answers_are_returned_in_order_and_requests_recorded() -> None:
    model = ScriptedModel(["one", Message("two", role="user")])
    first, second = complete(model), complete(model)
    assert [(response.message.role, response.text) for response in (first, second)] == [
        ("assistant", "one"),
        ("assistant", "two"),
    ]
    assert model.requests == [REQUEST, REQUEST]


def test_after_the_last_answer_the_error_suggests_repeat_last() -> None:
    model = ScriptedModel(["one"])
    complete(model)
    with pytest.raises(ModelError, match=r"1 answers.*repeat_last"):
        complete(model)


def test_the_last_answer_may_be_repeated() -> None:
    model = ScriptedModel(["one", "two"], repeat_last=True)
    assert [complete(model).text for _ in range(4)] == ["one", "two", "two", "two"]
    with pytest.raises(ModelError):
        complete(ScriptedModel([], repeat_last=True))


def test_a_function_answers_each_request() -> None:
    assert complete(ScriptedModel(lambda request: request.system * 2)).text == "12341234"


def test_an_exception_in_the_script_is_raised() -> None:
    with pytest.raises(ModelUnavailable, match="busy"):
        complete(ScriptedModel([ModelUnavailable("busy")]))


def test_tokens_are_estimated_as_four_characters_rounded_up() -> None:
    assert complete(ScriptedModel(["12345"])).usage == Usage(input_tokens=3, output_tokens=2)


def test_a_response_is_returned_unchanged() -> None:
    response = ModelResponse(Message("x", role="assistant"), Usage(cost=0.5), "m")
    assert complete(ScriptedModel([response])) is response


def stream_events(model: ScriptedModel) -> list[Any]:
    async def read() -> list[Any]:
        return [event async for event in model.stream(REQUEST)]

    return asyncio.run(read())


@pytest.mark.parametrize("text", ["one two", "  one\n\ntwo  ", "one", " ", "", "a  b\tc\n"])
def test_streamed_words_add_up_to_the_text(text: str) -> None:
    events = stream_events(ScriptedModel([text]))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    assert events[-1].response.text == text


def test_streamed_calls_begin_with_their_name() -> None:
    calls = [ToolCall("1", "dig", {"a": 1}), ToolCall("2", "dig")]
    deltas = [event for event in stream_events(ScriptedModel([calls])) if isinstance(event, ToolCallDelta)]
    assert deltas == [
        ToolCallDelta(0, "1", "dig"),
        ToolCallDelta(0, arguments='{"a": 1}'),
        ToolCallDelta(1, "2", "dig"),
        ToolCallDelta(1, arguments="{}"),
    ]


def test_a_streamed_answer_uses_up_the_script() -> None:
    model = ScriptedModel(["one", "two"])
    assert stream_events(model)[-1].response.text == "one"
    assert complete(model).text == "two"
    assert len(model.requests) == 2


def test_the_finish_reason_distinguishes_calls_from_text() -> None:
    model = ScriptedModel([ToolCall("1", "dig"), "text"])
    assert [complete(model).finish_reason for _ in range(2)] == ["tools", "stop"]


def test_threads_share_one_script() -> None:
    model = ScriptedModel([str(number) for number in range(200)])
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: complete(model).text, range(200)))
    assert sorted(answers, key=int) == [str(number) for number in range(200)]

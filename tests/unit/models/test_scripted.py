"""The model that answers from a script."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from statewright.errors import ModelError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, TextDelta, ToolCallDelta, Usage

REQUEST = ModelRequest((Message("12345678"),), system="1234")


def asked(model: ScriptedModel, request: ModelRequest = REQUEST) -> Any:
    return asyncio.run(model.complete(request))


def test_answers_come_in_their_order_and_requests_are_remembered() -> None:
    model = ScriptedModel(["one", Message("two", role="user")])
    first, second = asked(model), asked(model)
    assert [(one.message.role, one.text) for one in (first, second)] == [("assistant", "one"), ("assistant", "two")]
    assert model.requests == [REQUEST, REQUEST]


def test_after_the_last_answer_it_fails_and_says_how_to_go_on() -> None:
    model = ScriptedModel(["one"])
    asked(model)
    with pytest.raises(ModelError, match=r"1 answers.*repeat_last"):
        asked(model)


def test_the_last_answer_may_be_repeated() -> None:
    model = ScriptedModel(["one", "two"], repeat_last=True)
    assert [asked(model).text for _ in range(4)] == ["one", "two", "two", "two"]
    with pytest.raises(ModelError):
        asked(ScriptedModel([], repeat_last=True))


def test_a_function_answers_each_request() -> None:
    assert asked(ScriptedModel(lambda request: request.system * 2)).text == "12341234"


def test_an_exception_in_the_script_is_raised() -> None:
    with pytest.raises(ModelUnavailable, match="busy"):
        asked(ScriptedModel([ModelUnavailable("busy")]))


def test_tokens_are_four_characters_and_rounded_up() -> None:
    assert asked(ScriptedModel(["12345"])).usage == Usage(input_tokens=3, output_tokens=2)


def test_a_response_is_given_as_it_is() -> None:
    response = ModelResponse(Message("x", role="assistant"), Usage(cost=0.5), "m")
    assert asked(ScriptedModel([response])) is response


def streamed(model: ScriptedModel) -> list[Any]:
    async def read() -> list[Any]:
        return [event async for event in model.stream(REQUEST)]

    return asyncio.run(read())


@pytest.mark.parametrize("text", ["one two", "  one\n\ntwo  ", "one", " ", "", "a  b\tc\n"])
def test_streamed_words_are_the_text(text: str) -> None:
    events = streamed(ScriptedModel([text]))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    assert events[-1].response.text == text


def test_streamed_calls_have_their_name_first() -> None:
    calls = [ToolCall("1", "dig", {"a": 1}), ToolCall("2", "dig")]
    pieces = [event for event in streamed(ScriptedModel([calls])) if isinstance(event, ToolCallDelta)]
    assert pieces == [
        ToolCallDelta(0, "1", "dig"),
        ToolCallDelta(0, arguments='{"a": 1}'),
        ToolCallDelta(1, "2", "dig"),
        ToolCallDelta(1, arguments="{}"),
    ]


def test_what_is_streamed_counts_as_an_answer() -> None:
    model = ScriptedModel(["one", "two"])
    assert streamed(model)[-1].response.text == "one"
    assert asked(model).text == "two"
    assert len(model.requests) == 2


def test_calls_are_told_from_text_by_their_reason() -> None:
    model = ScriptedModel([ToolCall("1", "dig"), "text"])
    assert [asked(model).finish_reason for _ in range(2)] == ["tools", "stop"]


def test_threads_share_one_script() -> None:
    model = ScriptedModel([str(number) for number in range(200)])
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: asked(model).text, range(200)))
    assert sorted(found, key=int) == [str(number) for number in range(200)]

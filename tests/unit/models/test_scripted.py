"""The model that answers from a script."""

import asyncio
from typing import Any

import pytest

from statewright.errors import ModelError, ModelUnavailable
from statewright.messages import Message
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, Usage

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

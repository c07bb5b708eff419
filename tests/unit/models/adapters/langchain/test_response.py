"""Conversion of LangChain's answers."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from statewright.langchain_forms import reasoning_of, text_of
from statewright.messages import ToolCall, langchain_calls
from statewright.models import OutputForm, Usage
from statewright.models.adapters.langchain.conversion import convert_answer_call, convert_response

FORM = OutputForm({"type": "object"})


def convert(answer: AIMessage) -> Any:
    return convert_response(answer, langchain_calls(answer), answer.response_metadata, "m")


def answer_with_calls(*names: str, content: Any = "") -> AIMessage:
    return AIMessage(content, tool_calls=[{"name": name, "args": {"n": 1}, "id": name} for name in names])


def test_missing_fields_have_defaults() -> None:
    response = convert(AIMessage("x"))
    assert (response.message.metadata, response.usage, response.model, response.finish_reason) == (
        None,
        Usage(),
        "m",
        None,
    )


def test_an_answer_with_calls_has_the_finish_reason_tools() -> None:
    assert convert(answer_with_calls("look")).finish_reason == "tools"
    stopped = AIMessage(
        "", tool_calls=answer_with_calls("look").tool_calls, response_metadata={"finish_reason": "length"}
    )
    assert convert(stopped).finish_reason == "length"


def test_text_and_reasoning_are_separated() -> None:
    answer = AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "a"}, "b"])
    assert (text_of(answer), reasoning_of(answer)) == ("ab", "hm")


def test_content_that_the_message_already_has_is_not_saved() -> None:
    plain = AIMessage("x", additional_kwargs={"refusal": None, "parsed": object(), "tool_calls": []})
    assert convert(plain).message.metadata is None
    signed = convert(
        AIMessage("x", additional_kwargs={"sign": "s"}, response_metadata={"model_provider": "p", "id": "1"})
    )
    assert signed.message.metadata == {
        "provider": {
            "langchain": {
                "content": "x",
                "additional_kwargs": {"sign": "s"},
                "response_metadata": {"model_provider": "p"},
            }
        }
    }


def test_an_invalid_call_may_lack_all_fields() -> None:
    answer = AIMessage("", invalid_tool_calls=[{"name": None, "args": None, "id": None, "error": None}])
    assert langchain_calls(answer) == [ToolCall("", "", invalid="")]


@pytest.mark.parametrize(
    ("names", "text", "calls"),
    [(["answer"], '{"n": 1}', []), (["look", "answer"], "", ["look"]), (["look"], "", ["look"]), ([], "", [])],
)
def test_the_call_of_the_answer_tool_becomes_the_text(names: list[str], text: str, calls: list[str]) -> None:
    response = convert_answer_call(convert(answer_with_calls(*names)), FORM)
    assert response.text == text
    assert [call.name for call in response.message.tool_calls] == calls


def test_the_call_of_the_answer_tool_is_not_saved() -> None:
    blocks = [{"type": "tool_use", "id": "answer", "name": "answer", "input": {"n": 1}}]
    before = convert(answer_with_calls("answer", content=blocks))
    assert before.message.metadata is not None
    assert convert_answer_call(before, FORM).message.metadata is None

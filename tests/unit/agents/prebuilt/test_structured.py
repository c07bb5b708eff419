"""Structured answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright.agents import create_agent
from statewright.agents.prebuilt.structured import ATTEMPTS, StructuredOutput
from statewright.errors import InvalidConfig, ModelAnswerInvalid
from statewright.models import ScriptedModel


class Model(BaseModel):
    city: str
    days: int = 1


@dataclass
class Plain:
    city: str
    days: int = 1


class Typed(TypedDict):
    city: str
    days: int


SCHEMA = {
    "title": "Trip",
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
VALID = '{"city": "Rome", "days": 2}'


def request_answer(form: Any, *script: str) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(["It is Rome.", *script])
    values = create_agent(model, response_format=form).invoke({"messages": ["where?"]})
    return values["structured_response"], model


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Model, Model(city="Rome", days=2)),
        (Plain, Plain("Rome", 2)),
        (Typed, {"city": "Rome", "days": 2}),
        (SCHEMA, {"city": "Rome", "days": 2}),
    ],
)
def test_the_answer_is_converted_to_the_response_format(form: Any, value: Any) -> None:
    answer, model = request_answer(form, VALID)
    assert answer == value
    last = model.requests[-1]
    assert last.output is not None
    assert set(last.output.schema["properties"]) == {"city", "days"}
    assert (last.tools, last.tool_choice) == ((), "auto")


def test_the_output_form_is_named_after_its_class_or_title() -> None:
    assert StructuredOutput(Model).output.name == "Model"
    assert StructuredOutput(SCHEMA).output.name == "Trip"
    assert StructuredOutput({"type": "object"}).output.name == "answer"


@pytest.mark.parametrize("text", [f"```json\n{VALID}\n```", f"```\n{VALID}\n```", f"\n {VALID} \n"])
@pytest.mark.parametrize("form", [Model, SCHEMA])
def test_code_fences_are_removed(text: str, form: Any) -> None:
    answer, model = request_answer(form, text)
    assert answer in (Model(city="Rome", days=2), {"city": "Rome", "days": 2})
    assert len(model.requests) == 2


@pytest.mark.parametrize("invalid", ["Rome", "", "{}", "[]", "null", '{"city": 3}', '{"city": "Rome"', "```json\n```"])
@pytest.mark.parametrize("form", [Model, Plain, Typed, SCHEMA])
def test_an_invalid_answer_is_requested_again(form: Any, invalid: str) -> None:
    answer, model = request_answer(form, invalid, VALID)
    assert answer["city"] == "Rome" if isinstance(answer, dict) else answer.city == "Rome"
    correction = model.requests[-1].messages[-2:]
    # an empty answer is not sent back: providers refuse it
    assert [message.role for message in correction] == (["assistant", "user"] if invalid else ["user", "user"])
    if invalid:
        assert correction[0].text == invalid
    assert "does not have the requested form" in correction[1].text


def test_repeated_invalid_answers_raise_an_error() -> None:
    with pytest.raises(ModelAnswerInvalid, match=f"'Model' in {ATTEMPTS} answers"):
        request_answer(Model, "a", "b", "c", VALID)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "form",
    [3, "Model", object(), lambda: None, {"type": "nothing"}, {"properties": 3}, {"$ref": "#/nowhere"}],
    ids=["number", "text", "object", "function", "type", "properties", "reference"],
)
def test_an_invalid_response_format_is_refused(form: Any) -> None:
    with pytest.raises(InvalidConfig, match="response_format"):
        create_agent(ScriptedModel([]), response_format=form)

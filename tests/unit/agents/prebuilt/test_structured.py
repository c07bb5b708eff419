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
RIGHT = '{"city": "Rome", "days": 2}'


def asked(form: Any, *script: str) -> tuple[Any, ScriptedModel]:
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
def test_the_answer_has_the_form(form: Any, value: Any) -> None:
    found, model = asked(form, RIGHT)
    assert found == value
    last = model.requests[-1]
    assert last.output is not None
    assert set(last.output.schema["properties"]) == {"city", "days"}
    assert (last.tools, last.tool_choice) == ((), "auto")


def test_the_form_has_the_name_of_its_class_or_its_title() -> None:
    assert StructuredOutput(Model).output.name == "Model"
    assert StructuredOutput(SCHEMA).output.name == "Trip"
    assert StructuredOutput({"type": "object"}).output.name == "answer"


@pytest.mark.parametrize("text", [f"```json\n{RIGHT}\n```", f"```\n{RIGHT}\n```", f"\n {RIGHT} \n"])
@pytest.mark.parametrize("form", [Model, SCHEMA])
def test_a_fence_is_taken_off(text: str, form: Any) -> None:
    found, model = asked(form, text)
    assert found in (Model(city="Rome", days=2), {"city": "Rome", "days": 2})
    assert len(model.requests) == 2


@pytest.mark.parametrize("wrong", ["Rome", "", "{}", "[]", "null", '{"city": 3}', '{"city": "Rome"', "```json\n```"])
@pytest.mark.parametrize("form", [Model, Plain, Typed, SCHEMA])
def test_an_answer_that_does_not_fit_is_requested_again(form: Any, wrong: str) -> None:
    found, model = asked(form, wrong, RIGHT)
    assert found["city"] == "Rome" if isinstance(found, dict) else found.city == "Rome"
    again = model.requests[-1].messages[-2:]
    # an empty answer is not sent back: providers refuse it
    assert [one.role for one in again] == (["assistant", "user"] if wrong else ["user", "user"])
    if wrong:
        assert again[0].text == wrong
    assert "does not have the requested form" in again[1].text


def test_a_model_that_never_manages_is_an_error() -> None:
    with pytest.raises(ModelAnswerInvalid, match=f"'Model' in {ATTEMPTS} answers"):
        asked(Model, "a", "b", "c", RIGHT)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "form",
    [3, "Model", object(), lambda: None, {"type": "nothing"}, {"properties": 3}, {"$ref": "#/nowhere"}],
    ids=["number", "text", "object", "function", "type", "properties", "reference"],
)
def test_an_invalid_response_format_is_refused(form: Any) -> None:
    with pytest.raises(InvalidConfig, match="response_format"):
        create_agent(ScriptedModel([]), response_format=form)

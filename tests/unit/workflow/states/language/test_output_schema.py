"""2.8: the form in which a state wants its answer."""

import asyncio
import json

import pytest

from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.language.output_schema import AnswerForm, schema_in

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SCHEMA),
        '{"type": "array", "items": {"type": "string"}}',
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "enum": [1]}',
    ],
)
def test_2_8_a_json_schema_is_one(text: str) -> None:
    assert schema_in(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    ['{"n": 1}', '{"type": "bug", "title": "..."}', '{"n": 1, ...}', "[1]", "words"],
)
def test_2_8_anything_else_is_an_example(text: str) -> None:
    assert schema_in(text) is None
    assert AnswerForm(text).fault(ParsedOutput("words")) is None
    assert AnswerForm(text).output is None


def test_2_8_an_invalid_schema_is_an_example() -> None:
    form = AnswerForm('{"type": 5, "properties": {}}')
    assert (form.output, form.fault(ParsedOutput("words"))) == (None, None)


@pytest.mark.parametrize(
    ("answer", "fits"),
    [('{"n": 1}', True), ("Here: {'n': 2}.", True), ('{"n": "x"}', False), ("words", False), ("{}", False)],
)
def test_2_8_answers_are_checked_as_they_are_parsed(answer: str, fits: bool) -> None:
    assert (AnswerForm(json.dumps(SCHEMA)).fault(ParsedOutput(answer)) is None) is fits


def test_2_8_what_is_wrong_is_said() -> None:
    assert "n" in str(AnswerForm(json.dumps(SCHEMA)).fault(ParsedOutput("{}")))


def test_2_8_the_form_is_templated() -> None:
    form = AnswerForm('{"n": {{u}}, "m": {{missing}}}')
    assert '{"n": 7, "m": {{missing}}}' in asyncio.run(form.instruction({"u": 7}))

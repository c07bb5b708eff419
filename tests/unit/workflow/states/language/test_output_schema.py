"""2.8: the output schema of a state."""

import json

import pytest

from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.language.output_schema import OutputSchema, read_json_schema

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SCHEMA),
        '{"type": "array", "items": {"type": "string"}}',
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "enum": [1]}',
    ],
)
def test_2_8_a_json_schema_is_recognized(text: str) -> None:
    assert read_json_schema(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    ['{"n": 1}', '{"type": "bug", "title": "..."}', '{"n": 1, ...}', "[1]", "words"],
)
def test_2_8_other_texts_are_examples(text: str) -> None:
    assert read_json_schema(text) is None
    assert OutputSchema(text).find_fault(ParsedOutput("words")) is None
    assert OutputSchema(text).output is None


def test_2_8_an_invalid_schema_is_an_example() -> None:
    schema = OutputSchema('{"type": 5, "properties": {}}')
    assert (schema.output, schema.find_fault(ParsedOutput("words"))) == (None, None)


@pytest.mark.parametrize(
    ("answer", "is_valid"),
    [('{"n": 1}', True), ("Here: {'n': 2}.", True), ('{"n": "x"}', False), ("words", False), ("{}", False)],
)
def test_2_8_parsed_answers_are_checked(answer: str, is_valid: bool) -> None:
    assert (OutputSchema(json.dumps(SCHEMA)).find_fault(ParsedOutput(answer)) is None) is is_valid


def test_2_8_the_fault_names_the_missing_key() -> None:
    assert "n" in str(OutputSchema(json.dumps(SCHEMA)).find_fault(ParsedOutput("{}")))


def test_2_8_the_schema_may_contain_placeholders() -> None:
    schema = OutputSchema('{"n": {{u}}, "m": {{missing}}}')
    assert '{"n": 7, "m": {{missing}}}' in schema.render_instruction({"u": 7})

"""Output schemas for providers: objects, with names that providers accept."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.data.json_schema import json_schema_validator
from statewright.messages import Message
from statewright.models import ModelResponse, OutputForm
from statewright.models.adapters.conversion import FIELD, is_wrapped, provider_form, unwrapped
from statewright.models.providers.outgoing import is_closed

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}


@given(st.text())
def test_every_name_becomes_one_that_providers_accept(name: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", provider_form(OutputForm({"type": "object"}, name)).name)


@pytest.mark.parametrize(
    ("schema", "wrapped"),
    [
        ({"type": "object"}, False),
        ({"properties": {}}, False),
        ({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, False),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "array"}}}, True),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, True),
        ({"$ref": "#/$defs/Missing"}, True),
        ({"type": "object", "anyOf": [{}]}, True),
        ({"type": ["object"]}, True),
        ({"oneOf": []}, True),
        ({"const": {}}, True),
        ({}, True),
    ],
)
def test_schemas_other_than_objects_are_wrapped(schema: dict[str, Any], wrapped: bool) -> None:
    form = OutputForm(schema)
    assert is_wrapped(form) == wrapped
    assert (provider_form(form).schema.get("required") == [FIELD]) == wrapped


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"type": "array", "items": {"$ref": "#"}}, [[[]]], [[1]]),
        ({"type": "array", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"type": "integer"}}}, [1], ["x"]),
        ({"anyOf": [{"type": "array", "items": {"$ref": "#/anyOf/1"}}, {"type": "integer"}]}, [1], [[1]]),
        ({"$ref": "#/definitions/N", "definitions": {"N": {"type": "integer"}}}, 1, "x"),
    ],
)
def test_references_still_resolve_after_wrapping(schema: dict[str, Any], valid: Any, invalid: Any) -> None:
    validator = json_schema_validator(dict(provider_form(OutputForm(schema)).schema), extra="models")
    assert not list(validator.iter_errors({FIELD: valid}))
    assert list(validator.iter_errors({FIELD: invalid}))


@pytest.mark.parametrize(
    "text", ["", "[1", "[1]", '{"value": 1, "more": 2}', '{"other": 1}', "I cannot.", "[" * 100_000]
)
def test_an_answer_without_the_wrapper_is_returned_unchanged(text: str) -> None:
    response = ModelResponse(Message(text, role="assistant"))
    assert unwrapped(response, OutputForm({"type": "array"})) is response


def test_an_answer_to_an_object_schema_is_returned_unchanged() -> None:
    response = ModelResponse(Message('{"value": 1}', role="assistant"))
    assert unwrapped(response, OutputForm({"type": "object"})) is response
    assert unwrapped(response, None) is response


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, True),
        ({"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}, False),
        ({"type": "object"}, False),
        ({"type": "object", "properties": {"a": {}}}, False),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True}, False),
        ({"type": "array", "items": {"type": "object", "additionalProperties": {"type": "integer"}}}, False),
        ({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, False),
        ({"type": "array", "items": {"$ref": "#"}}, False),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"enum": [1]}}}, True),
    ],
)
def test_closed_schemas_are_recognized(schema: dict[str, Any], closed: bool) -> None:
    assert is_closed(schema) == closed

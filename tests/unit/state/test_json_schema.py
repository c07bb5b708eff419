"""JSON Schemas of the state, input, output and context of graphs."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel
from pydantic import Field as Described

from statewright.channels import append
from statewright.state import (
    IsLastStep,
    StateSchema,
    context_json_schema,
    json_schema,
    merge_fields,
    read_schema,
)
from statewright.state.prebuilt import MessagesState


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Typed(TypedDict):
    name: str
    log: Annotated[list[str], append]
    note: NotRequired[str | None]
    last: IsLastStep


class Nested(TypedDict):
    home: Address
    work: NotRequired[Address]


@dataclass
class Data:
    name: str
    log: Annotated[list[str], append] = field(default_factory=list)
    count: int = 3
    note: str | None = None


class Model(BaseModel):
    name: str
    count: Annotated[int, Described(ge=0)] = 3


def state_json_schema(source: Any, title: str = "State") -> dict[str, Any]:
    schema = read_schema(source)
    return json_schema(schema, schema.fields, title=title)


def types(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: details.get("type") for name, details in schema["properties"].items()}


@pytest.mark.parametrize(
    ("source", "properties", "required"),
    [
        (Typed, {"name": "string", "log": "array", "note": None}, {"name", "log"}),
        (Data, {"name": "string", "log": "array", "count": "integer", "note": None}, {"name"}),
        (Model, {"name": "string", "count": "integer"}, {"name"}),
        ({"log": append, "count": int}, {"log": None, "count": "integer"}, set()),
        (StateSchema({"count": int}, closed=True), {"count": "integer"}, {"count"}),
        (MessagesState, {"messages": "array"}, {"messages"}),
        ({}, {}, set()),
    ],
)
def test_every_kind_of_state_schema_is_an_object_with_its_fields(
    source: Any, properties: dict[str, Any], required: set[str]
) -> None:
    schema = state_json_schema(source)
    assert (schema["type"], types(schema), set(schema.get("required", ()))) == ("object", properties, required)


@pytest.mark.parametrize("source", [Typed, Data, Model, int, list[str], {"x": int}, MessagesState, Nested])
def test_the_json_schema_has_the_given_title(source: Any) -> None:
    assert state_json_schema(source, title="Order")["title"] == "Order"


def test_the_json_schema_describes_items_of_lists_and_null() -> None:
    properties = state_json_schema(Typed)["properties"]
    assert properties["log"]["items"] == {"type": "string"}
    assert properties["note"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_the_json_schema_has_no_computed_fields() -> None:
    assert "last" not in state_json_schema(Typed)["properties"]


def test_the_json_schema_has_defaults_of_models_but_not_of_dataclasses() -> None:
    assert not any("default" in details for details in state_json_schema(Data)["properties"].values())
    assert state_json_schema(Model)["properties"]["count"]["default"] == 3


def test_the_json_schema_has_the_constraints_of_a_model() -> None:
    assert state_json_schema(Model)["properties"]["count"]["minimum"] == 0


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (int, {"type": "integer"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (Annotated[int, operator.add], {"type": "integer"}),
        (Any, {}),
    ],
)
def test_the_json_schema_of_a_bare_value_is_that_of_its_type(source: Any, expected: dict[str, Any]) -> None:
    assert state_json_schema(source, "Root") == {**expected, "title": "Root"}


def test_the_json_schema_has_each_definition_once() -> None:
    schema = state_json_schema(Nested)
    assert list(schema["$defs"]) == ["Address"]
    assert schema["$defs"]["Address"]["required"] == ["street"]
    assert schema["required"] == ["home"]


def test_messages_are_described_as_open_objects() -> None:
    items = state_json_schema(MessagesState)["properties"]["messages"]["items"]
    assert items == {"type": "object", "additionalProperties": True}


def test_the_merged_field_wins_over_the_declaration_of_the_input() -> None:
    plain, full = StateSchema({"messages": str}, closed=True), read_schema(MessagesState)

    schema = json_schema(plain, merge_fields([plain, full]), title="Input")
    assert types(schema) == {"messages": "array"}


@pytest.mark.parametrize(
    ("source", "required"),
    [(Address, ["street"]), (Data, ["name"]), (Model, ["name"])],
)
def test_the_json_schema_of_a_context_has_the_name_of_its_class(source: Any, required: list[str]) -> None:
    schema = context_json_schema(source)
    assert schema is not None
    assert (schema["title"], schema["type"], schema["required"]) == (source.__name__, "object", required)


def test_there_is_no_json_schema_without_a_context() -> None:
    assert context_json_schema(None) is None

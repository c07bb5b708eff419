"""JSON Schema of what a graph takes and gives."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel
from pydantic import Field as Described

from statewright.channels import append
from statewright.state import (
    IsLastStep,
    MessagesState,
    StateSchema,
    context_json_schema,
    json_schema,
    merge_fields,
    read_schema,
)


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


def described(source: Any, title: str = "State") -> dict[str, Any]:
    schema = read_schema(source)
    return json_schema(schema, schema.fields, title=title)


def types(found: dict[str, Any]) -> dict[str, Any]:
    return {name: about.get("type") for name, about in found["properties"].items()}


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
def test_every_kind_of_schema_is_an_object_with_its_fields(
    source: Any, properties: dict[str, Any], required: set[str]
) -> None:
    found = described(source)
    assert (found["type"], types(found), set(found.get("required", ()))) == ("object", properties, required)


@pytest.mark.parametrize("source", [Typed, Data, Model, int, list[str], {"x": int}, MessagesState, Nested])
def test_the_title_is_the_one_that_was_given(source: Any) -> None:
    assert described(source, title="Order")["title"] == "Order"


def test_what_is_in_a_list_and_what_may_be_null_is_described() -> None:
    properties = described(Typed)["properties"]
    assert properties["log"]["items"] == {"type": "string"}
    assert properties["note"]["anyOf"] == [{"type": "string"}, {"type": "null"}]


def test_computed_fields_are_neither_taken_nor_given() -> None:
    assert "last" not in described(Typed)["properties"]


def test_the_defaults_of_a_dataclass_are_not_told_and_those_of_a_model_are() -> None:
    assert not any("default" in about for about in described(Data)["properties"].values())
    assert described(Model)["properties"]["count"]["default"] == 3


def test_the_constraints_of_a_model_are_described() -> None:
    assert described(Model)["properties"]["count"]["minimum"] == 0


@pytest.mark.parametrize(
    ("source", "about"),
    [
        (int, {"type": "integer"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (Annotated[int, operator.add], {"type": "integer"}),
        (Any, {}),
    ],
)
def test_a_bare_value_is_described_by_its_type(source: Any, about: dict[str, Any]) -> None:
    assert described(source, "Root") == {**about, "title": "Root"}


def test_a_definition_that_is_used_twice_is_written_once() -> None:
    found = described(Nested)
    assert list(found["$defs"]) == ["Address"]
    assert found["$defs"]["Address"]["required"] == ["street"]
    assert found["required"] == ["home"]


def test_messages_are_described_in_the_form_in_which_they_travel() -> None:
    items = described(MessagesState)["properties"]["messages"]["items"]
    assert items == {"type": "object", "additionalProperties": True}


def test_how_the_graph_merges_a_field_counts_more_than_how_the_input_declares_it() -> None:
    plain, whole = StateSchema({"messages": str}, closed=True), read_schema(MessagesState)

    found = json_schema(plain, merge_fields([plain, whole]), title="Input")
    assert types(found) == {"messages": "array"}


@pytest.mark.parametrize(
    ("source", "required"),
    [(Address, ["street"]), (Data, ["name"]), (Model, ["name"])],
)
def test_a_context_class_is_described_under_its_own_name(source: Any, required: list[str]) -> None:
    found = context_json_schema(source)
    assert found is not None
    assert (found["title"], found["type"], found["required"]) == (source.__name__, "object", required)


def test_a_graph_without_context_has_no_schema_of_it() -> None:
    assert context_json_schema(None) is None

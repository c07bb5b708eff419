"""The encoding of records as resources, and their schemas in the OpenAPI document."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from statewright.api.resource import Resource
from statewright.server.http.representation import Representation


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Resource):
    """A part."""

    part_name: str
    """The name of the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Resource):
    """A whole."""

    state: str
    """The state of the whole."""
    parts: tuple[Part, ...]
    main_part: Part | None
    size: int = field(metadata={"examples": [3]})


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedWhole(Whole):
    """A whole with a name."""

    name: str
    state: str


PART = Representation(Part, "PartShown", part_name="name")
WHOLE = Representation(
    Whole,
    "WholeShown",
    {"state": Literal["new", "old"]},
    parts=lambda record: PART.encode_all(record.parts),
    main_part="details.main",
)
NAMED_WHOLE = Representation(NamedWhole, "NamedWhole")


def schema_of(representation: Representation) -> dict[str, Any]:
    return representation.model.model_json_schema(mode="serialization")


def test_values_come_from_attributes_and_functions_of_the_record() -> None:
    record = SimpleNamespace(
        state="new", parts=[SimpleNamespace(name="a")], details=SimpleNamespace(main=None), size=2, secret="x"
    )
    content = {"state": "new", "parts": [{"partName": "a"}], "mainPart": None, "size": 2}
    assert WHOLE.encode(record) == content
    assert WHOLE.encode_all([record]) == [content]
    assert list(WHOLE.encode(record)) == list(content)


def test_the_schema_has_descriptions_examples_and_nested_resources() -> None:
    schema = schema_of(WHOLE)
    assert (schema["title"], schema["description"]) == ("WholeShown", "A whole.")
    assert list(schema["properties"]) == schema["required"] == ["state", "parts", "mainPart", "size"]
    state, parts, main, size = schema["properties"].values()
    assert (state["enum"], state["description"]) == (["new", "old"], "The state of the whole.")
    assert parts["items"] == {"$ref": "#/$defs/PartShown"}
    assert main["anyOf"] == [{"$ref": "#/$defs/PartShown"}, {"type": "null"}]
    assert size["examples"] == [3]
    assert schema["$defs"]["PartShown"]["properties"]["partName"]["description"] == "The name of the part."


def test_a_subclass_inherits_descriptions_and_orders_the_fields_that_it_declares_again() -> None:
    properties = schema_of(NAMED_WHOLE)["properties"]
    assert list(properties) == ["parts", "mainPart", "size", "name", "state"]
    assert properties["state"]["description"] == "The state of the whole."


def test_without_source_code_there_are_no_descriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type("Unwritten", (Part,), {"__doc__": "A part.", "__slots__": ()})
    representation = Representation(kind, "Unwritten")
    monkeypatch.setattr("inspect.getsource", _raise_os_error)
    assert "description" not in schema_of(representation)["properties"]["partName"]


def _raise_os_error(_: object) -> str:
    raise OSError("could not get source code")

"""Reading the input of nodes by their schemas."""

from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, append
from statewright.checkpoint import NO_ARG
from statewright.errors import InvalidUpdateError
from statewright.runtime.tasks.inputs import read_mapping, reader_for, restrict_reader, with_managed
from statewright.state import IsLastStep, RemainingSteps, StateSchema, read_schema

pydantic = pytest.importorskip("pydantic")


class FullState(TypedDict, total=False):
    x: int
    y: int
    items: list[int]


class PartialState(TypedDict, total=False):
    y: int


class WithManaged(TypedDict, total=False):
    x: int
    last: IsLastStep


class WithoutManaged(TypedDict, total=False):
    x: int


@dataclass
class RecordWithManaged:
    x: int
    last: IsLastStep


@dataclass
class Record:
    x: int
    items: list[int] = field(default_factory=list)


class Model(pydantic.BaseModel):
    x: int
    y: int = 7


class Strict(pydantic.BaseModel):
    x: int

    @pydantic.field_validator("x")
    @classmethod
    def positive(cls, x: int) -> int:
        if x < 0:
            raise ValueError("negative")
        return x * 10


def reader(make: Any, schema: Any, state: Any = None, validate: str = "input") -> Any:
    """Return the reader of a node with the input schema `schema`, in a graph with the state schema `state`."""
    state = schema if state is None else state
    options = {} if schema is state else {"a": {"input_schema": schema}}
    graph = make.graph("a", schema=state, **options).add_edge(START, "a").freeze()
    return reader_for(graph, graph.node_schemas.get("a", graph.schema), validate)


VALUES: dict[str, Any] = {"x": 1, "y": 2, "items": [3]}


@pytest.mark.parametrize(
    ("schema", "state", "expected"),
    [
        (FullState, None, VALUES),
        ({"x": int}, None, VALUES),
        (StateSchema({"x": int, "y": int}, closed=True), None, {"x": 1, "y": 2}),
        (PartialState, FullState, {"y": 2}),
        (Record, FullState, Record(1, [3])),
        (Model, FullState, Model(x=1, y=2)),
    ],
    ids=["typed dict", "open dict", "closed dict", "partial state", "dataclass", "model"],
)
def test_a_reader_returns_the_state_in_its_schema(make: Any, schema: Any, state: Any, expected: Any) -> None:
    values = dict(VALUES) if expected != {"x": 1, "y": 2} else {"x": 1, "y": 2}

    assert reader(make, schema, state)(values, NO_ARG) == expected


@pytest.mark.parametrize(
    ("schema", "arg", "expected"),
    [
        (FullState, {"other": 1}, {"other": 1}),
        (PartialState, {"other": 1}, {"other": 1}),
        (FullState, "text", "text"),
        (PartialState, None, None),
        (Record, {"x": 5}, Record(5)),
        (Record, {"x": 5, "other": 1}, Record(5)),
        (Record, "text", "text"),
        (Model, {"x": 5}, Model(x=5)),
    ],
)
def test_a_reader_returns_the_argument_of_a_send_in_its_schema(make: Any, schema: Any, arg: Any, expected: Any) -> None:
    assert reader(make, schema, FullState)(VALUES, arg) == expected


@pytest.mark.parametrize("schema", [FullState, PartialState])
@pytest.mark.parametrize("sent", [True, False])
def test_changing_the_input_does_not_change_the_state_or_the_argument(make: Any, schema: Any, sent: bool) -> None:
    values, arg = dict(VALUES), {"y": 5}
    state = reader(make, schema, FullState)(values, arg if sent else NO_ARG)
    state["y"] = state["new"] = 9

    assert (values, arg) == (VALUES, {"y": 5})


def test_containers_are_copied_but_not_their_items(make: Any) -> None:
    inner = 10**30  # an object that is not interned, so that `is` recognises it
    values = {**VALUES, "items": [inner]}

    for items in (
        reader(make, FullState)(values, NO_ARG)["items"],
        reader(make, Record, FullState)(values, NO_ARG).items,
        reader(make, FullState)({}, {"items": values["items"]})["items"],
        reader(make, {})(values, NO_ARG)["items"],
    ):
        assert items == [inner]
        assert items is not values["items"]
        assert items[0] is inner


def test_a_validated_value_is_copied_for_each_read(make: Any) -> None:
    read = reader(make, Record, FullState)
    read(VALUES, NO_ARG).items.append("added")

    assert read(VALUES, NO_ARG).items == VALUES["items"]


def test_a_bare_state_is_read_unwrapped(make: Any) -> None:
    graph = make.graph("a", schema=Annotated[list[Any], append]).add_edge(START, "a").freeze()
    read = reader_for(graph, graph.schema, "input")

    assert read({"__root__": [1, 2]}, NO_ARG) == [1, 2]
    assert read({"__root__": [1, 2]}, "sent") == "sent"
    assert read({}, NO_ARG) is None


def test_fields_without_a_value_have_their_defaults(make: Any) -> None:
    assert reader(make, Record, FullState)({"x": 1}, NO_ARG) == Record(1)
    assert reader(make, Model, FullState)({"x": 1}, NO_ARG) == Model(x=1, y=7)
    assert reader(make, PartialState, FullState)({"x": 1}, NO_ARG) == {}


@pytest.mark.parametrize("schema", [Record, Model])
def test_a_missing_required_field_is_refused_with_advice(make: Any, schema: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=rf"(?s)cannot be read as {schema.__name__}.*Give the field a default"):
        reader(make, schema, FullState)({"y": 1}, NO_ARG)


@pytest.mark.parametrize("schema", [Record, Model])
def test_a_value_of_the_wrong_type_is_refused(make: Any, schema: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="x"):
        reader(make, schema, FullState)({"x": "text"}, NO_ARG)


@pytest.mark.parametrize("schema", [Record, Model])
def test_values_are_not_checked_if_validation_is_off(make: Any, schema: Any) -> None:
    assert reader(make, schema, FullState, validate="off")({"x": "text"}, NO_ARG).x == "text"


def test_validators_of_a_model_run_for_each_read(make: Any) -> None:
    read = reader(make, Strict, FullState)

    assert [read({"x": 2}, NO_ARG).x for _ in range(2)] == [20, 20]
    with pytest.raises(InvalidUpdateError, match="negative"):
        read({"x": -1}, NO_ARG)


def test_a_validated_value_is_not_validated_again_while_it_is_the_same_object(make: Any) -> None:
    validated: list[Any] = []

    def validate(value: Any) -> Any:
        validated.append(value)
        return value

    class Validated(pydantic.BaseModel):
        items: Annotated[list[int], pydantic.AfterValidator(validate)]

    read = reader(make, Validated)
    first, equal = [1], [1]
    for items in (first, first, first, equal):
        assert read({"items": items}, NO_ARG).items == [1]

    assert len(validated) == 2


def test_a_restricted_reader_reads_only_its_fields() -> None:
    read = restrict_reader(read_mapping, ("x", "absent"))

    assert read(VALUES, NO_ARG) == {"x": 1}
    assert read(VALUES, {"sent": 1}) == {"sent": 1}


@pytest.mark.parametrize(("step", "stop", "last", "remaining"), [(0, 3, False, 3), (1, 3, False, 2), (2, 3, True, 1)])
def test_with_managed_adds_the_managed_values(step: int, stop: int, last: bool, remaining: int) -> None:
    class Computed(TypedDict, total=False):
        last: IsLastStep
        remaining: RemainingSteps

    managed = read_schema(Computed).managed

    assert with_managed({"x": 1}, managed, step, stop) == {"x": 1, "last": last, "remaining": remaining}


def test_managed_values_are_read_only_by_schemas_that_have_them(make: Any) -> None:
    values = {"x": 1, "last": True}

    assert reader(make, WithManaged)(values, NO_ARG) == values
    assert reader(make, PartialState, WithManaged)({**values, "y": 2}, NO_ARG) == {"y": 2}
    assert reader(make, FullState, WithManaged)(values, NO_ARG) == {"x": 1}
    assert reader(make, WithoutManaged, WithManaged)(values, NO_ARG) == {"x": 1}
    assert reader(make, RecordWithManaged, WithManaged)(values, NO_ARG) == RecordWithManaged(1, True)

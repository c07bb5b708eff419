"""How nodes read their input, schema by schema."""

from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, append
from statewright.checkpoint import NO_ARG
from statewright.errors import InvalidUpdateError
from statewright.runtime.tasks.inputs import read_mapping, reader_for, restrict_reader, with_managed
from statewright.state import IsLastStep, RemainingSteps, StateSchema, read_schema

pydantic = pytest.importorskip("pydantic")


class Whole(TypedDict, total=False):
    x: int
    y: int
    items: list[int]


class Part(TypedDict, total=False):
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
    """The reader of a node whose input is `schema`, in a graph over `state`."""
    state = schema if state is None else state
    options = {} if schema is state else {"a": {"input_schema": schema}}
    graph = make.graph("a", schema=state, **options).add_edge(START, "a").freeze()
    return reader_for(graph, graph.node_schemas.get("a", graph.schema), validate)


VALUES: dict[str, Any] = {"x": 1, "y": 2, "items": [3]}


@pytest.mark.parametrize(
    ("schema", "state", "seen"),
    [
        (Whole, None, VALUES),
        ({"x": int}, None, VALUES),
        (StateSchema({"x": int, "y": int}, closed=True), None, {"x": 1, "y": 2}),
        (Part, Whole, {"y": 2}),
        (Record, Whole, Record(1, [3])),
        (Model, Whole, Model(x=1, y=2)),
    ],
    ids=["all of a closed state", "all of an open one", "no more than a closed one", "a part", "record", "model"],
)
def test_what_a_node_sees_of_the_state(make: Any, schema: Any, state: Any, seen: Any) -> None:
    values = dict(VALUES) if seen != {"x": 1, "y": 2} else {"x": 1, "y": 2}

    assert reader(make, schema, state)(values, NO_ARG) == seen


@pytest.mark.parametrize(
    ("schema", "arg", "seen"),
    [
        (Whole, {"other": 1}, {"other": 1}),
        (Part, {"other": 1}, {"other": 1}),
        (Whole, "text", "text"),
        (Part, None, None),
        (Record, {"x": 5}, Record(5)),
        (Record, {"x": 5, "other": 1}, Record(5)),
        (Record, "text", "text"),
        (Model, {"x": 5}, Model(x=5)),
    ],
)
def test_what_a_node_sees_of_a_send(make: Any, schema: Any, arg: Any, seen: Any) -> None:
    assert reader(make, schema, Whole)(VALUES, arg) == seen


@pytest.mark.parametrize("schema", [Whole, Part])
@pytest.mark.parametrize("sent", [True, False])
def test_a_node_may_do_with_its_mapping_what_it_likes(make: Any, schema: Any, sent: bool) -> None:
    values, arg = dict(VALUES), {"y": 5}
    state = reader(make, schema, Whole)(values, arg if sent else NO_ARG)
    state["y"] = state["new"] = 9

    assert (values, arg) == (VALUES, {"y": 5})


def test_containers_are_copied_and_what_is_in_them_is_shared(make: Any) -> None:
    inner = 10**30  # one object, which a copy would have too, and an equal one would not
    values = {**VALUES, "items": [inner]}

    for items in (
        reader(make, Whole)(values, NO_ARG)["items"],
        reader(make, Record, Whole)(values, NO_ARG).items,
        reader(make, Whole)({}, {"items": values["items"]})["items"],
        reader(make, {})(values, NO_ARG)["items"],
    ):
        assert items == [inner]
        assert items is not values["items"]
        assert items[0] is inner


def test_a_value_that_was_checked_before_is_copied_for_each_reader(make: Any) -> None:
    read = reader(make, Record, Whole)
    read(VALUES, NO_ARG).items.append("of the first")

    assert read(VALUES, NO_ARG).items == VALUES["items"]


def test_a_bare_state_is_read_as_it_is(make: Any) -> None:
    graph = make.graph("a", schema=Annotated[list[Any], append]).add_edge(START, "a").freeze()
    read = reader_for(graph, graph.schema, "input")

    assert read({"__root__": [1, 2]}, NO_ARG) == [1, 2]
    assert read({"__root__": [1, 2]}, "sent") == "sent"
    assert read({}, NO_ARG) is None


def test_fields_without_a_value_take_their_defaults(make: Any) -> None:
    assert reader(make, Record, Whole)({"x": 1}, NO_ARG) == Record(1)
    assert reader(make, Model, Whole)({"x": 1}, NO_ARG) == Model(x=1, y=7)
    assert reader(make, Part, Whole)({"x": 1}, NO_ARG) == {}


@pytest.mark.parametrize("schema", [Record, Model])
def test_a_required_field_without_a_value_says_what_to_do(make: Any, schema: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=rf"(?s)cannot be read as {schema.__name__}.*Give the field a default"):
        reader(make, schema, Whole)({"y": 1}, NO_ARG)


@pytest.mark.parametrize("schema", [Record, Model])
def test_a_value_of_the_wrong_type_is_found(make: Any, schema: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="x"):
        reader(make, schema, Whole)({"x": "text"}, NO_ARG)


@pytest.mark.parametrize("schema", [Record, Model])
def test_nothing_is_checked_where_validation_is_off(make: Any, schema: Any) -> None:
    assert reader(make, schema, Whole, validate="off")({"x": "text"}, NO_ARG).x == "text"


def test_validators_of_a_model_run_each_time(make: Any) -> None:
    read = reader(make, Strict, Whole)

    assert [read({"x": 2}, NO_ARG).x for _ in range(2)] == [20, 20]
    with pytest.raises(InvalidUpdateError, match="negative"):
        read({"x": -1}, NO_ARG)


def test_a_value_that_was_checked_is_not_checked_again_until_it_is_another_object(make: Any) -> None:
    looks: list[Any] = []

    def look(value: Any) -> Any:
        looks.append(value)
        return value

    class Watched(pydantic.BaseModel):
        items: Annotated[list[int], pydantic.AfterValidator(look)]

    read = reader(make, Watched)
    first, equal = [1], [1]
    for items in (first, first, first, equal):
        assert read({"items": items}, NO_ARG).items == [1]

    assert len(looks) == 2


def test_a_reader_of_declared_fields_sees_no_others() -> None:
    read = restrict_reader(read_mapping, ("x", "absent"))

    assert read(VALUES, NO_ARG) == {"x": 1}
    assert read(VALUES, {"sent": 1}) == {"sent": 1}


@pytest.mark.parametrize(("step", "stop", "last", "remaining"), [(0, 3, False, 3), (1, 3, False, 2), (2, 3, True, 1)])
def test_computed_values_tell_how_far_the_run_may_still_go(step: int, stop: int, last: bool, remaining: int) -> None:
    class Computed(TypedDict, total=False):
        last: IsLastStep
        remaining: RemainingSteps

    managed = read_schema(Computed).managed

    assert with_managed({"x": 1}, managed, step, stop) == {"x": 1, "last": last, "remaining": remaining}


def test_computed_values_are_seen_by_nodes_whose_schema_has_them(make: Any) -> None:
    values = {"x": 1, "last": True}

    assert reader(make, WithManaged)(values, NO_ARG) == values
    assert reader(make, Part, WithManaged)({**values, "y": 2}, NO_ARG) == {"y": 2}
    assert reader(make, Whole, WithManaged)(values, NO_ARG) == {"x": 1}
    assert reader(make, WithoutManaged, WithManaged)(values, NO_ARG) == {"x": 1}
    assert reader(make, RecordWithManaged, WithManaged)(values, NO_ARG) == RecordWithManaged(1, True)

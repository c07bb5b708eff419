"""Reading classes and dicts as state schemas."""

import operator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Annotated, Any, ClassVar, NotRequired, Required, TypedDict

import pytest
import typing_extensions
from pydantic import BaseModel, ConfigDict, PrivateAttr
from pydantic import Field as Described

from statewright.channels import (
    AnyValue,
    Append,
    Channel,
    Ephemeral,
    LastValue,
    Messages,
    Reduced,
    Topic,
    add_messages,
    append,
    overwrite,
)
from statewright.errors import InvalidSchema
from statewright.state import (
    ROOT,
    IsLastStep,
    RemainingSteps,
    SchemaKind,
    StateSchema,
    is_pydantic,
    merge_fields,
    read_schema,
)


class Typed(TypedDict):
    log: Annotated[list[str], append]
    count: int
    note: NotRequired[str]


class Partial(TypedDict, total=False):
    log: Required[Annotated[list[str], append]]
    count: int


class Extended(Typed):
    total: Annotated[int, operator.add]


class Foreign(typing_extensions.TypedDict):
    log: Annotated[list[str], append]
    seen: typing_extensions.ReadOnly[int]


class Steps(TypedDict):
    last: IsLastStep
    count: int
    left: RemainingSteps


@dataclass
class Data:
    title: str
    log: Annotated[list[str], append] = field(default_factory=lambda: ["made"])
    count: int = 3
    note: str | None = None
    kind: ClassVar[str] = "data"
    seed: InitVar[int] = 0
    _: KW_ONLY
    last: float = 0.5


@dataclass
class MoreData(Data):
    count: int = 4
    extra: list[int] = field(default_factory=list)


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")

    title: str
    log: Annotated[list[str], append] = []
    count: Annotated[int, Described(ge=0)] = 3
    note: str | None = None
    made: list[int] = Described(default_factory=lambda: [1])
    shown: int = Described(default=1, alias="Shown")
    kind: ClassVar[str] = "model"
    _private: int = PrivateAttr(default=1)


class MoreModel(Model):
    total: Annotated[int, operator.add] = 1


class Annotations:
    x: int


class Bare:
    """A class without fields: a value like any other."""


class Unresolved(TypedDict):
    x: "Nowhere"  # noqa: F821  # deliberately


class Empty(TypedDict):
    pass


def defaults(schema: StateSchema) -> dict[str, Any]:
    """Return new values of the declared defaults."""
    return {name: field.start() for name, field in schema.fields.items() if field.start is not None}


# -- classes


@pytest.mark.parametrize(
    ("source", "kind", "names"),
    [
        (Typed, SchemaKind.MAPPING, ["log", "count", "note"]),
        (Partial, SchemaKind.MAPPING, ["log", "count"]),
        (Extended, SchemaKind.MAPPING, ["log", "count", "note", "total"]),
        (Foreign, SchemaKind.MAPPING, ["log", "seen"]),
        (Empty, SchemaKind.MAPPING, []),
        (Data, SchemaKind.DATACLASS, ["title", "log", "count", "note", "last"]),
        (MoreData, SchemaKind.DATACLASS, ["title", "log", "count", "note", "last", "extra"]),
        (Model, SchemaKind.PYDANTIC, ["title", "log", "count", "note", "made", "shown"]),
        (MoreModel, SchemaKind.PYDANTIC, ["title", "log", "count", "note", "made", "shown", "total"]),
    ],
)
def test_read_schema_returns_the_fields_of_a_class_in_order(source: type, kind: SchemaKind, names: list[str]) -> None:
    schema = read_schema(source)
    assert (schema.kind, list(schema.fields)) == (kind, names)
    assert (schema.source, schema.name, schema.closed) == (source, source.__name__, True)


@pytest.mark.parametrize("source", [Typed, Partial, Extended, Foreign, Data, MoreData, Model, MoreModel])
def test_read_schema_finds_reducers_in_every_kind_of_class(source: type) -> None:
    fields = read_schema(source).fields
    assert type(fields["log"].channel) is Append
    assert fields["log"].hint == list[str]
    assert [name for name, field in fields.items() if field.has_reducer] == [n for n in ("log", "total") if n in fields]


@pytest.mark.parametrize(
    ("source", "values"),
    [
        (Typed, {}),
        (Data, {"log": ["made"], "count": 3, "note": None, "last": 0.5}),
        (MoreData, {"log": ["made"], "count": 4, "note": None, "last": 0.5, "extra": []}),
        (Model, {"log": [], "count": 3, "note": None, "made": [1], "shown": 1}),
        (MoreModel, {"log": [], "count": 3, "note": None, "made": [1], "shown": 1, "total": 1}),
    ],
)
def test_defaults_and_factories_are_initial_values(source: type, values: dict[str, Any]) -> None:
    schema = read_schema(source)
    assert defaults(schema) == values
    again = defaults(schema)
    assert not any(again[name] is value for name, value in defaults(schema).items() if isinstance(value, list))


@pytest.mark.parametrize(("source", "start"), [(Typed, []), (Data, ["made"]), (Model, [])])
def test_a_field_with_a_reducer_starts_with_its_default_or_empty(source: type, start: list[str]) -> None:
    assert read_schema(source).channels["log"].start() == start


def test_changing_an_initial_value_does_not_change_the_default() -> None:
    schema = read_schema(Model)
    defaults(schema)["log"].append("x")
    assert defaults(schema)["log"] == []


def test_managed_values_are_separate_and_last_in_the_keys() -> None:
    schema = read_schema(Steps)
    assert list(schema.fields) == list(schema.channels) == ["count"]
    assert list(schema.managed) == ["last", "left"]
    assert schema.keys == ("count", "last", "left")


@pytest.mark.parametrize(
    ("source", "values"),
    [
        (Data, {"title": "t", "count": 1}),
        (Model, {"title": "t", "count": 1}),
        (Typed, {"log": [], "count": 1}),
    ],
)
def test_instance_returns_an_instance_of_the_users_class(source: Any, values: dict[str, Any]) -> None:
    instance = read_schema(source).instance(values)
    assert instance == source(**values)
    assert type(instance) is type(source(**values))


def test_a_class_with_annotations_that_is_not_a_schema_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"Annotations has annotations but is neither.*@dataclass"):
        read_schema(Annotations)


def test_an_unresolvable_annotation_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"Unresolved cannot be resolved.*Nowhere"):
        read_schema(Unresolved)


# -- a bare value


@pytest.mark.parametrize(
    ("source", "hint", "channel"),
    [
        (int, int, LastValue()),
        (list, list, LastValue()),
        (list[str], list[str], LastValue()),
        (int | None, int | None, LastValue()),
        (Any, Any, LastValue()),
        (Bare, Bare, LastValue()),
        (Annotated[list[str], append], list[str], Append(start=list)),
        (Annotated[int, operator.add], int, Reduced(operator.add, start=int)),
        (Annotated[list[Any], add_messages], list[Any], Messages()),
    ],
)
def test_any_other_type_is_a_root_state(source: Any, hint: Any, channel: Channel) -> None:
    schema = read_schema(source)
    assert (schema.kind, schema.closed, list(schema.fields)) == (SchemaKind.ROOT, True, [ROOT])
    assert (schema.fields[ROOT].hint, schema.channels[ROOT]) == (hint, channel)


# -- dicts


@pytest.mark.parametrize(
    ("entry", "hint", "channel"),
    [
        (append, Any, Append()),
        (max, Any, Reduced(max)),
        (operator.add, Any, Reduced(operator.add)),
        (overwrite, Any, AnyValue()),
        (add_messages, Any, Messages()),
        (Topic(accumulate=True), Any, Topic(accumulate=True)),
        (Ephemeral, Any, Ephemeral()),
        (AnyValue, Any, AnyValue()),
        (int, int, LastValue()),
        (list, list, LastValue()),
        (Bare, Bare, LastValue()),
        (int | None, int | None, LastValue()),
        (Any, Any, LastValue()),
        (None, None, LastValue()),
    ],
)
def test_an_entry_is_a_reducer_a_channel_or_a_type(entry: object, hint: Any, channel: Channel) -> None:
    schema = read_schema({"x": entry})
    assert (schema.fields["x"].hint, schema.channels) == (hint, {"x": channel})


@pytest.mark.parametrize("entry", ["append", 3, [append], {"a": append}, 0, ""])
def test_other_entries_are_refused(entry: object) -> None:
    with pytest.raises(InvalidSchema, match=rf"Field 'x'.*type {type(entry).__name__}.*reducer, a channel or a type"):
        StateSchema({"x": entry})


def test_a_dict_schema_is_open_by_default() -> None:
    assert not read_schema({"x": int}).closed
    assert not StateSchema().closed
    assert StateSchema({"x": int}, closed=True).closed


def test_read_schema_returns_a_state_schema_unchanged() -> None:
    schema = StateSchema({"x": append})
    assert read_schema(schema) is schema


def test_register_reducer_replaces_the_channel_of_a_field() -> None:
    schema = StateSchema({"x": int})
    assert schema.register_reducer("x", append).register_reducer("y", max) is schema
    assert schema.channels == {"x": Append(), "y": Reduced(max)}


def test_a_schema_can_be_empty() -> None:
    assert read_schema({}).fields == {}
    assert StateSchema().keys == ()


def test_the_repr_of_a_schema_shows_its_name_and_keys() -> None:
    assert repr(read_schema(Steps)) == "StateSchema(Steps: count, last, left)"
    assert repr(StateSchema({"a": int})) == "StateSchema(State: a)"


# -- several schemas of one graph


def test_a_declaration_with_a_reducer_wins_over_a_plain_one() -> None:
    plain, merging = StateSchema({"x": list}), StateSchema({"x": append})
    assert merge_fields([plain, merging])["x"].channel == Append()
    assert merge_fields([merging, plain])["x"].channel == Append()


def test_the_first_of_two_plain_declarations_wins() -> None:
    assert merge_fields([StateSchema({"x": int}), StateSchema({"x": str})])["x"].hint is int


def test_the_same_reducer_can_be_declared_twice() -> None:
    merged = merge_fields([read_schema(Typed), read_schema(Extended), StateSchema({"other": int})])
    assert list(merged) == ["log", "count", "note", "total", "other"]


@pytest.mark.parametrize(("first", "second"), [(append, max), (max, min), (Topic(), Topic(accumulate=True))])
def test_schemas_with_different_reducers_of_a_field_are_refused(first: object, second: object) -> None:
    with pytest.raises(InvalidSchema, match=r"Field 'x' is declared twice, as .* and as .*Use one reducer"):
        merge_fields([StateSchema({"x": first}), StateSchema({"x": second})])


def test_merging_no_schemas_returns_no_fields() -> None:
    assert merge_fields([]) == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Model, True),
        (BaseModel, True),
        (Model(title="t"), False),
        (Data, False),
        (Typed, False),
        (int, False),
        (None, False),
    ],
)
def test_is_pydantic_recognises_model_classes_only(source: Any, expected: bool) -> None:
    assert is_pydantic(source) is expected

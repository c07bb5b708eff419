"""Declarations of keys: the type of values, the default and the field of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import pytest

from statewright.workflow.states.language.schema.keys import Ignored, Key, KeySchema, Renamed, read_keys
from statewright.workflow.states.language.schema.maps import MapSchema
from statewright.workflow.states.language.schema.value_types import (
    Anything,
    Choice,
    Flag,
    ListOf,
    Map,
    Number,
    Text,
    ValueType,
)


@dataclass(frozen=True, slots=True)
class Inner:
    """Options."""

    schema: ClassVar = MapSchema("inner", "a map of options")
    size: Annotated[int, Number(1), Key("The size.")]


@dataclass(frozen=True, slots=True)
class Outer:
    """Every kind of key."""

    schema: ClassVar = MapSchema("outer", "a map")
    id: Annotated[str, Text(may_be_empty=False), Key("The name.", aliases=("called",))]
    ratio: Annotated[float | None, Number(0, 1), Key("A share.")] = None
    count: Annotated[int, Number(1), Key("A count.")] = 3
    flag: Annotated[bool, Key("A flag.")] = False
    word: Annotated[Literal["a", "b"], Key("A word.", default="b")] = "a"
    either: Annotated[bool | Literal["some"], Key("A flag or a word.")] = False
    names: Annotated[tuple[Annotated[str, Text(may_be_empty=False)], ...], ListOf(min_items=1), Key("Names.")] = ("x",)
    inner: Annotated[Inner | None, Key("Options.")] = None
    inners: Annotated[tuple[Inner, ...], Key("Several.")] = ()
    args: Annotated[Mapping[str, Any] | None, Key("Arguments.")] = None
    raw: Annotated[Mapping[str, Any] | None, Inner, Key("Options as they are written.")] = None
    kind: Annotated[str, Key("The kind.", name="node_kind")] = ""
    label: ClassVar[Annotated[Any, Key("A label.", default="none")]]
    old_count: ClassVar = Renamed("count", both_allowed=True)
    idle: ClassVar = Ignored("nothing reads it.")
    at: int = 0


KEYS = read_keys(Outer)


@pytest.mark.parametrize(
    ("name", "value_type"),
    [
        ("id", Text(may_be_empty=False)),
        ("ratio", Number(0, 1)),
        ("count", Number(1, is_whole=True)),
        ("flag", Flag()),
        ("word", Choice(("a", "b"))),
        ("either", Flag(("some",))),
        ("names", ListOf(Text(may_be_empty=False), min_items=1)),
        ("inner", Inner.schema),
        ("inners", ListOf(Inner.schema)),
        ("args", Map()),
        ("raw", Inner.schema),
        ("label", Anything()),
        ("old_count", Number(1, is_whole=True)),
    ],
)
def test_the_type_of_a_key_follows_from_its_annotation(name: str, value_type: ValueType) -> None:
    assert KEYS[name].type == value_type


def test_only_declared_fields_are_keys_in_the_order_of_the_class() -> None:
    assert list(KEYS) == [
        *("id", "ratio", "count", "flag", "word", "either", "names", "inner", "inners", "args", "raw", "node_kind"),
        *("label", "old_count", "idle"),
    ]


def test_a_field_without_a_default_is_a_required_key() -> None:
    assert [key.name for key in KEYS.values() if key.required] == ["id"]


@pytest.mark.parametrize(
    ("name", "default"),
    [("id", None), ("count", 3), ("word", "b"), ("names", ["x"]), ("inners", []), ("inner", None), ("label", "none")],
)
def test_keys_have_the_defaults_of_their_fields_unless_stated_otherwise(name: str, default: object) -> None:
    assert KEYS[name].default == default


def test_fields_settings_and_raw_maps_are_distinguished() -> None:
    assert (KEYS["node_kind"].field, KEYS["label"].field) == ("kind", "")
    assert KEYS["raw"].is_raw
    assert not KEYS["inner"].is_raw


def test_deprecated_and_ignored_keys_are_declared() -> None:
    assert KEYS["old_count"] == KeySchema(
        name="old_count", type=Number(1, is_whole=True), doc="A count.", current_name="count", both_allowed=True
    )
    assert KEYS["idle"] == KeySchema(name="idle", ignored="nothing reads it.")

"""Encoding and decoding values of registered types, later versions of types, and refused values and data."""

from __future__ import annotations

import functools
import math
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from pathlib import PurePosixPath
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, field_validator
from tests.work import examples

from statewright import Send
from statewright.channels import MISSING, Added, Overwrite
from statewright.errors import DamagedDatabase, SerdeError, StoredError
from statewright.messages import Message, ToolCall
from statewright.serde.codecs import type_name
from statewright.serde.serde import OBJECT, Serde

T = TypeVar("T")


def round_trip(value: Any, *types: type) -> Any:
    """Return a value after encoding and decoding it with these types registered."""
    serde = Serde(types)
    return serde.decode(serde.encode(value))


def read_as(value: Any, later: type, **options: Any) -> Any:
    """Encode a value with its class, and decode it with a later version of the class."""
    before, after = Serde(), Serde()
    before.register(type(value), name="stored")
    after.register(later, name="stored", **options)
    return after.decode(before.encode(value))


def encode_error(value: Any, where: str = "values", *types: type) -> SerdeError:
    """Return the error with which encoding refuses a value."""
    with pytest.raises(SerdeError) as caught:
        Serde(types).encode(value, where)
    return caught.value


# -- dataclasses


@dataclass
class Point:
    x: Any
    y: Any = 0


@dataclass
class Narrow:
    """A later version of Point."""

    x: Any


@dataclass(frozen=True)
class FrozenPoint:
    x: Any
    y: Any = 0


@dataclass(slots=True)
class SlottedPoint:
    x: Any
    y: Any = 0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class EveryOption:
    x: Any
    y: Any = field(default=0, repr=False, compare=False)


@dataclass
class Inherited(Point):
    z: Any = None


@dataclass
class Box(Generic[T]):
    inside: T


@pytest.mark.parametrize(
    "value",
    [
        Point(1, 2),
        Point((1,), {"a": {2}}),
        FrozenPoint(1),
        SlottedPoint(1, date(2026, 1, 2)),
        EveryOption(x=1, y=2),
        Inherited(1, 2, 3),
        Box[int](3),
        Point(Point(1), [Point(2), {"a": Point(3)}]),
        {FrozenPoint(1): FrozenPoint(2)},
        {(FrozenPoint(1), 2)},
    ],
)
def test_a_dataclass_survives_a_round_trip(value: Any) -> None:
    read = round_trip(value, Point, FrozenPoint, SlottedPoint, EveryOption, Inherited, Box)
    assert read == value
    assert type(read) is type(value)


def test_a_field_with_compare_false_is_kept() -> None:
    assert round_trip(EveryOption(x=1, y=(2,)), EveryOption).y == (2,)


def test_decoding_a_dataclass_does_not_call_post_init() -> None:
    runs: list[int] = []

    @dataclass
    class Counted:
        x: int
        doubled: int = field(init=False)
        factor: InitVar[int] = 2

        def __post_init__(self, factor: int) -> None:
            runs.append(self.x)
            self.doubled = self.x * factor

    read = round_trip(Counted(3, 5), Counted)
    assert (read.x, read.doubled, runs) == (3, 15, [3])


def test_an_unset_field_stays_unset() -> None:
    @dataclass(slots=True)
    class Later:
        x: int
        answer: int = field(init=False)

    read = round_trip(Later(1), Later)
    assert read.x == 1
    assert not hasattr(read, "answer")


def test_a_new_field_gets_its_default() -> None:
    @dataclass
    class Today:
        x: Any
        y: Any
        tags: list[str] = field(default_factory=lambda: ["new"])
        note: str = "none"

    first, second = read_as(Point(1, 2), Today), read_as(Point(1, 2), Today)
    assert first == Today(1, 2, ["new"], "none")
    assert first.tags is not second.tags


def test_a_new_field_without_a_default_is_refused() -> None:
    @dataclass
    class Today:
        x: Any
        y: Any
        z: Any

    with pytest.raises(SerdeError, match=r"has no 'z'.* Register the class with upgrade="):
        read_as(Point(1, 2), Today)


def test_a_removed_field_is_refused_and_not_dropped() -> None:
    @dataclass
    class Today:
        x: Any

    with pytest.raises(SerdeError, match=r"was stored with 'y', .* no longer has. Register the class with upgrade="):
        read_as(Point(1, 2), Today)


def test_an_upgrade_returns_the_fields_of_the_new_version() -> None:
    @dataclass(frozen=True)
    class Today:
        both: tuple[Any, Any]
        z: int = 0

    assert read_as(Point(1, 2), Today, upgrade=lambda old: {"both": (old["x"], old["y"])}) == Today((1, 2))


def test_an_upgrade_that_keeps_a_removed_field_is_refused() -> None:
    with pytest.raises(SerdeError, match="was stored with 'y'"):
        read_as(Point(1, 2), Narrow, upgrade=lambda old: {**old})


def test_a_failing_upgrade_is_refused_with_the_name_of_the_type() -> None:
    with pytest.raises(
        SerdeError, match=r"^stored cannot be stored or read: its class does not accept .*'gone'"
    ) as caught:
        read_as(Point(1, 2), Narrow, upgrade=lambda old: {"x": old["gone"]})
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_value_with_the_current_fields_is_not_upgraded() -> None:
    assert read_as(Point(1, 2), Point, upgrade=lambda old: {"x": old["gone"]}) == Point(1, 2)


def test_decoded_values_share_no_objects() -> None:
    first, second = round_trip([Point([], {})] * 2, Point)
    first.x.append(1)
    assert second.x == []


# -- pydantic models


class Item(BaseModel):
    name: str
    count: int = 1
    tags: list[str] = Field(default_factory=list[str])


class Order(BaseModel):
    items: list[Item]
    first: Item | None = None
    at: datetime | None = None
    by_name: dict[str, Item] = {}


class FrozenItem(BaseModel):
    model_config = ConfigDict(frozen=True)
    name: str


class OpenItem(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class AliasedItem(BaseModel):
    name: str = Field(alias="itemName")
    count: int = Field(1, validation_alias="howMany", serialization_alias="n")


class PrivateItem(BaseModel):
    name: str
    _seen: int = 0
    _cache: dict[str, Any] = PrivateAttr(default_factory=dict[str, Any])
    _unset: int = PrivateAttr()


class Page(BaseModel, Generic[T]):
    items: list[T]


class Numbers(RootModel[list[int]]):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Item(name="a"),
        Item(name="a", count=3, tags=["x"]),
        Order(items=[Item(name="a"), Item(name="b")], first=Item(name="c"), by_name={"d": Item(name="d")}),
        Order(items=[], at=datetime(2026, 1, 2, tzinfo=UTC)),
        FrozenItem(name="a"),
        OpenItem(name="a"),
        OpenItem.model_validate({"name": "a", "more": (1,), "other": Item(name="b")}),
        AliasedItem.model_validate({"itemName": "a", "howMany": 3}),
        PrivateItem(name="a"),
        Page[int](items=[1]),
        Page[Item](items=[Item(name="a")]),
        Page[Any](items=[(1,), {2}]),
        Numbers([1, 2]),
    ],
    ids=repr,
)
def test_a_model_survives_a_round_trip(value: Any) -> None:
    known = (Item, Order, FrozenItem, OpenItem, AliasedItem, PrivateItem, Page[int], Page[Item], Page[Any], Numbers)
    read = round_trip(value, *known)
    assert read == value
    assert type(read) is type(value)
    assert read.model_fields_set == value.model_fields_set
    assert read.model_extra == value.model_extra
    assert read.model_dump() == value.model_dump()


def test_a_decoded_frozen_model_is_frozen_and_can_be_a_key() -> None:
    ((read, _),) = round_trip({FrozenItem(name="a"): 1}, FrozenItem).items()
    assert hash(read) == hash(FrozenItem(name="a"))
    with pytest.raises(ValueError, match="frozen"):
        read.name = "b"


def test_the_set_of_assigned_fields_is_kept() -> None:
    read = round_trip(Item(name="a", count=1), Item)
    assert read.model_dump(exclude_unset=True) == {"name": "a", "count": 1}


def test_private_attributes_are_kept_and_unset_ones_stay_unset() -> None:
    value = PrivateItem(name="a")
    value._seen, value._cache["k"] = 3, (1,)
    read = round_trip(value, PrivateItem)
    assert (read._seen, read._cache) == (3, {"k": (1,)})
    with pytest.raises(AttributeError):
        _ = read._unset
    read._unset = 5
    assert read._unset == 5


def test_new_private_attributes_get_their_defaults() -> None:
    class Private(BaseModel):
        name: str
        count: int
        tags: list[str]
        _cache: list[int] = PrivateAttr(default_factory=lambda: [7])
        _unset: int = PrivateAttr()

    read = read_as(Item(name="a"), Private)
    read._cache.append(8)
    assert (read._cache, read_as(Item(name="a"), Private)._cache) == ([7, 8], [7])


def test_decoding_a_model_does_not_run_its_validators() -> None:
    class Doubled(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def double(cls, value: int) -> int:
            return value * 2

    assert round_trip(Doubled(x=2), Doubled).x == 4


def test_values_that_violate_the_types_of_a_model_are_kept() -> None:
    value = Item(name="a")
    value.count = "many"  # pyright: ignore  # pydantic does not validate assignments
    assert round_trip(value, Item).count == "many"


def test_cached_properties_of_a_model_are_not_stored() -> None:
    class Cached(BaseModel):
        x: int

        @functools.cached_property
        def doubled(self) -> int:
            return self.x * 2

    value = Cached(x=2)
    assert value.doubled == 4
    read = round_trip(value, Cached)
    assert "doubled" not in read.__dict__
    assert read.doubled == 4


class TodaysItem(BaseModel):
    name: str
    count: int = 1
    tags: list[str] = []
    price: Decimal = Decimal(0)


def test_a_new_field_of_a_model_gets_its_default() -> None:
    read = read_as(Item(name="a", count=2), TodaysItem)
    assert read == TodaysItem(name="a", count=2)
    assert read.model_fields_set == {"name", "count"}


def test_a_new_field_of_a_model_without_a_default_is_refused() -> None:
    class Today(Item):
        price: int

    with pytest.raises(SerdeError, match=r"^stored cannot .*\n.*price\n.*Field required"):
        read_as(Item(name="a"), Today)


def test_a_removed_field_of_a_model_is_refused() -> None:
    with pytest.raises(
        SerdeError, match=r"FrozenItem.* was stored with 'count', 'tags', which the class no longer has"
    ):
        read_as(Item(name="a"), FrozenItem)


def test_a_removed_field_is_refused_even_if_the_model_allows_extras() -> None:
    with pytest.raises(SerdeError, match="was stored with 'count', 'tags'"):
        read_as(Item(name="a"), OpenItem)


def test_extra_values_are_refused_if_the_new_model_does_not_allow_them() -> None:
    with pytest.raises(SerdeError, match="was stored with 'more'"):
        read_as(OpenItem.model_validate({"name": "a", "more": 1}), FrozenItem)


def test_extra_values_can_become_fields() -> None:
    value = OpenItem.model_validate({"name": "a", "count": 2, "tags": ["x"], "price": 3})
    assert read_as(value, TodaysItem) == TodaysItem(name="a", count=2, tags=["x"], price=Decimal(3))


def test_a_model_with_a_new_field_keeps_extras_and_private_attributes() -> None:
    class Yesterday(BaseModel):
        model_config = ConfigDict(extra="allow")
        name: str
        _seen: int = 0
        _gone: int = 0

    class Today(BaseModel):
        model_config = ConfigDict(extra="allow")
        name: str
        count: int = 1
        _seen: int = 0
        _new: int = 5

    value = Yesterday.model_validate({"name": "a", "more": 1})
    value._seen = 3
    read = read_as(value, Today)
    assert (read.name, read.count, read.model_extra, read._seen, read._new) == ("a", 1, {"more": 1}, 3, 5)
    assert read.model_fields_set == {"name", "more"} == value.model_fields_set


def test_the_result_of_an_upgrade_of_a_model_is_validated() -> None:
    class Today(BaseModel):
        label: str
        count: int

    def upgrade(old: dict[str, Any]) -> dict[str, Any]:
        return {"label": old["name"], "count": str(old["count"])}

    read = read_as(Item(name="a", count=2), Today, upgrade=upgrade)
    assert read == Today(label="a", count=2)
    with pytest.raises(SerdeError, match=r"(?s)count.*valid integer"):
        read_as(Item(name="a"), Today, upgrade=lambda old: {"label": "a", "count": "many"})


def test_an_upgrade_gets_and_returns_field_names_and_not_aliases() -> None:
    class Today(BaseModel):
        title: str = Field(alias="itemTitle")

    value = AliasedItem.model_validate({"itemName": "a"})
    assert read_as(value, Today, upgrade=lambda old: {"title": old["name"] + "b"}).title == "ab"


def test_a_nested_model_has_to_be_registered() -> None:
    error = encode_error(Order(items=[Item(name="a")]), "values.order", Order)
    assert error.key_path == "values.order.items[0]"


def test_a_parametrized_model_has_to_be_registered_itself() -> None:
    assert encode_error(Page[int](items=[1]), "values.page", Page).key_path == "values.page"


# -- enums


class Color(Enum):
    RED = "red"
    BLUE = ("b", 1)
    CRIMSON = "red"  # noqa: PIE796  # an alias of RED


class Word(StrEnum):
    A = "a"


class Level(IntEnum):
    LOW = 1


class OldWord(str, Enum):  # noqa: UP042  # the form before StrEnum
    A = "a"


class Rights(Flag):
    READ = 1
    WRITE = 2


class IntRights(IntFlag):
    READ = 1
    WRITE = 2


MEMBERS = [Color.RED, Color.BLUE, Color.CRIMSON, Word.A, Level.LOW, OldWord.A, Rights.READ, IntRights.WRITE]
COMBINED = [Rights.READ | Rights.WRITE, Rights(0), IntRights.READ | IntRights.WRITE, IntRights(0), IntRights(8)]


@pytest.mark.parametrize("member", [*MEMBERS, *COMBINED])
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: {one: [one]}, lambda one: {(one, 1): {one}}])
def test_an_enum_member_is_decoded_as_the_same_object(member: Any, wrap: Callable[[Any], Any]) -> None:
    read = round_trip([wrap(member), member], type(member))
    assert read[0] == wrap(member)
    assert read[1] is member
    assert repr(read[0]) == repr(wrap(member))


def test_an_enum_member_can_change_its_value_but_not_its_name() -> None:
    class Today(Enum):
        RED = "#f00"
        GREEN = "#0f0"

    assert read_as(Color.RED, Today) is Today.RED
    with pytest.raises(SerdeError, match=r"no longer has a member 'BLUE'. .*Members: GREEN, RED"):
        read_as(Color.BLUE, Today)


def test_a_removed_flag_is_refused() -> None:
    class Today(Flag):
        READ = 1

    assert read_as(Rights.READ, Today) is Today.READ
    with pytest.raises(SerdeError, match=r"^stored cannot be"):
        read_as(Rights.WRITE, Today)


# -- named tuples


class Pair(NamedTuple):
    left: Any
    right: Any = None


@pytest.mark.parametrize("value", [Pair(1), Pair((1,), [Pair(2)]), {Pair(1, 2): Pair(3)}, [Pair(1), (1, None)]])
def test_a_named_tuple_survives_a_round_trip(value: Any) -> None:
    assert round_trip(value, Pair) == value
    assert repr(round_trip(value, Pair)) == repr(value)


def test_fields_of_a_named_tuple_can_be_added_and_removed() -> None:
    class More(NamedTuple):
        left: Any
        right: Any
        middle: Any = "m"

    class Fewer(NamedTuple):
        left: Any

    class Demanding(NamedTuple):
        left: Any
        right: Any
        middle: Any

    assert read_as(Pair(1, 2), More) == More(1, 2, "m")
    assert read_as(Pair(1, 2), Fewer, upgrade=lambda old: {"left": old["right"]}) == Fewer(2)
    with pytest.raises(SerdeError, match="was stored with 'right'"):
        read_as(Pair(1, 2), Fewer)
    with pytest.raises(SerdeError, match="'middle'"):
        read_as(Pair(1, 2), Demanding)


# -- other classes


class Handle:
    def __init__(self, number: int) -> None:
        self.number = number


class Text(str):
    __slots__ = ()


def test_any_class_can_be_registered_with_encode_and_decode() -> None:
    serde = Serde()
    serde.register(Handle, encode=lambda handle: (handle.number,), decode=lambda plain: Handle(plain[0] + 1))
    serde.register(Text, encode=str, decode=Text)
    serde.register(Point, encode=lambda point: [point.x], decode=lambda plain: Point(*plain, "made"))
    handle, text, point = serde.decode(serde.encode([Handle(3), Text("a"), Point(1, 2)]))
    assert (handle.number, text, type(text), point) == (4, "a", Text, Point(1, "made"))


@pytest.mark.parametrize("options", [{}, {"encode": str}, {"decode": Handle}, {"upgrade": dict}])
def test_an_unsupported_class_without_encode_and_decode_is_refused(options: Any) -> None:
    with pytest.raises(SerdeError, match=r"Handle cannot .* not a dataclass, .* Register it with encode= and decode="):
        Serde().register(Handle, **options)
    with pytest.raises(SerdeError):
        Serde([Handle])


def test_an_error_of_encode_is_reported_with_the_path() -> None:
    serde = Serde()
    serde.register(Handle, encode=lambda handle: 1 / 0, decode=Handle)
    with pytest.raises(SerdeError, match=r"^values\.log\[0\] cannot be stored or read: division by zero") as caught:
        serde.encode({"log": [Handle(1)]}, "values")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_error_of_decode_is_reported_with_the_type_name() -> None:
    serde = Serde()
    serde.register(Handle, name="handle", encode=lambda handle: handle.number, decode=lambda plain: 1 / 0)
    data = serde.encode([Handle(1)])
    with pytest.raises(SerdeError, match=r"^handle cannot be stored or read: .* division by zero") as caught:
        serde.decode(data)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_keyboard_interrupt_in_decode_is_raised_unchanged() -> None:
    def interrupted(plain: Any) -> Any:
        raise KeyboardInterrupt

    serde = Serde()
    serde.register(Handle, encode=lambda handle: handle.number, decode=interrupted)
    data = serde.encode([[Handle(1)]])
    with pytest.raises(KeyboardInterrupt):
        serde.decode(data)


# -- names


def test_a_type_is_stored_under_its_module_and_name_by_default() -> None:
    serde = Serde([Point])
    serde.register(Pair, name="pair")
    assert (serde.name_of(Point), serde.name_of(Pair), serde.name_of(Item)) == (type_name(Point), "pair", None)
    assert (serde.class_of(type_name(Point)), serde.class_of("pair"), serde.class_of("other")) == (Point, Pair, None)
    assert type_name(Point).encode() in serde.encode(Point(1))
    assert type_name(Pair).encode() not in serde.encode(Pair(1))


def test_values_under_former_names_are_decoded_as_the_current_type() -> None:
    serde = Serde()
    serde.register(FrozenPoint, name="today", former_names=["stored", "older"])
    before = Serde()
    for name in ("stored", "older"):
        before.register(Point, name=name)
        assert serde.decode(before.encode([Point(1, 2)])) == [FrozenPoint(1, 2)]
    assert serde.class_of("older") is FrozenPoint
    assert b"today" in serde.encode(FrozenPoint(1))
    assert b"older" not in serde.encode(FrozenPoint(1))


def test_allow_does_not_change_an_earlier_registration() -> None:
    serde = Serde()
    serde.register(Point, name="point")
    serde.allow([Point, Pair])
    assert (serde.name_of(Point), serde.name_of(Pair)) == ("point", type_name(Pair))


@pytest.mark.parametrize(
    "kind",
    [
        *(str, int, float, bool, bytes, list, dict, tuple, set, frozenset, type(None), bytearray, memoryview, complex),
        *(datetime, Decimal, UUID, Message, Send, ValueError, StoredError, Point),
    ],
)
def test_knows_is_true_for_types_that_can_be_stored(kind: type) -> None:
    assert Serde([Point]).knows(kind)


@pytest.mark.parametrize("kind", [object, Handle, Text, Point, Item, Color, Pair, type])
def test_knows_is_false_for_types_that_cannot_be_stored(kind: type) -> None:
    assert not Serde().knows(kind)


def test_a_refused_type_can_be_allowed_later() -> None:
    serde = Serde()
    with pytest.raises(SerdeError):
        serde.encode(Point(1))
    serde.allow([Point])
    assert serde.decode(serde.encode(Point(1))) == Point(1)


# -- values that cannot be encoded


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), "values"),
        ([0, object()], "values[1]"),
        ({"log": [0, 1, 2, Point(0, {"items": object()})]}, "values.log[3].y.items"),
        ({"no name": object()}, "values['no name']"),
        ({3: object()}, "values[3]"),
        ({(1, 2): {"a": object()}}, "values[(1, 2)].a"),
        ({"a": {object(): 1}}, "a key of values.a"),
        ({"a": {(1, object()): 1}}, "a key of values.a[1]"),
        ((0, (1, object())), "values[1][1]"),
        ({"set": {Handle}}, "values.set[0]"),
        ({"pair": Pair(1, object())}, "values.pair.right"),
        ({"page": Page[Any](items=[0, object()])}, "values.page.items[1]"),
        ({"page": OpenItem.model_validate({"name": "a", "more": object()})}, "values.page.more"),
        ({"change": Added([0, object()])}, "values.change[1]"),
        ({"all": Overwrite([object()])}, "values.all[0]"),
        ({"text": Text("a")}, "values.text"),
        ({"color": Color.RED}, "values.color"),
        ({Text("a"): 1}, "a key of values"),
        ([Pair, Pair(1)], "values[0]"),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused_with_its_path(value: Any, path: str) -> None:
    assert encode_error(value, "values", Point, Pair, Page[Any], OpenItem).key_path == path


def test_a_refusal_suggests_how_to_register_the_type() -> None:
    message = str(encode_error({"point": [Point(1)]}))
    assert message.startswith(
        f"values.point[0] cannot be stored or read: its type {type_name(Point)} is not registered."
    )
    assert "Name the type in the annotations of the state" in message
    assert "saver.serde.register(Point)" in message


@pytest.mark.parametrize("value", [Text("a"), Level.LOW, OldWord.A, Pair(1), OrderedDict, Color.RED, Item(name="a")])
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [{"a": one}], lambda one: {(1, 2): one}])
def test_a_value_of_an_unknown_subclass_is_not_stored_as_its_base(value: Any, wrap: Callable[[Any], Any]) -> None:
    encode_error(wrap(value))


def test_a_value_that_contains_itself_is_refused() -> None:
    endless_list: list[Any] = []
    endless_list.append(endless_list)
    endless_dict: dict[str, Any] = {}
    endless_dict["a"] = (endless_dict,)
    for value in (endless_list, endless_dict, [Point(endless_list)]):
        assert "nested too deep, or contains itself" in str(encode_error(value, "values", Point))


DEEPEST = 300
"""No value can be nested deeper than this. The exact limit depends on the types."""


def can_be_stored(serde: Serde, value: Any) -> bool:
    try:
        serde.encode(value)
    except SerdeError:
        return False
    return True


def nest(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "wrap",
    [
        lambda one: [one],
        lambda one: {"a": one},
        lambda one: (one,),
        lambda one: {1: one},
        Point,
        lambda one: Box([one]),
    ],
    ids=["list", "dict", "tuple", "dict by numbers", "dataclass", "dataclass with list"],
)
@pytest.mark.parametrize("depth", [60, 90, 150, 190, 205, 260, 400, 900, 3000])
def test_deeply_nested_values_survive_a_round_trip_or_are_refused(depth: int, wrap: Callable[[Any], Any]) -> None:
    serde = Serde([Point, Box])
    value = nest(depth, wrap)
    if depth > DEEPEST or (depth > 90 and not can_be_stored(serde, value)):
        with pytest.raises(SerdeError, match="nested too deep"):
            serde.encode(value)
    else:
        data = serde.encode(value)
        assert serde.encode(serde.decode(data)) == data


# -- data that cannot be decoded


def test_decoding_an_unregistered_type_is_refused_with_a_suggestion() -> None:
    data = Serde([Point]).encode({"a": [Point(1)]})
    with pytest.raises(SerdeError, match="values of this type are stored, but it is not registered") as caught:
        Serde([FrozenPoint]).decode(data)
    assert caught.value.key_path == type_name(Point)
    assert f"Did you mean {type_name(FrozenPoint)!r}?" in str(caught.value)


def test_decoding_does_not_import_or_call_what_data_names() -> None:
    for name in ("this.d", "os.system", "builtins.eval", type_name(Handle)):
        inside = ormsgpack.packb([name, ["1"]])
        with pytest.raises(SerdeError, match="it is not registered"):
            Serde().decode(ormsgpack.packb(ormsgpack.Ext(OBJECT, inside)))
    assert "this" not in sys.modules


@pytest.mark.parametrize("deep", [False, True])
def test_an_unknown_tag_is_reported_as_from_a_newer_version(deep: bool) -> None:
    unknown = ormsgpack.Ext(99, ormsgpack.packb(1))
    data = ormsgpack.packb(ormsgpack.Ext(2, ormsgpack.packb([unknown])) if deep else [unknown])
    with pytest.raises(SerdeError, match=r"tag 99 .* stored by a newer version of Statewright"):
        Serde().decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x02",
        b"\xa1\xff",
        b"\x81\x90",
        b"\xd4\x02\xc1",
        b"\xd4\x02\x07",
        b"\xd4\x01\x07",
        b"\xd5\x01\x91\x01",
        b"\xd6\x01\x92\x90\x90\x01",
    ],
)
def test_invalid_data_raises_damaged_database(data: bytes) -> None:
    with pytest.raises(DamagedDatabase, match="a stored value cannot be read"):
        Serde([Point]).decode(data)


def test_damaged_database_contains_the_cause() -> None:
    with pytest.raises(DamagedDatabase, match=r"damaged: .*'int' object is not iterable") as caught:
        Serde().decode(ormsgpack.packb([ormsgpack.Ext(2, ormsgpack.packb(7))]))
    assert isinstance(caught.value.__cause__, TypeError)


def test_excessive_nesting_in_data_raises_damaged_database() -> None:
    data = b"\x90"
    for _ in range(3000):
        data = ormsgpack.packb([ormsgpack.Ext(2, data)])
    with pytest.raises(DamagedDatabase):
        Serde().decode(data)
    with pytest.raises(DamagedDatabase):
        Serde().decode(b"\x91" * 100_000)


SAMPLE: dict[str, Any] = {
    "log": [Message("hi", id="ab" * 16 + "-1", tool_calls=(ToolCall("1", "a", {"x": (1,)}),)), ValueError("v")],
    "point": Point(1.5, {date(2026, 1, 2): Decimal("1.10"), (1, 2): 2**70}),
    "item": Order(items=[Item(name="a", count=300)], at=datetime(2026, 1, 2, tzinfo=UTC)),
    "color": [Color.RED, Rights.READ | Rights.WRITE, Pair(1, "\ud800")],
    "bytes": [b"\xff" * 40, UUID(int=7), timedelta(1), range(3), deque([1], 3), complex(1, 2), PurePosixPath("a/b")],
    "sends": [Send("a", {1, 2}, timeout=1.5), MISSING, Added([1]), Overwrite(None)],
}
KNOWN = (Point, Order, Item, Color, Rights, Pair)


def test_truncated_data_is_refused_at_every_length() -> None:
    serde = Serde(KNOWN)
    data = serde.encode(SAMPLE)
    assert serde.encode(serde.decode(data)) == data
    for length in range(len(data)):
        with pytest.raises(DamagedDatabase):
            serde.decode(data[:length])


def decode_damaged(serde: Serde, data: bytes) -> None:
    """Decode data, which has to succeed or raise an error of Statewright."""
    with suppress(DamagedDatabase, SerdeError):
        serde.decode(data)


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4))
def test_overwritten_data_raises_only_errors_of_statewright(changes: list[tuple[int, int]]) -> None:
    serde = Serde(KNOWN)
    data = bytearray(serde.encode(SAMPLE))
    for position, byte in changes:
        data[position % len(data)] = byte
    decode_damaged(serde, bytes(data))


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(
    st.integers(1, 60),
    st.recursive(st.none() | st.integers(-9, 99) | st.binary(max_size=9) | st.text(max_size=4), st.lists),
)
def test_any_value_under_any_tag_raises_only_errors_of_statewright(tag: int, plain: Any) -> None:
    decode_damaged(Serde(KNOWN), ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(plain))))
    decode_damaged(Serde(KNOWN), ormsgpack.packb(ormsgpack.Ext(OBJECT, ormsgpack.packb([type_name(Point), plain]))))
    decode_damaged(Serde(KNOWN), ormsgpack.packb(ormsgpack.Ext(OBJECT, ormsgpack.packb([type_name(Item), plain]))))


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_raise_only_errors_of_statewright(data: bytes) -> None:
    decode_damaged(Serde(KNOWN), data)


# -- random values


def same(first: Any, second: Any) -> bool:
    """Return whether two values are equal with the types of all parts; NaN equals NaN."""
    if type(first) is not type(second):
        return False
    if isinstance(first, float):
        return first.hex() == second.hex()
    if isinstance(first, complex):
        return same(first.real, second.real) and same(first.imag, second.imag)
    if isinstance(first, Decimal):
        return first.as_tuple() == second.as_tuple()
    if isinstance(first, datetime):
        return (first, first.fold, first.utcoffset()) == (second, second.fold, second.utcoffset())
    if isinstance(first, dict):
        return same(list(first.items()), list(second.items()))
    if isinstance(first, list | tuple | deque):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, Point | FrozenPoint | Page):
        return same(vars(first), vars(second))
    if isinstance(first, set | frozenset):
        return first == second and {(type(item), item) for item in first} == {(type(item), item) for item in second}
    return bool(first == second)


ZONES = st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=45))])
KEYS = st.one_of(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=4) | st.binary(max_size=4),
    st.floats(allow_nan=False) | st.dates() | st.uuids() | st.timedeltas() | st.datetimes(timezones=ZONES),
    st.sampled_from(MEMBERS) | st.builds(FrozenPoint, st.integers()),
)
HASHABLE = st.recursive(
    KEYS, lambda inside: st.tuples(inside, inside) | st.frozensets(inside, max_size=2), max_leaves=4
)
LEAVES = st.one_of(
    HASHABLE,
    st.floats() | st.complex_numbers() | st.decimals() | st.times() | st.integers(-(2**80), 2**80),
    st.sets(HASHABLE, max_size=3),
    st.builds(Message, st.text(max_size=3), st.sampled_from(["user", "tool"]), st.none() | st.text(max_size=3)),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.dictionaries(st.text(max_size=3), inside, max_size=3),
        st.dictionaries(HASHABLE, inside, max_size=3),
        st.tuples(inside, inside),
        st.builds(Point, inside, inside),
        st.builds(Pair, inside, inside),
        st.lists(inside, max_size=3).map(deque),
        st.dictionaries(st.text(max_size=2), inside, max_size=2).map(OrderedDict),
        st.lists(inside, max_size=2).map(lambda items: Page[Any](items=items)),
    ),
    max_leaves=12,
)
ALL_KNOWN = (Point, FrozenPoint, Pair, Page[Any], *{type(member) for member in MEMBERS})


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(ANYTHING)
def test_random_values_survive_a_round_trip(value: Any) -> None:
    assert same(round_trip(value, *ALL_KNOWN), value)


@settings(max_examples=examples(100), derandomize=True, deadline=None)
@given(ANYTHING)
def test_random_values_next_to_a_surrogate_survive_a_round_trip(value: Any) -> None:
    """The surrogate next to the value makes the slower encoding necessary."""
    plain, _ = round_trip([value, "\ud800"], *ALL_KNOWN)
    assert same(plain, value)


def test_same_distinguishes_equal_values_of_different_types() -> None:
    assert same([math.nan, (1, {True})], [math.nan, (1, {True})])
    assert not any(same(*pair) for pair in [(1, True), (0.0, -0.0), ({1}, {True}), ([1], (1,)), ({"a": 1}, {"a": 1.0})])

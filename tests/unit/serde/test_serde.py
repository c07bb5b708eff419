"""Values of registered types as bytes and back, and what is refused on either way."""

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


def again(value: Any, *types: type) -> Any:
    """The value after it was stored and read, where these types are known."""
    serde = Serde(types)
    return serde.decode(serde.encode(value))


def over(value: Any, later: type, **options: Any) -> Any:
    """The value, stored by its class and read by a later version of it."""
    before, after = Serde(), Serde()
    before.register(type(value), name="stored")
    after.register(later, name="stored", **options)
    return after.decode(before.encode(value))


def refused(value: Any, where: str = "values", *types: type) -> SerdeError:
    """How the value is refused when it is stored."""
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
    """What a Point has become."""

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
def test_a_dataclass_comes_back_as_it_was(value: Any) -> None:
    read = again(value, Point, FrozenPoint, SlottedPoint, EveryOption, Inherited, Box)
    assert read == value
    assert type(read) is type(value)


def test_a_field_that_is_not_compared_is_kept_too() -> None:
    assert again(EveryOption(x=1, y=(2,)), EveryOption).y == (2,)


def test_nothing_runs_again_when_a_dataclass_is_read() -> None:
    runs: list[int] = []

    @dataclass
    class Counted:
        x: int
        doubled: int = field(init=False)
        factor: InitVar[int] = 2

        def __post_init__(self, factor: int) -> None:
            runs.append(self.x)
            self.doubled = self.x * factor

    read = again(Counted(3, 5), Counted)
    assert (read.x, read.doubled, runs) == (3, 15, [3])


def test_a_field_that_was_never_set_stays_so() -> None:
    @dataclass(slots=True)
    class Later:
        x: int
        answer: int = field(init=False)

    read = again(Later(1), Later)
    assert read.x == 1
    assert not hasattr(read, "answer")


def test_a_field_that_came_later_has_its_default() -> None:
    @dataclass
    class Today:
        x: Any
        y: Any
        tags: list[str] = field(default_factory=lambda: ["new"])
        note: str = "none"

    one, other = over(Point(1, 2), Today), over(Point(1, 2), Today)
    assert one == Today(1, 2, ["new"], "none")
    assert one.tags is not other.tags


def test_a_field_that_came_later_without_a_default_is_an_error() -> None:
    @dataclass
    class Today:
        x: Any
        y: Any
        z: Any

    with pytest.raises(SerdeError, match=r"has no 'z'.* Register the class with upgrade="):
        over(Point(1, 2), Today)


def test_a_field_that_is_gone_is_an_error_and_nothing_is_dropped_in_silence() -> None:
    @dataclass
    class Today:
        x: Any

    with pytest.raises(SerdeError, match=r"was stored with 'y', .* no longer has. Register the class with upgrade="):
        over(Point(1, 2), Today)


def test_an_upgrade_makes_the_fields_of_today() -> None:
    @dataclass(frozen=True)
    class Today:
        both: tuple[Any, Any]
        z: int = 0

    assert over(Point(1, 2), Today, upgrade=lambda old: {"both": (old["x"], old["y"])}) == Today((1, 2))


def test_an_upgrade_that_leaves_what_is_gone_is_an_error() -> None:
    with pytest.raises(SerdeError, match="was stored with 'y'"):
        over(Point(1, 2), Narrow, upgrade=lambda old: {**old})


def test_an_upgrade_that_fails_is_an_error_that_names_the_type() -> None:
    with pytest.raises(
        SerdeError, match=r"^stored cannot be stored or read: its class does not accept .*'gone'"
    ) as caught:
        over(Point(1, 2), Narrow, upgrade=lambda old: {"x": old["gone"]})
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_has_the_fields_of_today_is_not_upgraded() -> None:
    assert over(Point(1, 2), Point, upgrade=lambda old: {"x": old["gone"]}) == Point(1, 2)


def test_two_read_values_share_nothing() -> None:
    one, other = again([Point([], {})] * 2, Point)
    one.x.append(1)
    assert other.x == []


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
def test_a_model_comes_back_as_it_was(value: Any) -> None:
    known = (Item, Order, FrozenItem, OpenItem, AliasedItem, PrivateItem, Page[int], Page[Item], Page[Any], Numbers)
    read = again(value, *known)
    assert read == value
    assert type(read) is type(value)
    assert read.model_fields_set == value.model_fields_set
    assert read.model_extra == value.model_extra
    assert read.model_dump() == value.model_dump()


def test_a_frozen_model_is_frozen_and_can_be_a_key() -> None:
    ((read, _),) = again({FrozenItem(name="a"): 1}, FrozenItem).items()
    assert hash(read) == hash(FrozenItem(name="a"))
    with pytest.raises(ValueError, match="frozen"):
        read.name = "b"


def test_which_fields_were_set_is_kept() -> None:
    read = again(Item(name="a", count=1), Item)
    assert read.model_dump(exclude_unset=True) == {"name": "a", "count": 1}


def test_private_values_are_kept_and_those_that_were_never_set_stay_so() -> None:
    value = PrivateItem(name="a")
    value._seen, value._cache["k"] = 3, (1,)
    read = again(value, PrivateItem)
    assert (read._seen, read._cache) == (3, {"k": (1,)})
    with pytest.raises(AttributeError):
        _ = read._unset
    read._unset = 5
    assert read._unset == 5


def test_private_values_that_came_later_have_their_defaults() -> None:
    class Private(BaseModel):
        name: str
        count: int
        tags: list[str]
        _cache: list[int] = PrivateAttr(default_factory=lambda: [7])
        _unset: int = PrivateAttr()

    read = over(Item(name="a"), Private)
    read._cache.append(8)
    assert (read._cache, over(Item(name="a"), Private)._cache) == ([7, 8], [7])


def test_validators_do_not_run_again_when_a_model_is_read() -> None:
    class Doubled(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def double(cls, value: int) -> int:
            return value * 2

    assert again(Doubled(x=2), Doubled).x == 4


def test_a_model_that_was_changed_against_its_types_comes_back_as_it_was() -> None:
    value = Item(name="a")
    value.count = "many"  # pyright: ignore  # pydantic does not check this either
    assert again(value, Item).count == "many"


def test_what_a_model_remembers_of_a_property_is_worked_out_again() -> None:
    class Cached(BaseModel):
        x: int

        @functools.cached_property
        def doubled(self) -> int:
            return self.x * 2

    value = Cached(x=2)
    assert value.doubled == 4
    read = again(value, Cached)
    assert "doubled" not in read.__dict__
    assert read.doubled == 4


class TodaysItem(BaseModel):
    name: str
    count: int = 1
    tags: list[str] = []
    price: Decimal = Decimal(0)


def test_a_field_of_a_model_that_came_later_has_its_default() -> None:
    read = over(Item(name="a", count=2), TodaysItem)
    assert read == TodaysItem(name="a", count=2)
    assert read.model_fields_set == {"name", "count"}


def test_a_field_of_a_model_that_came_later_without_a_default_is_an_error() -> None:
    class Today(Item):
        price: int

    with pytest.raises(SerdeError, match=r"^stored cannot .*\n.*price\n.*Field required"):
        over(Item(name="a"), Today)


def test_a_field_of_a_model_that_is_gone_is_an_error() -> None:
    with pytest.raises(
        SerdeError, match=r"FrozenItem.* was stored with 'count', 'tags', which the class no longer has"
    ):
        over(Item(name="a"), FrozenItem)


def test_a_field_that_is_gone_is_an_error_even_where_a_model_takes_more() -> None:
    with pytest.raises(SerdeError, match="was stored with 'count', 'tags'"):
        over(Item(name="a"), OpenItem)


def test_what_came_beside_the_fields_is_an_error_where_a_model_takes_no_more() -> None:
    with pytest.raises(SerdeError, match="was stored with 'more'"):
        over(OpenItem.model_validate({"name": "a", "more": 1}), FrozenItem)


def test_what_came_beside_the_fields_may_have_become_one() -> None:
    value = OpenItem.model_validate({"name": "a", "count": 2, "tags": ["x"], "price": 3})
    assert over(value, TodaysItem) == TodaysItem(name="a", count=2, tags=["x"], price=Decimal(3))


def test_a_model_that_gets_a_field_keeps_what_is_beside_them_and_what_is_private() -> None:
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
    read = over(value, Today)
    assert (read.name, read.count, read.model_extra, read._seen, read._new) == ("a", 1, {"more": 1}, 3, 5)
    assert read.model_fields_set == {"name", "more"} == value.model_fields_set


def test_an_upgrade_makes_the_fields_of_a_model_and_these_are_validated() -> None:
    class Today(BaseModel):
        label: str
        count: int

    def upgrade(old: dict[str, Any]) -> dict[str, Any]:
        return {"label": old["name"], "count": str(old["count"])}

    read = over(Item(name="a", count=2), Today, upgrade=upgrade)
    assert read == Today(label="a", count=2)
    with pytest.raises(SerdeError, match=r"(?s)count.*valid integer"):
        over(Item(name="a"), Today, upgrade=lambda old: {"label": "a", "count": "many"})


def test_an_upgrade_is_told_fields_by_their_names_and_not_by_their_aliases() -> None:
    class Today(BaseModel):
        title: str = Field(alias="itemTitle")

    value = AliasedItem.model_validate({"itemName": "a"})
    assert over(value, Today, upgrade=lambda old: {"title": old["name"] + "b"}).title == "ab"


def test_a_model_within_another_has_to_be_known_too() -> None:
    error = refused(Order(items=[Item(name="a")]), "values.order", Order)
    assert error.key_path == "values.order.items[0]"


def test_a_model_of_a_type_parameter_has_to_be_known_as_such() -> None:
    assert refused(Page[int](items=[1]), "values.page", Page).key_path == "values.page"


# -- enums


class Color(Enum):
    RED = "red"
    BLUE = ("b", 1)
    CRIMSON = "red"  # noqa: PIE796  # another name of the same member


class Word(StrEnum):
    A = "a"


class Level(IntEnum):
    LOW = 1


class OldWord(str, Enum):  # noqa: UP042  # how it was written before StrEnum
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
def test_a_member_of_an_enum_is_the_very_member(member: Any, wrap: Callable[[Any], Any]) -> None:
    read = again([wrap(member), member], type(member))
    assert read[0] == wrap(member)
    assert read[1] is member
    assert repr(read[0]) == repr(wrap(member))


def test_a_member_may_get_another_value_but_not_another_name() -> None:
    class Today(Enum):
        RED = "#f00"
        GREEN = "#0f0"

    assert over(Color.RED, Today) is Today.RED
    with pytest.raises(SerdeError, match=r"no longer has a member 'BLUE'. .*Members: GREEN, RED"):
        over(Color.BLUE, Today)


def test_a_flag_that_is_gone_is_an_error() -> None:
    class Today(Flag):
        READ = 1

    assert over(Rights.READ, Today) is Today.READ
    with pytest.raises(SerdeError, match=r"^stored cannot be"):
        over(Rights.WRITE, Today)


# -- named tuples


class Pair(NamedTuple):
    left: Any
    right: Any = None


@pytest.mark.parametrize("value", [Pair(1), Pair((1,), [Pair(2)]), {Pair(1, 2): Pair(3)}, [Pair(1), (1, None)]])
def test_a_named_tuple_comes_back_as_one(value: Any) -> None:
    assert again(value, Pair) == value
    assert repr(again(value, Pair)) == repr(value)


def test_fields_of_a_named_tuple_come_and_go_as_those_of_a_dataclass() -> None:
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

    assert over(Pair(1, 2), More) == More(1, 2, "m")
    assert over(Pair(1, 2), Fewer, upgrade=lambda old: {"left": old["right"]}) == Fewer(2)
    with pytest.raises(SerdeError, match="was stored with 'right'"):
        over(Pair(1, 2), Fewer)
    with pytest.raises(SerdeError, match="'middle'"):
        over(Pair(1, 2), Demanding)


# -- classes of another kind


class Handle:
    def __init__(self, number: int) -> None:
        self.number = number


class Text(str):
    __slots__ = ()


def test_a_class_with_two_functions_can_be_anything() -> None:
    serde = Serde()
    serde.register(Handle, encode=lambda handle: (handle.number,), decode=lambda plain: Handle(plain[0] + 1))
    serde.register(Text, encode=str, decode=Text)
    serde.register(Point, encode=lambda point: [point.x], decode=lambda plain: Point(*plain, "made"))
    handle, text, point = serde.decode(serde.encode([Handle(3), Text("a"), Point(1, 2)]))
    assert (handle.number, text, type(text), point) == (4, "a", Text, Point(1, "made"))


@pytest.mark.parametrize("options", [{}, {"encode": str}, {"decode": Handle}, {"upgrade": dict}])
def test_a_class_of_another_kind_without_them_is_refused(options: Any) -> None:
    with pytest.raises(SerdeError, match=r"Handle cannot .* not a dataclass, .* Register it with encode= and decode="):
        Serde().register(Handle, **options)
    with pytest.raises(SerdeError):
        Serde([Handle])


def test_what_encode_raises_is_told_with_the_path() -> None:
    serde = Serde()
    serde.register(Handle, encode=lambda handle: 1 / 0, decode=Handle)
    with pytest.raises(SerdeError, match=r"^values\.log\[0\] cannot be stored or read: division by zero") as caught:
        serde.encode({"log": [Handle(1)]}, "values")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_what_decode_raises_is_told_with_the_name() -> None:
    serde = Serde()
    serde.register(Handle, name="handle", encode=lambda handle: handle.number, decode=lambda plain: 1 / 0)
    data = serde.encode([Handle(1)])
    with pytest.raises(SerdeError, match=r"^handle cannot be stored or read: .* division by zero") as caught:
        serde.decode(data)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_interruption_is_no_damage() -> None:
    def interrupted(plain: Any) -> Any:
        raise KeyboardInterrupt

    serde = Serde()
    serde.register(Handle, encode=lambda handle: handle.number, decode=interrupted)
    data = serde.encode([[Handle(1)]])
    with pytest.raises(KeyboardInterrupt):
        serde.decode(data)


# -- names


def test_a_type_is_stored_under_its_module_and_name_unless_it_is_given_one() -> None:
    serde = Serde([Point])
    serde.register(Pair, name="pair")
    assert (serde.name_of(Point), serde.name_of(Pair), serde.name_of(Item)) == (type_name(Point), "pair", None)
    assert (serde.class_of(type_name(Point)), serde.class_of("pair"), serde.class_of("other")) == (Point, Pair, None)
    assert type_name(Point).encode() in serde.encode(Point(1))
    assert type_name(Pair).encode() not in serde.encode(Pair(1))


def test_what_was_stored_under_former_names_is_read_as_the_type_of_today() -> None:
    serde = Serde()
    serde.register(FrozenPoint, name="today", former_names=["stored", "older"])
    before = Serde()
    for name in ("stored", "older"):
        before.register(Point, name=name)
        assert serde.decode(before.encode([Point(1, 2)])) == [FrozenPoint(1, 2)]
    assert serde.class_of("older") is FrozenPoint
    assert b"today" in serde.encode(FrozenPoint(1))
    assert b"older" not in serde.encode(FrozenPoint(1))


def test_allowing_a_type_again_leaves_how_it_was_registered() -> None:
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
def test_which_types_can_be_stored_is_known(kind: type) -> None:
    assert Serde([Point]).knows(kind)


@pytest.mark.parametrize("kind", [object, Handle, Text, Point, Item, Color, Pair, type])
def test_which_types_cannot_be_stored_is_known(kind: type) -> None:
    assert not Serde().knows(kind)


def test_a_type_that_was_refused_can_be_registered_afterwards() -> None:
    serde = Serde()
    with pytest.raises(SerdeError):
        serde.encode(Point(1))
    serde.allow([Point])
    assert serde.decode(serde.encode(Point(1))) == Point(1)


# -- what is refused when it is written


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
def test_what_cannot_be_stored_is_refused_with_the_path_to_it(value: Any, path: str) -> None:
    assert refused(value, "values", Point, Pair, Page[Any], OpenItem).key_path == path


def test_the_refusal_says_what_to_do() -> None:
    said = str(refused({"point": [Point(1)]}))
    assert said.startswith(f"values.point[0] cannot be stored or read: its type {type_name(Point)} is not known.")
    assert "Name the type in the annotations of the state" in said
    assert "saver.serde.register(Point)" in said


@pytest.mark.parametrize("value", [Text("a"), Level.LOW, OldWord.A, Pair(1), OrderedDict, Color.RED, Item(name="a")])
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [{"a": one}], lambda one: {(1, 2): one}])
def test_a_value_of_a_type_that_is_not_known_is_never_stored_as_a_simpler_one(
    value: Any, wrap: Callable[[Any], Any]
) -> None:
    refused(wrap(value))


def test_a_list_that_contains_itself_is_refused() -> None:
    itself: list[Any] = []
    itself.append(itself)
    in_dict: dict[str, Any] = {}
    in_dict["a"] = (in_dict,)
    for value in (itself, in_dict, [Point(itself)]):
        assert "nested too deep, or contains itself" in str(refused(value, "values", Point))


MOST = 300
"""How deep nothing may be nested. Where it may end before depends on what is nested."""


def can_be_stored(serde: Serde, value: Any) -> bool:
    try:
        serde.encode(value)
    except SerdeError:
        return False
    return True


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
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
def test_what_is_nested_is_stored_and_read_or_refused_at_once(depth: int, wrap: Callable[[Any], Any]) -> None:
    serde = Serde([Point, Box])
    value = nested(depth, wrap)
    if depth > MOST or (depth > 90 and not can_be_stored(serde, value)):
        with pytest.raises(SerdeError, match="nested too deep"):
            serde.encode(value)
    else:
        data = serde.encode(value)
        assert serde.encode(serde.decode(data)) == data


# -- what is refused when it is read


def test_a_type_that_is_not_known_is_refused_when_it_is_read_and_known_ones_are_suggested() -> None:
    data = Serde([Point]).encode({"a": [Point(1)]})
    with pytest.raises(SerdeError, match="values of this type are stored, but it is not registered") as caught:
        Serde([FrozenPoint]).decode(data)
    assert caught.value.key_path == type_name(Point)
    assert f"Did you mean {type_name(FrozenPoint)!r}?" in str(caught.value)


def test_nothing_is_loaded_or_called_because_data_names_it() -> None:
    for name in ("this.d", "os.system", "builtins.eval", type_name(Handle)):
        inside = ormsgpack.packb([name, ["1"]])
        with pytest.raises(SerdeError, match="it is not registered"):
            Serde().decode(ormsgpack.packb(ormsgpack.Ext(OBJECT, inside)))
    assert "this" not in sys.modules


@pytest.mark.parametrize("deep", [False, True])
def test_a_tag_of_a_newer_version_is_told_as_such(deep: bool) -> None:
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
def test_what_is_no_value_is_damaged(data: bytes) -> None:
    with pytest.raises(DamagedDatabase, match="a stored value cannot be read"):
        Serde([Point]).decode(data)


def test_damage_tells_what_was_wrong() -> None:
    with pytest.raises(DamagedDatabase, match=r"damaged: .*'int' object is not iterable") as caught:
        Serde().decode(ormsgpack.packb([ormsgpack.Ext(2, ormsgpack.packb(7))]))
    assert isinstance(caught.value.__cause__, TypeError)


def test_endless_nesting_in_the_data_is_damage() -> None:
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


def test_data_that_was_cut_short_is_refused_at_every_length() -> None:
    serde = Serde(KNOWN)
    data = serde.encode(SAMPLE)
    assert serde.encode(serde.decode(data)) == data
    for length in range(len(data)):
        with pytest.raises(DamagedDatabase):
            serde.decode(data[:length])


def survives(serde: Serde, data: bytes) -> None:
    """Damaged data may happen to be a value; else it is refused with an error of ours."""
    with suppress(DamagedDatabase, SerdeError):
        serde.decode(data)


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4))
def test_overwritten_data_raises_nothing_but_errors_of_ours(changes: list[tuple[int, int]]) -> None:
    serde = Serde(KNOWN)
    data = bytearray(serde.encode(SAMPLE))
    for place, byte in changes:
        data[place % len(data)] = byte
    survives(serde, bytes(data))


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(
    st.integers(1, 60),
    st.recursive(st.none() | st.integers(-9, 99) | st.binary(max_size=9) | st.text(max_size=4), st.lists),
)
def test_any_value_under_any_tag_raises_nothing_but_errors_of_ours(tag: int, plain: Any) -> None:
    survives(Serde(KNOWN), ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(plain))))
    survives(Serde(KNOWN), ormsgpack.packb(ormsgpack.Ext(OBJECT, ormsgpack.packb([type_name(Point), plain]))))
    survives(Serde(KNOWN), ormsgpack.packb(ormsgpack.Ext(OBJECT, ormsgpack.packb([type_name(Item), plain]))))


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(st.binary(max_size=60))
def test_garbage_raises_nothing_but_errors_of_ours(data: bytes) -> None:
    survives(Serde(KNOWN), data)


# -- everything at once


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in all parts, of the same types, and alike where nothing equals itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one.hex() == other.hex()
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, Decimal):
        return one.as_tuple() == other.as_tuple()
    if isinstance(one, datetime):
        return (one, one.fold, one.utcoffset()) == (other, other.fold, other.utcoffset())
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Point | FrozenPoint | Page):
        return same(vars(one), vars(other))
    if isinstance(one, set | frozenset):
        return one == other and {(type(item), item) for item in one} == {(type(item), item) for item in other}
    return bool(one == other)


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
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    assert same(again(value, *ALL_KNOWN), value)


@settings(max_examples=examples(100), derandomize=True, deadline=None)
@given(ANYTHING)
def test_a_value_is_written_the_same_way_with_care_as_without(value: Any) -> None:
    """What makes care needed stands beside the value."""
    plain, _ = again([value, "\ud800"], *ALL_KNOWN)
    assert same(plain, value)


def test_values_that_are_alike_are_told_apart_here() -> None:
    assert same([math.nan, (1, {True})], [math.nan, (1, {True})])
    assert not any(same(*pair) for pair in [(1, True), (0.0, -0.0), ({1}, {True}), ([1], (1,)), ({"a": 1}, {"a": 1.0})])

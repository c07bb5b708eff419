"""One field: what an annotation says about its type, its channel and its first value."""

import collections.abc
import operator
import typing
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Protocol,
    Required,
    TypeVar,
)

import pytest
import typing_extensions

from statewright.channels import (
    MISSING,
    AnyValue,
    Append,
    Channel,
    LastValue,
    Messages,
    Reduced,
    Topic,
    add_messages,
    append,
)
from statewright.channels import overwrite as replace_value
from statewright.errors import InvalidSchema
from statewright.state import IsLastStep, Managed, RemainingSteps
from statewright.state.fields import (
    Constant,
    Field,
    concrete_class,
    initial_value_factory,
    may_hold_container,
    read_field,
    split_annotation,
)


class Colour(Enum):
    """A class that cannot be called without arguments."""

    RED = "red"


class Counter:
    """A class that can."""

    def __init__(self, count: int = 0) -> None:
        self.count = count


class Failing:
    """A class whose constructor raises something of its own."""

    def __init__(self) -> None:
        raise LookupError("not here")


def stored(name: str, annotation: Any, default: Any = None) -> Field:
    field = read_field(name, annotation, default)
    assert isinstance(field, Field)
    return field


@pytest.mark.parametrize(
    ("annotation", "hint", "metadata"),
    [
        (int, int, ()),
        (Any, Any, ()),
        (None, None, ()),
        (list[str], list[str], ()),
        (Optional[int], Optional[int], ()),  # noqa: UP045  # both spellings
        (Annotated[int, "a", 3], int, ("a", 3)),
        (Annotated[Annotated[int, "inner"], "outer"], int, ("inner", "outer")),
        (Required[int], int, ()),
        (NotRequired[int], int, ()),
        (typing_extensions.ReadOnly[int], int, ()),
        (typing_extensions.NotRequired[int], int, ()),
        (Required[Annotated[int, "a"]], int, ("a",)),
        (Annotated[NotRequired[int], "a"], int, ("a",)),
        (Annotated[NotRequired[Annotated[int, "inner"]], "outer"], int, ("inner", "outer")),
        (NotRequired[typing_extensions.ReadOnly[Annotated[list[int], "a"]]], list[int], ("a",)),
        (list[Annotated[int, "a"]], list[Annotated[int, "a"]], ()),
    ],
)
def test_an_annotation_is_a_bare_type_and_the_metadata_around_it(
    annotation: Any, hint: Any, metadata: tuple[Any, ...]
) -> None:
    assert split_annotation(annotation) == (hint, metadata)


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (list, list),
        (list[str], list),
        (typing.List[str], list),  # noqa: UP006  # as older code writes it
        (typing.List, list),  # noqa: UP006
        (collections.abc.Sequence, list),
        (collections.abc.Sequence[str], list),
        (typing.Sequence[str], list),
        (collections.abc.MutableSequence[str], list),
        (collections.abc.Iterable[str], list),
        (collections.abc.Collection[str], list),
        (collections.abc.Set[str], set),
        (collections.abc.MutableSet[str], set),
        (frozenset[str], frozenset),
        (collections.abc.Mapping[str, int], dict),
        (collections.abc.MutableMapping[str, int], dict),
        (tuple[int, ...], tuple),
        (Counter, Counter),
    ],
)
def test_an_abstract_collection_stands_for_the_built_in_one(hint: Any, kind: type) -> None:
    assert concrete_class(hint) is kind


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 0),
        (float, 0.0),
        (bool, False),
        (str, ""),
        (list[str], []),
        (dict[str, int], {}),
        (set[str], set()),
        (tuple[int, ...], ()),
        (collections.abc.Sequence[str], []),
        (collections.abc.Mapping[str, int], {}),
        (collections.abc.Set[str], set()),
    ],
)
def test_the_first_value_is_an_empty_one_of_the_type(hint: Any, value: Any) -> None:
    make = initial_value_factory(hint)
    assert make is not None
    assert make() == value
    assert type(make()) is type(value)


def test_a_class_without_required_arguments_makes_its_own_first_value() -> None:
    make = initial_value_factory(Counter)
    assert make is not None
    assert (make().count, make() is make()) == (0, False)


@pytest.mark.parametrize(
    "hint",
    [
        Any,
        object,
        None,
        type(None),
        int | None,
        Optional[list[str]],  # noqa: UP045
        list[str] | dict[str, str],
        Literal["a"],
        Colour,
        Failing,
        collections.abc.Callable[[int], int],
        typing.TypeVar("T"),
        "text",
    ],
)
def test_a_type_that_cannot_be_called_without_arguments_has_no_first_value(hint: Any) -> None:
    assert initial_value_factory(hint) is None


@pytest.mark.parametrize("value", [[1], {"a": [1]}, {1}])
def test_a_default_is_copied_each_time_since_it_may_be_mutable(value: Any) -> None:
    make = Constant(value)
    assert make() == value
    assert make() is not value
    assert make() is not make()


@pytest.mark.parametrize("value", [0, None, "", False])
def test_a_falsy_default_is_a_default(value: Any) -> None:
    assert Constant(value)() is value


def test_a_default_is_copied_to_the_bottom() -> None:
    value = {"a": [1]}
    Constant(value)()["a"].append(2)
    assert value == {"a": [1]}


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [(int, int), (Any, Any), (Annotated[int, "doc", 3], int), (NotRequired[list[str]], list[str]), (None, None)],
)
def test_a_field_without_reducer_is_plain(annotation: Any, hint: Any) -> None:
    field = stored("x", annotation)
    assert (field.name, field.hint, field.channel, field.start) == ("x", hint, LastValue(), None)
    assert not field.has_reducer


@pytest.mark.parametrize(
    ("annotation", "channel"),
    [
        (Annotated[list[str], append], Append(start=list)),
        (Annotated[collections.abc.Sequence[str], append], Append(start=list)),
        (Annotated[list[str], operator.add], Append(items=False, start=list)),
        (Annotated[int, operator.add], Reduced(operator.add, start=int)),
        (Annotated[str, operator.add], Reduced(operator.add, start=str)),
        (Annotated[list[str] | None, operator.add], Reduced(operator.add)),
        (Annotated[Any, max], Reduced(max)),
        (Annotated[Any, append], Append()),
        (Annotated[dict[str, int], operator.or_], Reduced(operator.or_, start=dict)),
        (Annotated[list[Any], add_messages], Messages()),
        (Annotated[list[str], Topic], Topic()),
        (Annotated[list[str], Topic(accumulate=True)], Topic(accumulate=True)),
        (Annotated[int, "doc", max, 3], Reduced(max, start=int)),
        (NotRequired[Annotated[int, max]], Reduced(max, start=int)),
        (Annotated[Required[int], max], Reduced(max, start=int)),
        (Annotated[Annotated[int, max], "doc"], Reduced(max, start=int)),
    ],
)
def test_an_annotated_reducer_says_how_a_field_merges(annotation: Any, channel: Channel) -> None:
    field = stored("x", annotation)
    assert field.channel == channel
    assert field.start is None
    assert field.has_reducer


def test_the_reducer_overwrite_takes_several_writers_unlike_a_plain_field() -> None:
    field = stored("x", Annotated[int, replace_value])

    assert (field.channel, field.has_reducer) == (AnyValue(), True)


class Chosen(NamedTuple):
    x: int


class Sharing(Protocol):
    def append(self, item: Any) -> None: ...


class Mine(list[int]):
    pass


@pytest.mark.parametrize(
    "hint",
    [int, str, bool, float, bytes, None, tuple, tuple[int, ...], frozenset[int], Colour, Chosen, Mine, Literal["a"]],
)
def test_some_types_rule_out_a_container(hint: Any) -> None:
    assert not may_hold_container(hint)
    assert not may_hold_container(Annotated[hint, "note"])
    assert not may_hold_container(typing.Union[int, hint])  # noqa: UP007  # some of them are no operands of |
    assert not may_hold_container(NewType("Other", hint))


@pytest.mark.parametrize(
    "hint",
    [Any, object, list, list[int], dict[str, int], set, Sequence[int], Mapping[str, int], Iterable[int], Sharing],
)
def test_a_type_that_does_not_say_may_be_a_container(hint: Any) -> None:
    assert may_hold_container(hint)
    assert may_hold_container(Annotated[hint, "note"])
    assert may_hold_container(typing.Union[int, hint])  # noqa: UP007  # some of them are no operands of |
    assert may_hold_container(NewType("Other", hint))


def test_what_is_no_class_may_be_anything() -> None:
    assert may_hold_container(TypeVar("T"))
    assert may_hold_container("a name that was not resolved")


def test_a_default_comes_before_the_types_own_first_value() -> None:
    field = stored("x", Annotated[int, max], Constant(7))
    assert (field.start, field.channel.start()) == (Constant(7), 7)


@pytest.mark.parametrize("value", [None, 0, ""])
def test_a_falsy_default_still_comes_first(value: Any) -> None:
    assert stored("x", Annotated[list[str], max], Constant(value)).channel.start() is value


def test_a_plain_field_has_a_default_and_its_channel_none() -> None:
    field = stored("x", int, Constant(7))
    assert field.start == Constant(7)
    assert field.channel.start() is MISSING


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (Annotated[list[str], append, max], "append and max"),
        (Annotated[list[str], Topic, Topic], "Topic and Topic"),
        (Annotated[Annotated[list[str], append], replace_value], "append and overwrite"),
        (Annotated[int, Topic(), max], "Topic"),
    ],
)
def test_two_reducers_are_refused_and_both_named(annotation: Any, said: str) -> None:
    with pytest.raises(InvalidSchema, match=rf"Field 'x' has two reducers, .*{said}.*Keep one"):
        read_field("x", annotation)


def test_a_reducer_with_too_few_parameters_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"'x'.*two positional parameters"):
        read_field("x", Annotated[int, lambda value: value])


@pytest.mark.parametrize("annotation", [IsLastStep, RemainingSteps, NotRequired[IsLastStep]])
def test_a_managed_annotation_is_no_field(annotation: Any) -> None:
    assert isinstance(read_field("x", annotation), Managed)

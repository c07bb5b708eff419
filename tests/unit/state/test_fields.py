"""Fields: the type, channel and default of an annotation."""

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
    """A class that can be called without arguments."""

    def __init__(self, count: int = 0) -> None:
        self.count = count


class Failing:
    """A class whose constructor raises an error."""

    def __init__(self) -> None:
        raise LookupError("not here")


def stored_field(name: str, annotation: Any, default: Any = None) -> Field:
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
def test_split_annotation_returns_the_type_and_the_metadata(
    annotation: Any, hint: Any, metadata: tuple[Any, ...]
) -> None:
    assert split_annotation(annotation) == (hint, metadata)


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (list, list),
        (list[str], list),
        (typing.List[str], list),  # noqa: UP006  # as in older code
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
def test_the_concrete_class_of_an_abstract_collection_is_the_builtin(hint: Any, kind: type) -> None:
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
def test_the_initial_value_is_an_empty_value_of_the_type(hint: Any, value: Any) -> None:
    make = initial_value_factory(hint)
    assert make is not None
    assert make() == value
    assert type(make()) is type(value)


def test_the_initial_value_of_a_class_is_a_new_instance() -> None:
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
def test_a_type_that_needs_arguments_has_no_initial_value(hint: Any) -> None:
    assert initial_value_factory(hint) is None


@pytest.mark.parametrize("value", [[1], {"a": [1]}, {1}])
def test_a_mutable_default_is_copied_each_time(value: Any) -> None:
    make = Constant(value)
    assert make() == value
    assert make() is not value
    assert make() is not make()


@pytest.mark.parametrize("value", [0, None, "", False])
def test_a_falsy_default_is_a_default(value: Any) -> None:
    assert Constant(value)() is value


def test_a_default_is_copied_deeply() -> None:
    value = {"a": [1]}
    Constant(value)()["a"].append(2)
    assert value == {"a": [1]}


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [(int, int), (Any, Any), (Annotated[int, "doc", 3], int), (NotRequired[list[str]], list[str]), (None, None)],
)
def test_a_field_without_a_reducer_keeps_the_last_value(annotation: Any, hint: Any) -> None:
    field = stored_field("x", annotation)
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
def test_an_annotated_reducer_sets_the_channel_of_a_field(annotation: Any, channel: Channel) -> None:
    field = stored_field("x", annotation)
    assert field.channel == channel
    assert field.start is None
    assert field.has_reducer


def test_the_reducer_overwrite_allows_several_writers() -> None:
    field = stored_field("x", Annotated[int, replace_value])

    assert (field.channel, field.has_reducer) == (AnyValue(), True)


class Point(NamedTuple):
    x: int


class Appendable(Protocol):
    def append(self, item: Any) -> None: ...


class IntList(list[int]):
    pass


@pytest.mark.parametrize(
    "hint",
    [int, str, bool, float, bytes, None, tuple, tuple[int, ...], frozenset[int], Colour, Point, IntList, Literal["a"]],
)
def test_scalars_and_immutable_types_cannot_hold_a_container(hint: Any) -> None:
    assert not may_hold_container(hint)
    assert not may_hold_container(Annotated[hint, "note"])
    assert not may_hold_container(typing.Union[int, hint])  # noqa: UP007  # some of them do not support |
    assert not may_hold_container(NewType("Other", hint))


@pytest.mark.parametrize(
    "hint",
    [Any, object, list, list[int], dict[str, int], set, Sequence[int], Mapping[str, int], Iterable[int], Appendable],
)
def test_collections_and_open_types_may_hold_a_container(hint: Any) -> None:
    assert may_hold_container(hint)
    assert may_hold_container(Annotated[hint, "note"])
    assert may_hold_container(typing.Union[int, hint])  # noqa: UP007  # some of them do not support |
    assert may_hold_container(NewType("Other", hint))


def test_type_variables_and_strings_may_hold_a_container() -> None:
    assert may_hold_container(TypeVar("T"))
    assert may_hold_container("Unresolved")


def test_a_default_wins_over_the_initial_value_of_the_type() -> None:
    field = stored_field("x", Annotated[int, max], Constant(7))
    assert (field.start, field.channel.start()) == (Constant(7), 7)


@pytest.mark.parametrize("value", [None, 0, ""])
def test_a_falsy_default_wins_over_the_initial_value_of_the_type(value: Any) -> None:
    assert stored_field("x", Annotated[list[str], max], Constant(value)).channel.start() is value


def test_the_default_of_a_plain_field_is_not_in_its_channel() -> None:
    field = stored_field("x", int, Constant(7))
    assert field.start == Constant(7)
    assert field.channel.start() is MISSING


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        (Annotated[list[str], append, max], "append and max"),
        (Annotated[list[str], Topic, Topic], "Topic and Topic"),
        (Annotated[Annotated[list[str], append], replace_value], "append and overwrite"),
        (Annotated[int, Topic(), max], "Topic"),
    ],
)
def test_two_reducers_of_a_field_are_refused_with_their_names(annotation: Any, names: str) -> None:
    with pytest.raises(InvalidSchema, match=rf"Field 'x' has two reducers, .*{names}.*Keep one"):
        read_field("x", annotation)


def test_a_reducer_with_too_few_parameters_is_refused() -> None:
    with pytest.raises(InvalidSchema, match=r"'x'.*two positional parameters"):
        read_field("x", Annotated[int, lambda value: value])


@pytest.mark.parametrize("annotation", [IsLastStep, RemainingSteps, NotRequired[IsLastStep]])
def test_a_managed_annotation_is_a_managed_value(annotation: Any) -> None:
    assert isinstance(read_field("x", annotation), Managed)

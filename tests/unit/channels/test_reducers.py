"""The reducers that have a name, and the channel that an annotation means."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest

from statewright.channels import (
    AnyValue,
    Append,
    AppendReducer,
    Barrier,
    Channel,
    Ephemeral,
    EphemeralReducer,
    Messages,
    OverwriteReducer,
    Reduced,
    Topic,
    add_messages,
    append,
    channel_for,
    is_reducer,
    overwrite,
)
from statewright.errors import InvalidSchema, InvalidUpdateError


class Adder:
    """A callable object."""

    def __call__(self, current: int, update: int) -> int:
        return current + update

    def method(self, current: int, update: int) -> int:
        return current + update

    @staticmethod
    def static(current: int, update: int) -> int:
        return current + update


class OneArgument:
    """A callable object that is no reducer."""

    def __call__(self, current: int) -> int:
        return current

    def __repr__(self) -> str:
        return "OneArgument()"


def weighted(current: int, update: int, weight: int = 1) -> int:
    return current + weight * update


def keyed(current: int, update: int, *, weight: int) -> int:
    return current + weight * update


def nothing() -> None:
    return None


@pytest.mark.parametrize(
    ("current", "update", "new"),
    [
        (["a"], "b", ["a", "b"]),
        (["a"], ["b", "c"], ["a", "b", "c"]),
        (["a"], ("b",), ["a", "b"]),
        (None, ["b"], ["b"]),
        (None, None, [None]),
        ([], [], []),
    ],
)
def test_append_can_be_called_by_hand(current: Any, update: Any, new: list[Any]) -> None:
    assert append(current, update) == new


def test_append_leaves_its_arguments_as_they_were() -> None:
    current, update = ["a"], ["b"]
    append(current, update).append("c")
    assert (current, update) == (["a"], ["b"])


def test_append_to_what_is_no_list_is_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="Only a list"):
        append("text", "more")


@pytest.mark.parametrize("update", [2, None, 0, []])
def test_overwrite_called_by_hand_is_the_update(update: Any) -> None:
    assert overwrite(1, update) is update


def test_each_reducer_has_a_second_name() -> None:
    assert (AppendReducer, OverwriteReducer, EphemeralReducer) == (append, overwrite, Ephemeral)


@pytest.mark.parametrize(
    "candidate",
    [
        append,
        overwrite,
        add_messages,
        max,
        operator.add,
        lambda old, new: new,
        functools.partial(weighted, weight=2),
        Adder(),
        Adder().method,
        Topic,
        Ephemeral,
        Channel,
        Topic(),
        Barrier({"a"}),
    ],
)
def test_channels_channel_classes_and_functions_are_reducers(candidate: object) -> None:
    assert is_reducer(candidate)


@pytest.mark.parametrize("candidate", [None, 3, "append", "", [], {}, (append,), int, list, object, Adder, True])
def test_other_classes_and_values_are_no_reducers(candidate: object) -> None:
    assert not is_reducer(candidate)


def numbers() -> list[int]:
    return [1]


@pytest.mark.parametrize(
    ("reducer", "is_list", "channel"),
    [
        (overwrite, True, AnyValue()),
        (overwrite, False, AnyValue()),
        (add_messages, True, Messages()),
        (add_messages, False, Messages()),
        (append, True, Append(start=numbers)),
        (append, False, Append()),
        (operator.add, True, Append(items=False, start=numbers)),
        (operator.add, False, Reduced(operator.add, start=numbers)),
        (operator.iadd, True, Reduced(operator.iadd, start=numbers)),
        (max, False, Reduced(max, start=numbers)),
        (weighted, False, Reduced(weighted, start=numbers)),
        (Adder.static, False, Reduced(Adder.static, start=numbers)),
        (Topic, True, Topic()),
        (Ephemeral, False, Ephemeral()),
        (AnyValue, False, AnyValue()),
    ],
)
def test_which_channel_a_reducer_means(reducer: object, is_list: bool, channel: Channel) -> None:
    assert channel_for(reducer, start=numbers, is_list=is_list, field="x") == channel


@pytest.mark.parametrize("channel", [Topic(accumulate=True), Reduced(max), Append(items=False), Ephemeral(guard=True)])
def test_a_channel_means_itself(channel: Channel) -> None:
    assert channel_for(channel, start=numbers, is_list=True, field="x") is channel


@pytest.mark.parametrize(
    "reducer",
    [
        lambda *both: both[-1],
        lambda old, new, third=None: new,
        lambda old, new, **more: new,
        Adder(),
        Adder().method,
        functools.partial(keyed, weight=2),
        functools.partial(lambda first, old, new: new, 1),
        max,
        dict.update,
    ],
)
def test_whatever_can_be_called_with_two_arguments_can_be_a_reducer(reducer: Callable[..., Any]) -> None:
    assert channel_for(reducer, start=None, is_list=False, field="x") == Reduced(reducer)


@pytest.mark.parametrize(
    ("reducer", "name"),
    [
        (nothing, "nothing"),
        (lambda old: old, "lambda"),
        (lambda old, new, third: new, "lambda"),
        (keyed, "keyed"),
        (OneArgument(), r"OneArgument\(\)"),
    ],
)
def test_a_reducer_that_cannot_take_two_arguments_is_refused_by_name(reducer: object, name: str) -> None:
    with pytest.raises(InvalidSchema, match=rf"Field 'total': the reducer .*{name}.*two positional parameters"):
        channel_for(reducer, start=None, is_list=False, field="total")


@pytest.mark.parametrize("kind", [Barrier, Reduced])
def test_a_channel_class_that_needs_arguments_is_refused(kind: type[Channel]) -> None:
    with pytest.raises(InvalidSchema, match=f"Field 'total': {kind.__name__} needs arguments"):
        channel_for(kind, start=None, is_list=False, field="total")


def test_a_channel_class_is_made_anew_for_each_field() -> None:
    one, other = (channel_for(Topic, start=None, is_list=True, field=name) for name in "ab")
    assert one is not other

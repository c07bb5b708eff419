"""The built-in reducers, and the channels of annotations."""

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
    """A callable object that is not a reducer."""

    def __call__(self, current: int) -> int:
        return current

    def __repr__(self) -> str:
        return "OneArgument()"


def weighted(current: int, update: int, weight: int = 1) -> int:
    return current + weight * update


def keyed(current: int, update: int, *, weight: int) -> int:
    return current + weight * update


def no_arguments() -> None:
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
def test_append_called_directly_returns_a_longer_list(current: Any, update: Any, new: list[Any]) -> None:
    assert append(current, update) == new


def test_append_does_not_change_its_arguments() -> None:
    current, update = ["a"], ["b"]
    append(current, update).append("c")
    assert (current, update) == (["a"], ["b"])


def test_appending_to_other_values_is_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="Only a list"):
        append("text", "more")


@pytest.mark.parametrize("update", [2, None, 0, []])
def test_overwrite_called_directly_returns_the_update(update: Any) -> None:
    assert overwrite(1, update) is update


def test_each_reducer_has_an_alias() -> None:
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
def test_other_classes_and_values_are_not_reducers(candidate: object) -> None:
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
def test_channel_for_a_reducer_returns_its_channel(reducer: object, is_list: bool, channel: Channel) -> None:
    assert channel_for(reducer, start=numbers, is_list=is_list, field="x") == channel


@pytest.mark.parametrize("channel", [Topic(accumulate=True), Reduced(max), Append(items=False), Ephemeral(guard=True)])
def test_channel_for_a_channel_returns_the_channel(channel: Channel) -> None:
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
def test_any_callable_with_two_arguments_can_be_a_reducer(reducer: Callable[..., Any]) -> None:
    assert channel_for(reducer, start=None, is_list=False, field="x") == Reduced(reducer)


@pytest.mark.parametrize(
    ("reducer", "name"),
    [
        (no_arguments, "no_arguments"),
        (lambda old: old, "lambda"),
        (lambda old, new, third: new, "lambda"),
        (keyed, "keyed"),
        (OneArgument(), r"OneArgument\(\)"),
    ],
)
def test_a_reducer_that_cannot_take_two_arguments_is_refused(reducer: object, name: str) -> None:
    with pytest.raises(InvalidSchema, match=rf"Field 'total': the reducer .*{name}.*two positional parameters"):
        channel_for(reducer, start=None, is_list=False, field="total")


@pytest.mark.parametrize("kind", [Barrier, Reduced])
def test_a_channel_class_that_needs_arguments_is_refused(kind: type[Channel]) -> None:
    with pytest.raises(InvalidSchema, match=f"Field 'total': {kind.__name__} needs arguments"):
        channel_for(kind, start=None, is_list=False, field="total")


def test_each_field_has_its_own_channel() -> None:
    first, second = (channel_for(Topic, start=None, is_list=True, field=name) for name in "ab")
    assert first is not second

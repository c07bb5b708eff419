"""Replaying deltas: the values equal the folded ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.work import examples

from statewright.channels import (
    MISSING,
    Added,
    Append,
    Channel,
    LastValue,
    Merged,
    Messages,
    Overwrite,
    Reduced,
    Topic,
    apply_change,
    difference,
)
from statewright.errors import InvalidUpdateError
from statewright.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage

ONE, TWO = Message("one", id="1"), Message("two", id="2")


@pytest.mark.parametrize(
    ("current", "change", "value"),
    [
        (["a"], Added(["b", "c"]), ["a", "b", "c"]),
        (["a"], Added(("b",)), ["a", "b"]),
        (["a"], Added([]), ["a"]),
        (MISSING, Added(["a"]), ["a"]),
        (MISSING, Added([]), []),
        ([ONE], Merged([TWO]), [ONE, TWO]),
        ([ONE, TWO], Merged([Message("ONE", id="1")]), [Message("ONE", id="1"), TWO]),
        ([ONE, TWO], Merged([RemoveMessage("1")]), [TWO]),
        ([ONE], Merged([RemoveMessage("1"), ONE]), [ONE]),
        ([ONE], Merged([RemoveMessage(REMOVE_ALL_MESSAGES), TWO]), [TWO]),
        (MISSING, Merged((ONE,)), [ONE]),
        ([ONE], Merged([]), [ONE]),
        (["a"], ["whole"], ["whole"]),
        (MISSING, 1, 1),
        (1, None, None),
        (["a"], [], []),
        (1, MISSING, MISSING),
        (MISSING, MISSING, MISSING),
    ],
)
def test_apply_change_returns_the_new_value(current: Any, change: Any, value: Any) -> None:
    assert apply_change(current, change) == value


@pytest.mark.parametrize("change", [Added([TWO]), Added([]), Merged([TWO]), Merged([RemoveMessage("1")])])
def test_apply_change_does_not_change_its_arguments(change: Any) -> None:
    current, items = [ONE], list(change.items)
    new = apply_change(current, change)
    new.append("later")
    assert (current, change.items) == ([ONE], items)


def test_removing_a_missing_message_is_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="There is no message '9' to remove"):
        apply_change([ONE], Merged([RemoveMessage("9")]))


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ([ONE], [ONE, TWO], Added([TWO])),
        ([ONE], [ONE], Added([])),
        ([], [ONE], Added([ONE])),
        ([ONE, TWO], [TWO], [TWO]),
        ([ONE, TWO], [ONE], [ONE]),
        ([ONE], [Message("one", id="1"), TWO], [ONE, TWO]),
        (MISSING, [ONE], [ONE]),
        ([ONE], MISSING, MISSING),
        ((ONE,), (ONE, TWO), (ONE, TWO)),
        ([ONE], (ONE,), (ONE,)),
        ("a", "ab", "ab"),
        (1, 2, 2),
    ],
)
def test_the_difference_is_the_added_items_or_the_new_value(before: Any, after: Any, change: Any) -> None:
    assert difference(before, after) == change


def test_changing_a_difference_does_not_change_the_list() -> None:
    after = [ONE, TWO]
    difference([ONE], after).items.append("later")
    assert after == [ONE, TWO]


# -- several supersteps


def replay(channel: Channel, supersteps: list[list[Any]]) -> list[tuple[Any, Any]]:
    """Return the folded value and the value replayed from its deltas, after each superstep."""
    folded: Any = channel.start()
    replayed = folded
    values: list[tuple[Any, Any]] = []
    for updates in supersteps:
        folded = channel.apply(folded, updates)
        replayed = apply_change(replayed, channel.delta(updates, folded))
        values.append((folded, replayed))
    return values


ITEMS = st.one_of(
    st.integers(),
    st.text(max_size=2),
    st.none(),
    st.tuples(st.integers()),
    st.dictionaries(st.text(), st.none(), max_size=1),
)
LISTS = st.lists(ITEMS, max_size=3)


def supersteps_of(update: st.SearchStrategy[Any], overwrite: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return updates of several supersteps, some of them with an Overwrite."""
    plain = st.lists(update, min_size=1, max_size=3)
    replacing = st.tuples(plain, overwrite.map(Overwrite)).map(lambda both: [*both[0], both[1]])
    return st.lists(st.one_of(plain, plain, replacing), max_size=8)


@settings(max_examples=examples(100), derandomize=True, deadline=None)
@pytest.mark.parametrize(
    "channel",
    [
        Append(),
        Append(start=lambda: ["first"]),
        Topic(accumulate=True),
        Topic(),
        LastValue(),
        Reduced(lambda old, new: [old, new]),
    ],
    ids=["append", "append to a start value", "accumulating topic", "topic", "last value", "reduced"],
)
@given(supersteps=supersteps_of(st.one_of(ITEMS, LISTS), LISTS))
def test_replaying_deltas_restores_every_value(channel: Channel, supersteps: list[list[Any]]) -> None:
    applicable = [updates[-1:] for updates in supersteps] if channel.single else supersteps
    assert all(folded == replayed for folded, replayed in replay(channel, applicable))


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Any]]:
    """Draw updates of several supersteps to one conversation: new messages, given ids, replacements and removals."""
    channel, messages = Messages(), list[Message]()
    supersteps: list[list[Any]] = []
    for step in range(draw(st.integers(0, 8))):
        updates: list[Any] = []
        for index in range(draw(st.integers(1, 3))):
            update = draw(conversation_updates([message.id for message in channel.apply(messages, updates)]))
            updates.append(channel.prepare(update, f"{step}-{index}"))
        if draw(st.integers(0, 5)) == 0:
            updates.append(channel.prepare(Overwrite([*draw(st.lists(st.text(max_size=1), max_size=2))]), f"{step}-o"))
        supersteps.append(updates)
        messages = channel.apply(messages, updates)
    return supersteps


def conversation_updates(ids: list[str | None]) -> st.SearchStrategy[list[Any]]:
    with_id = st.builds(
        lambda text, message_id: Message(text, id=message_id), st.text(max_size=2), st.sampled_from("abc")
    )
    new = st.text(max_size=2).map(Message)
    kinds = [st.lists(new, max_size=3), st.lists(with_id, max_size=3), st.lists(st.one_of(new, with_id), max_size=3)]
    if ids:
        chosen = st.sampled_from(ids)
        replacement = st.builds(lambda text, message_id: Message(text, id=message_id), st.text(max_size=2), chosen)
        removal = st.lists(chosen.map(lambda message_id: RemoveMessage(str(message_id))), min_size=1, max_size=1)
        emptied = st.lists(new, max_size=2).map(lambda some: [RemoveMessage(REMOVE_ALL_MESSAGES), *some])
        kinds += [
            st.lists(replacement, max_size=2),
            removal,
            emptied,
            st.tuples(removal, replacement).map(lambda both: [*both[0], both[1]]),
        ]
    return st.one_of(kinds)


@settings(max_examples=examples(200), derandomize=True, deadline=None)
@given(conversations())
def test_replaying_deltas_restores_a_conversation(supersteps: list[list[Any]]) -> None:
    values = replay(Messages(), supersteps)
    assert [replayed for _, replayed in values] == [folded for folded, _ in values]


@settings(max_examples=examples(100), derandomize=True, deadline=None)
@given(conversations(), st.integers(0, 8), st.integers(0, 8))
def test_applying_the_difference_of_two_states_of_a_conversation_returns_the_second(
    supersteps: list[list[Any]], first: int, second: int
) -> None:
    values = [[], *(folded for folded, _ in replay(Messages(), supersteps))]
    before, after = values[first % len(values)], values[second % len(values)]
    assert apply_change(before, difference(before, after)) == after


@settings(max_examples=examples(200), derandomize=True, deadline=None)
@given(st.one_of(LISTS, ITEMS, st.just(MISSING)), st.one_of(LISTS, ITEMS, st.just(MISSING)), st.booleans())
def test_applying_the_difference_of_two_values_returns_the_second(before: Any, after: Any, grows: bool) -> None:
    if grows and isinstance(before, list) and isinstance(after, list):
        after = [*before, *after]
        assert isinstance(difference(before, after), Added)
    value = apply_change(before, difference(before, after))
    assert value == after
    assert type(value) is type(after)

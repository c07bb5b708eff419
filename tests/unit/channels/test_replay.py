"""Values made again from their changes: the same as those that were folded."""

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
def test_a_change_leads_from_the_current_value_to_the_new_one(current: Any, change: Any, value: Any) -> None:
    assert apply_change(current, change) == value


@pytest.mark.parametrize("change", [Added([TWO]), Added([]), Merged([TWO]), Merged([RemoveMessage("1")])])
def test_neither_the_current_value_nor_the_change_is_changed_in_place(change: Any) -> None:
    current, items = [ONE], list(change.items)
    new = apply_change(current, change)
    new.append("later")
    assert (current, change.items) == ([ONE], items)


def test_a_removal_of_what_is_not_there_is_refused() -> None:
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
def test_the_difference_is_what_was_added_if_nothing_else_has_changed(before: Any, after: Any, change: Any) -> None:
    assert difference(before, after) == change


def test_a_difference_does_not_hold_the_list_itself_when_it_has_grown() -> None:
    after = [ONE, TWO]
    difference([ONE], after).items.append("later")
    assert after == [ONE, TWO]


# -- over any number of supersteps


def replayed(channel: Channel, supersteps: list[list[Any]]) -> list[tuple[Any, Any]]:
    """After each superstep: the value as it was folded, and as its change gives it from the value that was read."""
    folded: Any = channel.start()
    read = folded
    values: list[tuple[Any, Any]] = []
    for updates in supersteps:
        folded = channel.apply(folded, updates)
        read = apply_change(read, channel.delta(updates, folded))
        values.append((folded, read))
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
    """Updates of many supersteps, of which some have an Overwrite among them."""
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
    ids=["append", "append to a start", "topic for good", "topic", "last value", "reduced"],
)
@given(supersteps=supersteps_of(st.one_of(ITEMS, LISTS), LISTS))
def test_what_is_stored_of_changes_gives_the_values_again(channel: Channel, supersteps: list[list[Any]]) -> None:
    given_updates = [updates[-1:] for updates in supersteps] if channel.single else supersteps
    assert all(folded == read for folded, read in replayed(channel, given_updates))


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Any]]:
    """Updates of many supersteps to one conversation: new messages, foreign ids, replacements and removals."""
    channel, known = Messages(), list[Message]()
    supersteps: list[list[Any]] = []
    for step in range(draw(st.integers(0, 8))):
        updates: list[Any] = []
        for place in range(draw(st.integers(1, 3))):
            update = draw(conversation_updates([one.id for one in channel.apply(known, updates)]))
            updates.append(channel.prepare(update, f"{step}-{place}"))
        if draw(st.integers(0, 5)) == 0:
            updates.append(channel.prepare(Overwrite([*draw(st.lists(st.text(max_size=1), max_size=2))]), f"{step}-o"))
        supersteps.append(updates)
        known = channel.apply(known, updates)
    return supersteps


def conversation_updates(ids: list[str | None]) -> st.SearchStrategy[list[Any]]:
    foreign = st.builds(lambda text, identity: Message(text, id=identity), st.text(max_size=2), st.sampled_from("abc"))
    new = st.text(max_size=2).map(Message)
    kinds = [st.lists(new, max_size=3), st.lists(foreign, max_size=3), st.lists(st.one_of(new, foreign), max_size=3)]
    if ids:
        chosen = st.sampled_from(ids)
        again = st.builds(lambda text, identity: Message(text, id=identity), st.text(max_size=2), chosen)
        removal = st.lists(chosen.map(lambda identity: RemoveMessage(str(identity))), min_size=1, max_size=1)
        emptied = st.lists(new, max_size=2).map(lambda some: [RemoveMessage(REMOVE_ALL_MESSAGES), *some])
        kinds += [
            st.lists(again, max_size=2),
            removal,
            emptied,
            st.tuples(removal, again).map(lambda both: [*both[0], both[1]]),
        ]
    return st.one_of(kinds)


@settings(max_examples=examples(200), derandomize=True, deadline=None)
@given(conversations())
def test_what_is_stored_of_a_conversation_gives_it_again(supersteps: list[list[Any]]) -> None:
    values = replayed(Messages(), supersteps)
    assert [read for _, read in values] == [folded for folded, _ in values]


@settings(max_examples=examples(100), derandomize=True, deadline=None)
@given(conversations(), st.integers(0, 8), st.integers(0, 8))
def test_a_difference_leads_from_any_value_to_any_later_or_earlier_one(
    supersteps: list[list[Any]], one: int, other: int
) -> None:
    values = [[], *(folded for folded, _ in replayed(Messages(), supersteps))]
    before, after = values[one % len(values)], values[other % len(values)]
    assert apply_change(before, difference(before, after)) == after


@settings(max_examples=examples(200), derandomize=True, deadline=None)
@given(st.one_of(LISTS, ITEMS, st.just(MISSING)), st.one_of(LISTS, ITEMS, st.just(MISSING)), st.booleans())
def test_a_difference_leads_from_any_value_to_any_other(before: Any, after: Any, grows: bool) -> None:
    if grows and isinstance(before, list) and isinstance(after, list):
        after = [*before, *after]
        assert isinstance(difference(before, after), Added)
    value = apply_change(before, difference(before, after))
    assert value == after
    assert type(value) is type(after)

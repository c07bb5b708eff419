"""Conversations: appended, replaced by id, removed, and never at each other's cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.work import examples

from statewright.channels import MISSING, Added, Merged, Messages, Overwrite, add_messages
from statewright.errors import InvalidUpdateError
from statewright.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]


def test_a_known_id_is_replaced_in_place_and_others_are_appended() -> None:
    start = add_messages([], [Message("one", id="1"), Message("two", id="2")])
    after = add_messages(start, [Message("ONE", id="1"), Message("three", id="3")])
    assert texts(after) == ["ONE", "two", "three"]
    assert texts(start) == ["one", "two"]


def test_duplicates_within_one_update_collapse_to_the_last() -> None:
    assert texts(add_messages([], [Message("a", id="1"), Message("b", id="1")])) == ["b"]


def test_messages_without_an_id_are_always_appended_and_get_one() -> None:
    twice = add_messages(add_messages([], "hi"), "hi")
    assert texts(twice) == ["hi", "hi"]
    assert len({message.id for message in twice}) == 2


def test_messages_are_removed_by_id_or_all_that_stand_before() -> None:
    start = add_messages([], [Message("a", id="1"), Message("b", id="2")])
    assert texts(add_messages(start, RemoveMessage("1"))) == ["b"]
    assert texts(add_messages(start, [RemoveMessage(REMOVE_ALL_MESSAGES), Message("new", id="9")])) == ["new"]
    with pytest.raises(InvalidUpdateError, match="There is no message 'x' to remove"):
        add_messages(start, RemoveMessage("x"))


def test_ids_given_in_a_run_depend_on_the_task_alone() -> None:
    channel = Messages()
    batches = [channel.prepare(["a", "b"], "task") for _ in range(2)]
    assert batches[0] == batches[1]
    assert [one.id for one in batches[0].items] == ["task-0", "task-1"]


def test_a_callers_own_message_is_not_changed() -> None:
    own = Message("mine")
    Messages().prepare(own, "task")
    assert own.id is None


def test_an_overwrite_replaces_the_conversation() -> None:
    channel = Messages()
    start = channel.apply(MISSING, [channel.prepare(["a"], "t1")])
    assert texts(channel.apply(start, [channel.prepare(Overwrite(["b"]), "t2")])) == ["b"]


@pytest.mark.parametrize(
    ("updates", "stored"),
    [
        ([["a"], "b"], Added([Message("a", id="t0-0"), Message("b", id="t1-0")])),
        ([[]], Added([])),
        ([[Message("a", id="1")]], Merged([Message("a", id="1")])),
        ([["a"], [RemoveMessage("t0-0")]], Merged([Message("a", id="t0-0"), RemoveMessage("t0-0")])),
        ([["a"], Overwrite(["z"])], ["whole"]),
    ],
)
def test_what_came_is_all_that_has_to_be_stored(updates: list[Any], stored: Any) -> None:
    channel = Messages()
    prepared = [channel.prepare(update, f"t{place}") for place, update in enumerate(updates)]
    assert channel.delta(prepared, ["whole"]) == stored


def test_two_lines_from_one_list_do_not_disturb_each_other() -> None:
    base = add_messages([], [Message("a", id="1")])
    left = add_messages(base, [Message("left", id="2")])
    right = add_messages(base, [Message("x", id="3"), Message("right", id="2")])
    assert texts(add_messages(left, Message("LEFT", id="2"))) == ["a", "LEFT"]
    assert texts(add_messages(right, Message("RIGHT", id="2"))) == ["a", "x", "RIGHT"]


def model(messages: list[Message], update: list[Message]) -> list[Message]:
    """What merging means, written as plainly as can be."""
    merged = list(messages)
    for message in update:
        places = [place for place, known in enumerate(merged) if known.id == message.id]
        if places:
            merged[places[0]] = message
        else:
            merged.append(message)
    return merged


@settings(max_examples=examples(150), derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.tuples(st.sampled_from("abcde"), st.text(max_size=2)), max_size=3)),
        max_size=12,
    )
)
def test_merging_equals_the_plain_model_on_every_line(steps: list[tuple[int, list[tuple[str, str]]]]) -> None:
    """Updates go to any of the lists that there have been so far, so that lines fork at random."""
    channel = Messages()
    lists: list[list[Message]] = [channel.start()]
    models: list[list[Message]] = [[]]
    for back, entries in steps:
        at = max(0, len(lists) - 1 - back)
        update = [Message(text, id=identity) for identity, text in entries]
        lists.append(channel.apply(lists[at], [channel.prepare(update, "t")]))
        models.append(model(models[at], update))
    assert lists == models

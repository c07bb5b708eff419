"""`Messages`: messages are appended, replaced by id and removed."""

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


def test_the_last_message_with_an_id_in_an_update_wins() -> None:
    assert texts(add_messages([], [Message("a", id="1"), Message("b", id="1")])) == ["b"]


def test_messages_without_an_id_are_appended_with_new_ids() -> None:
    twice = add_messages(add_messages([], "hi"), "hi")
    assert texts(twice) == ["hi", "hi"]
    assert len({message.id for message in twice}) == 2


def test_messages_are_removed_by_id_or_all_at_once() -> None:
    start = add_messages([], [Message("a", id="1"), Message("b", id="2")])
    assert texts(add_messages(start, RemoveMessage("1"))) == ["b"]
    assert texts(add_messages(start, [RemoveMessage(REMOVE_ALL_MESSAGES), Message("new", id="9")])) == ["new"]
    with pytest.raises(InvalidUpdateError, match="There is no message 'x' to remove"):
        add_messages(start, RemoveMessage("x"))


def test_ids_of_prepared_messages_depend_on_the_task_only() -> None:
    channel = Messages()
    batches = [channel.prepare(["a", "b"], "task") for _ in range(2)]
    assert batches[0] == batches[1]
    assert [message.id for message in batches[0].items] == ["task-0", "task-1"]


def test_preparing_does_not_change_the_callers_message() -> None:
    message = Message("mine")
    Messages().prepare(message, "task")
    assert message.id is None


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
def test_the_delta_is_the_new_messages_or_the_overwrite(updates: list[Any], stored: Any) -> None:
    channel = Messages()
    prepared = [channel.prepare(update, f"t{index}") for index, update in enumerate(updates)]
    assert channel.delta(prepared, ["whole"]) == stored


def test_two_branches_of_a_conversation_are_independent() -> None:
    base = add_messages([], [Message("a", id="1")])
    left = add_messages(base, [Message("left", id="2")])
    right = add_messages(base, [Message("x", id="3"), Message("right", id="2")])
    assert texts(add_messages(left, Message("LEFT", id="2"))) == ["a", "LEFT"]
    assert texts(add_messages(right, Message("RIGHT", id="2"))) == ["a", "x", "RIGHT"]


def model(messages: list[Message], update: list[Message]) -> list[Message]:
    """Merge messages in the simplest way."""
    merged = list(messages)
    for message in update:
        indexes = [index for index, existing in enumerate(merged) if existing.id == message.id]
        if indexes:
            merged[indexes[0]] = message
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
def test_merging_equals_the_model_on_every_branch(steps: list[tuple[int, list[tuple[str, str]]]]) -> None:
    """Each update is applied to one of the previous lists, so that conversations fork at random."""
    channel = Messages()
    lists: list[list[Message]] = [channel.start()]
    models: list[list[Message]] = [[]]
    for back, entries in steps:
        at = max(0, len(lists) - 1 - back)
        update = [Message(text, id=message_id) for message_id, text in entries]
        lists.append(channel.apply(lists[at], [channel.prepare(update, "t")]))
        models.append(model(models[at], update))
    assert lists == models

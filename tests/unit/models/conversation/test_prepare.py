"""Preparation of conversations so that every provider accepts them."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.conversations import random_conversation

from statewright.errors import ModelError
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, check_request, prepare_request, repair_tool_rounds, with_own_call_ids
from statewright.models.conversation.prepare import starting_with_user


def assistant_calls(*ids: str, text: str = "") -> Message:
    return Message(text, role="assistant", tool_calls=tuple(ToolCall(call_id, "look") for call_id in ids))


def result(call_id: str, text: str = "seen") -> Message:
    return Message(text, role="tool", name="look", tool_call_id=call_id)


def assistant_text(text: str) -> Message:
    return Message(text, role="assistant")


def summarize(messages: Sequence[Message]) -> list[Any]:
    return [(message.role, message.tool_call_id or message.text) for message in messages]


USER = Message("Hi.")


# -- tool rounds


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [USER],
        [USER, assistant_calls("a"), result("a"), assistant_text("done")],
        [USER, assistant_calls("a", "b"), result("a"), result("b"), assistant_calls("c"), result("c")],
        [USER, assistant_calls("a"), result("a"), assistant_calls("a"), result("a")],
    ],
)
def test_complete_tool_rounds_are_returned_unchanged(messages: list[Message]) -> None:
    assert repair_tool_rounds(messages) is messages


def test_results_are_sorted_into_the_order_of_the_calls() -> None:
    messages = [USER, assistant_calls("a", "b", "c"), result("c"), result("a"), result("b"), assistant_text("end")]
    repaired = repair_tool_rounds(messages)
    assert [message.tool_call_id for message in repaired] == [None, None, "a", "b", "c", None]


def test_a_late_result_is_moved_to_its_call() -> None:
    """For example, the user wrote while an approval was pending."""
    repaired = repair_tool_rounds([USER, assistant_calls("a"), Message("Hurry."), result("a")])
    assert summarize(repaired) == [("user", "Hi."), ("assistant", ""), ("tool", "a"), ("user", "Hurry.")]


def test_a_call_without_a_result_gets_an_error_result() -> None:
    repaired = repair_tool_rounds([USER, assistant_calls("a", "b"), result("a"), Message("next"), assistant_calls("c")])
    assert summarize(repaired)[2:5] == [("tool", "a"), ("tool", "b"), ("user", "next")]
    for message in (repaired[3], repaired[6]):
        assert (message.text, message.metadata) == ("Error: this call was not made.", {"status": "error"})
        assert message.name == "look"


def test_a_repeated_call_id_needs_a_result_for_each_call() -> None:
    """Some servers restart their numbering with each answer; the messages may be the same object."""
    again = assistant_calls("1")
    repaired = repair_tool_rounds([USER, again, result("1"), again, Message("go on")])
    assert [message.role for message in repaired] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "user",
    ]
    assert (repaired[2].text, repaired[4].text) == ("seen", "Error: this call was not made.")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([USER, result("x"), assistant_text("y")], "no earlier call has the id 'x'"),
        (
            [USER, assistant_calls("a"), result("a"), result("a", "again"), assistant_text("y")],
            "the call 'a' already has a result",
        ),
        ([USER, Message("nothing", role="tool")], "no earlier call has the id ''"),
    ],
)
def test_a_result_without_an_open_call_is_dropped_with_a_warning(
    messages: list[Message], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "statewright.agents"):
        repaired = repair_tool_rounds(messages)
    assert "again" not in [message.text for message in repaired]
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().endswith(f"is not sent: {reason}.")


# -- messages


def prepare(*messages: Message, **options: Any) -> list[Any]:
    request = prepare_request(ModelRequest(messages, **options))
    check_request(request)
    return summarize(request.messages)


def test_a_valid_request_is_returned_unchanged() -> None:
    request = ModelRequest((USER, assistant_calls("a"), result("a")), system="Be brief.")
    assert prepare_request(request) is request


def test_a_user_message_is_appended_after_a_final_assistant_message() -> None:
    (last_role, last_text) = prepare(USER, assistant_text("a draft"))[-1]
    assert last_role == "user"
    assert "your turn" in last_text


def test_an_answer_to_continue_remains_the_last_message() -> None:
    assert prepare(USER, assistant_text("{"), continue_last=True) == [("user", "Hi."), ("assistant", "{")]


def test_a_user_message_is_prepended_before_an_assistant_message() -> None:
    opened = starting_with_user([Message("Be kind.", role="system"), assistant_text("Welcome!"), USER])
    assert [message.role for message in opened] == ["user", "system", "assistant", "user"]
    same = [USER, assistant_text("x")]
    assert starting_with_user(same) is same
    assert starting_with_user([]) == []


def test_an_empty_conversation_gets_a_user_message() -> None:
    assert [role for role, _ in prepare()] == ["user"]
    assert [role for role, _ in prepare(Message(""), Message(" \n"))] == ["user"]


def test_empty_messages_are_not_sent() -> None:
    sent = prepare(USER, assistant_text(" "), Message("", role="assistant"), Message("Well?"), Message([]))
    assert sent == [("user", "Hi."), ("user", "Well?")]


def test_blank_text_before_a_call_is_not_sent() -> None:
    assert prepare(USER, assistant_calls("a", text="\n\n"), result("a")) == [
        ("user", "Hi."),
        ("assistant", ""),
        ("tool", "a"),
    ]


def test_an_empty_tool_result_is_sent() -> None:
    assert prepare(USER, assistant_calls("a"), result("a", ""))[-1] == ("tool", "a")


def test_text_that_cannot_be_encoded_is_replaced() -> None:
    broken = Message("half \ud83d of it")
    paired = Message("both \ud83d\ude00")
    called = Message("", role="assistant", tool_calls=(ToolCall("a", "look", {"at": ["\udc00"]}),))
    request = prepare_request(ModelRequest((broken, paired, called, result("a", "\ud83d")), system="\ud83d"))
    check_request(request)
    assert [message.text for message in request.messages] == ["half \ufffd of it", "both \U0001f600", "", "\ufffd"]
    assert request.messages[2].tool_calls[0].arguments == {"at": ["\ufffd"]}
    assert request.system == "\ufffd"
    assert broken.text == "half \ud83d of it"


# -- rejected conversations


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "its conversation is empty"),
        ([USER, assistant_text("a draft")], "ends with the assistant"),
        ([USER, assistant_calls("a")], "ends with calls without a result: a"),
        ([USER, assistant_calls("a"), USER], "message 2 (user) follows calls without a result: a"),
        ([USER, result("a")], "message 1 (tool) answers the call 'a', which is not open"),
        ([USER, assistant_calls("a"), result("a"), result("a")], "message 3 (tool) answers the call 'a'"),
        ([USER, assistant_calls("a", "a"), result("a")], "a call with the id 'a', which another call has"),
        (
            [USER, assistant_calls("a"), result("a"), assistant_calls("a"), result("a")],
            "a call with the id 'a', which another call has",
        ),
        ([USER, assistant_calls(""), result("")], "a call with the id '': ids have 1 to 40"),
        ([USER, assistant_calls("a" * 41), result("a" * 41)], "ids have 1 to 40"),
        ([USER, assistant_calls("a:0"), result("a:0")], "ids have 1 to 40"),
        (
            [USER, Message("", role="assistant", tool_calls=(ToolCall("a", "look it up!"),)), result("a")],
            "calls a tool",
        ),
        ([Message("be kind", role="system")], "its conversation is empty"),
        ([Message(" ")], "message 0 (user) has no text"),
        ([Message([{"type": "text", "text": "a"}, {"type": "text", "text": ""}])], "or a part without"),
        ([Message("\ud83d")], "message 0 (user) has text that cannot be encoded"),
    ],
)
def test_conversations_that_providers_reject_are_rejected(messages: list[Message], problem: str) -> None:
    with pytest.raises(ModelError) as caught:
        check_request(ModelRequest(messages))
    assert problem in str(caught.value)


def test_every_conversation_can_be_sent_after_preparation(caplog: pytest.LogCaptureFixture) -> None:
    draw = random.Random(16)
    for _ in range(3000):
        messages = random_conversation(draw)
        request = prepare_request(ModelRequest(messages))
        check_request(request)
        assert prepare_request(request) is request, messages
        texts = [message.text for message in messages if message.role == "user" and message.text == "text"]
        assert [
            message.text for message in request.messages if message.text == "text" and message.role == "user"
        ] == texts


# -- call ids


def test_duplicate_and_empty_call_ids_are_replaced() -> None:
    before = [USER, assistant_calls("call", "x"), result("call"), result("x")]
    answer = with_own_call_ids(assistant_calls("call", "call", "", "y"), before)
    ids = [call.id for call in answer.tool_calls]
    assert ids == ["call-2", "call-3", "call-4", "y"]
    same = assistant_calls("z")
    assert with_own_call_ids(same, before) is same
    assert with_own_call_ids(assistant_text("x"), before).tool_calls == ()

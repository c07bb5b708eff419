"""Turns on a thread, and its status before and after them."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator

import pytest

from statewright import START, InMemorySaver, MessagesState, StateGraph, interrupt
from statewright.cli.chat.display import Display
from statewright.cli.chat.input import LineReader, QuestionPrompt, SlashCommand
from statewright.cli.chat.target import ChatTarget
from statewright.cli.chat.turn import NEW_THREAD, TurnRunner, is_same_answer


def reply(state: MessagesState) -> dict[str, object]:
    text = state["messages"][-1].text
    if text == "fail":
        raise ValueError("no luck")
    if text == "ask":
        text = interrupt("which?")
    if text == "count":
        text = str([interrupt(f"number {number}?", schema=int) for number in range(400)][-1])
    return {"messages": [("assistant", f"You said {text}")]}


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[TurnRunner]:
    """Turns of a user who answers the first question with `that`, and then leaves."""
    monkeypatch.setattr("sys.stdin", io.StringIO("that\n"))
    graph = StateGraph(MessagesState).add_node("reply", reply).add_edge(START, "reply")
    subject, display = ChatTarget(graph.compile(InMemorySaver())), Display(quiet=True)
    with asyncio.Runner() as loop:
        yield TurnRunner(subject, "t", display, QuestionPrompt(LineReader(), display), loop)


def test_the_status_of_a_new_thread(turns: TurnRunner) -> None:
    assert turns.thread_status() == NEW_THREAD
    assert not NEW_THREAD.is_waiting
    assert not NEW_THREAD.is_unfinished
    assert turns.past_messages() == []


def test_a_turn_ends_when_the_run_is_completed(turns: TurnRunner) -> None:
    assert turns.say("hello") == "done"
    assert turns.thread_status().status == "completed"
    assert turns.past_messages() == [("you", "hello"), ("assistant", "You said hello")]


def test_questions_are_answered_within_a_turn(turns: TurnRunner, capsys: pytest.CaptureFixture[str]) -> None:
    assert turns.say("ask") == "done"
    assert capsys.readouterr().out == "You said that\n"


def test_a_question_is_repeated_after_an_answer_of_the_wrong_type(
    turns: TurnRunner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even four hundred questions are one turn."""
    monkeypatch.setattr("sys.stdin", io.StringIO("many\n" + "".join(f"{number}\n" for number in range(400))))
    assert turns.say("count") == "done"
    output = capsys.readouterr()
    assert output.out == "You said 399\n"
    assert output.err.count("? number 0?") == 2
    assert output.err.count("Error: ") == 1


def test_an_unanswered_question_stays_open(turns: TurnRunner) -> None:
    turns.say("ask")
    assert turns.say("ask") == "waiting"
    assert turns.pending_command == SlashCommand("exit")
    assert turns.thread_status().is_waiting
    assert [question.value for question in turns.thread_status().interrupts] == ["which?"]


def test_a_message_discards_an_open_question(turns: TurnRunner) -> None:
    turns.say("ask")
    turns.say("ask")
    assert turns.say("hello") == "done"
    assert turns.pending_command is None


def test_a_failed_turn_can_be_resumed(turns: TurnRunner, capsys: pytest.CaptureFixture[str]) -> None:
    assert turns.say("fail") == "failed"
    assert turns.thread_status().is_unfinished
    assert turns.resume() == "failed"
    lines = capsys.readouterr().err.splitlines()
    assert lines[::2] == ["Error: ValueError: no luck (in node 'reply', step 1, attempt 1)"] * 2
    assert all(re.fullmatch(r"  at \S*test_turn\.py:\d+ in reply", line) for line in lines[1::2])


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("a", " a\n", True),
        ('{"a": 1, "b": [2]}', '{\n "b": [2], "a": 1}', True),
        ("a", "b", False),
        ("", "a", False),
        ('{"a": 1}', '{"a": 2}', False),
    ],
)
def test_equal_answers_are_recognized(first: str, second: str, is_same: bool) -> None:
    assert is_same_answer(first, second) is is_same

"""Turns on a thread: where it stands before and after them."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator

import pytest

from statewright import START, InMemorySaver, MessagesState, StateGraph, interrupt
from statewright.cli.chat.display import Display
from statewright.cli.chat.input import Lines, QuestionPrompt, SlashCommand
from statewright.cli.chat.subject import ChatTarget
from statewright.cli.chat.turn import NEW_THREAD, Turns, is_same_answer


def reply(state: MessagesState) -> dict[str, object]:
    said = state["messages"][-1].text
    if said == "fail":
        raise ValueError("no luck")
    if said == "ask":
        said = interrupt("which?")
    if said == "count":
        said = str([interrupt(f"number {number}?", schema=int) for number in range(400)][-1])
    return {"messages": [("assistant", f"You said {said}")]}


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    """Turns of somebody who answers each question with the word `that`, then leaves."""
    monkeypatch.setattr("sys.stdin", io.StringIO("that\n"))
    graph = StateGraph(MessagesState).add_node("reply", reply).add_edge(START, "reply")
    subject, display = ChatTarget(graph.compile(InMemorySaver())), Display(quiet=True)
    with asyncio.Runner() as loop:
        yield Turns(subject, "t", display, QuestionPrompt(Lines(), display), loop)


def test_a_thread_that_does_not_exist_stands_nowhere(turns: Turns) -> None:
    assert turns.thread_status() == NEW_THREAD
    assert not NEW_THREAD.waits
    assert not NEW_THREAD.is_unfinished
    assert turns.past_messages() == []


def test_a_turn_ends_where_nothing_is_left_to_do(turns: Turns) -> None:
    assert turns.say("hello") == "done"
    assert turns.thread_status().status == "completed"
    assert turns.past_messages() == [("you", "hello"), ("assistant", "You said hello")]


def test_questions_are_answered_on_the_way(turns: Turns, capsys: pytest.CaptureFixture[str]) -> None:
    assert turns.say("ask") == "done"
    assert capsys.readouterr().out == "You said that\n"


def test_an_answer_of_the_wrong_type_is_asked_for_again(
    turns: Turns, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four hundred questions are one turn, too."""
    monkeypatch.setattr("sys.stdin", io.StringIO("many\n" + "".join(f"{number}\n" for number in range(400))))
    assert turns.say("count") == "done"
    said = capsys.readouterr()
    assert said.out == "You said 399\n"
    assert said.err.count("? number 0?") == 2
    assert said.err.count("Error: ") == 1


def test_a_question_that_is_not_answered_stays_open(turns: Turns) -> None:
    turns.say("ask")
    assert turns.say("ask") == "waiting"
    assert turns.pending_command == SlashCommand("exit")
    assert turns.thread_status().waits
    assert [question.value for question in turns.thread_status().questions] == ["which?"]


def test_what_is_said_at_an_open_question_begins_anew(turns: Turns) -> None:
    turns.say("ask")
    turns.say("ask")
    assert turns.say("hello") == "done"
    assert turns.pending_command is None


def test_a_failed_turn_can_be_gone_on_with(turns: Turns, capsys: pytest.CaptureFixture[str]) -> None:
    assert turns.say("fail") == "failed"
    assert turns.thread_status().is_unfinished
    assert turns.resume() == "failed"
    lines = capsys.readouterr().err.splitlines()
    assert lines[::2] == ["Error: ValueError: no luck (in node 'reply', step 1, attempt 1)"] * 2
    assert all(re.fullmatch(r"  at \S*test_turn\.py:\d+ in reply", line) for line in lines[1::2])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a", " a\n", True),
        ('{"a": 1, "b": [2]}', '{\n "b": [2], "a": 1}', True),
        ("a", "b", False),
        ("", "a", False),
        ('{"a": 1}', '{"a": 2}', False),
    ],
)
def test_an_answer_is_shown_once(one: str, other: str, same: bool) -> None:
    assert is_same_answer(one, other) is same

"""In which order it is shown what comes in pieces."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.cli.chat.pieces import OutputPiece, OutputSequencer
from statewright.messages import Message, ToolCall
from statewright.models import MessageChunk, ToolCallDelta, Usage

ORIGIN = {"node": "model"}


def said(text: str, message_id: str = "t-0", **more: Any) -> tuple[str, Any]:
    return "messages", (MessageChunk(text, id=message_id, name="bot", **more), ORIGIN)


def called(*deltas: ToolCallDelta, message_id: str = "t-0") -> tuple[str, Any]:
    return said("", message_id, tool_call_chunks=deltas)


def over(task: str) -> tuple[str, Any]:
    return "tasks", {"id": task, "name": "model", "error": None, "interrupts": [], "result": {}}


def shown(*parts: tuple[str, Any], pieces: OutputSequencer | None = None) -> list[tuple[str, str]]:
    pieces = pieces or OutputSequencer()
    found: list[OutputPiece] = [one for mode, part in parts for one in pieces.take(mode, part)]
    return [(one.kind, one.text) for one in (*found, *pieces.end())]


def test_pieces_of_one_message_are_shown_as_they_come() -> None:
    pieces = OutputSequencer()
    assert [one.text for one in pieces.take(*said("Hel"))] == ["Hel"]
    assert [one.text for one in pieces.take(*said("lo"))] == ["lo"]
    assert [one.kind for one in pieces.take(*over("t"))] == ["end"]
    assert list(pieces.end()) == []


def test_the_start_of_a_task_ends_nothing() -> None:
    start = ("tasks", {"id": "t", "name": "model", "input": {}})
    assert shown(said("a"), start, said("b")) == [("text", "a"), ("text", "b"), ("end", "")]


def test_two_who_speak_at_once_are_shown_one_after_the_other() -> None:
    parts = [said("a1", "a-0"), said("b1", "b-0"), said("a2", "a-0"), said("b2", "b-0"), over("a"), said("b3", "b-0")]
    texts = [text for kind, text in shown(*parts) if kind == "text"]
    assert texts == ["a1", "a2", "b1", "b2", "b3"]


def test_who_ends_first_while_another_speaks_is_shown_after_them() -> None:
    parts = [said("a1", "a-0"), said("b1", "b-0"), over("b"), said("a2", "a-0"), over("a")]
    assert shown(*parts) == [("text", "a1"), ("text", "a2"), ("end", ""), ("text", "b1"), ("end", "")]


def test_a_task_that_speaks_again_has_ended_what_it_said_before() -> None:
    assert shown(said("a", "t-0"), said("b", "t-1")) == [("text", "a"), ("end", ""), ("text", "b"), ("end", "")]


@pytest.mark.parametrize("anew", ["t-0-2", "t-0-1-1"])
def test_an_answer_that_is_begun_anew_is_shown_as_it_comes_after_a_word_about_it(anew: str) -> None:
    pieces = OutputSequencer()
    list(pieces.take(*said("half an", "t-0")))
    list(pieces.take(*called(ToolCallDelta(0, "1", "find", '{"a'), message_id="t-0")))
    assert [(one.kind, one.text) for one in pieces.take(*said("a whole", anew))] == [
        ("again", ""),
        ("end", ""),
        ("text", "a whole"),
    ]
    assert [one.text for one in pieces.take(*said(" answer", anew))] == [" answer"]
    assert [one.kind for one in pieces.take(*over("t"))] == ["end"]


def test_what_others_say_does_not_begin_an_answer_anew() -> None:
    parts = [said("a", "t-0"), said("b", "u-0"), said("c", "run--4f-1"), said("d", "run--4f-2"), said("e", "t-1")]
    assert "again" not in [kind for kind, _ in shown(*parts)]


def test_a_call_is_shown_once_its_arguments_are_complete() -> None:
    pieces = OutputSequencer()
    name = called(ToolCallDelta(0, "1", "find", ""))
    assert list(pieces.take(*name)) == []
    assert list(pieces.take(*called(ToolCallDelta(0, arguments='{"a": {"b": 1}')))) == []
    assert list(pieces.take(*called(ToolCallDelta(0, arguments="}")))) == [
        OutputPiece("call", '{"a": {"b": 1}}', "find")
    ]
    assert shown(over("t"), pieces=pieces) == [("end", "")]


@pytest.mark.parametrize("arguments", ["", "{", '{"a": ', "[1]", "}"])
def test_a_call_whose_arguments_never_become_complete_is_shown_at_the_end(arguments: str) -> None:
    call = ToolCallDelta(0, "1", "find", arguments)
    assert shown(called(call), over("t")) == [("call", arguments), ("end", "")]


def test_several_calls_of_one_answer_are_told_apart() -> None:
    deltas = [ToolCallDelta(0, "1", "x", "{"), ToolCallDelta(1, "2", "y", "{"), ToolCallDelta(1, None, None, "}")]
    assert shown(called(*deltas), called(ToolCallDelta(0, None, None, '"n": 1}'))) == [
        ("call", "{}"),
        ("call", '{"n": 1}'),
        ("end", ""),
    ]


def test_whole_messages_are_shown_with_their_calls() -> None:
    call = ToolCall("1", "find", {"a": 1})
    whole = Message("Let me look.", role="assistant", id="m", tool_calls=(call,))
    assert shown(("messages", (whole, ORIGIN))) == [("text", "Let me look."), ("call", '{"a": 1}'), ("end", "")]


@pytest.mark.parametrize(("status", "kind"), [(None, "result"), ({"status": "error"}, "failure")])
def test_results_of_tools_are_shown(status: Any, kind: str) -> None:
    result = Message("5", role="tool", name="find", tool_call_id="1", id="r", metadata=status)
    assert next(OutputSequencer().take("messages", (result, ORIGIN))) == OutputPiece(kind, "5", "find")  # type: ignore[arg-type]


def test_what_the_user_said_is_not_shown_again() -> None:
    assert shown(("messages", (Message("hi", id="u"), ORIGIN))) == []


def test_who_has_no_name_is_called_as_the_node() -> None:
    pieces = OutputSequencer()
    (text, *_) = pieces.take("messages", (MessageChunk("x", id="t-0"), ORIGIN))
    assert text.name == "model"


def test_usage_is_that_of_all_answers_each_as_it_was_told_last() -> None:
    pieces = OutputSequencer()
    for number in (1, 2):
        list(pieces.take(*said("", "a-0", usage=Usage(10, number))))
    list(pieces.take(*said("", "b-0", usage=Usage(5, 1, 0.5))))
    list(pieces.end())
    assert pieces.usage == Usage(15, 3, 0.5)


def test_reasoning_comes_before_the_text() -> None:
    assert shown(said("", reasoning="hm"), said("so")) == [("thought", "hm"), ("text", "so"), ("end", "")]

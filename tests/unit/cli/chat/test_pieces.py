"""The order in which streamed output is shown."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.cli.chat.pieces import OutputPiece, OutputSequencer
from statewright.messages import Message, ToolCall
from statewright.models import MessageChunk, ToolCallDelta, Usage

ORIGIN = {"node": "model"}


def text_part(text: str, message_id: str = "t-0", **fields: Any) -> tuple[str, Any]:
    return "messages", (MessageChunk(text, id=message_id, name="bot", **fields), ORIGIN)


def call_part(*deltas: ToolCallDelta, message_id: str = "t-0") -> tuple[str, Any]:
    return text_part("", message_id, tool_call_chunks=deltas)


def end_of(task: str) -> tuple[str, Any]:
    return "tasks", {"id": task, "name": "model", "error": None, "interrupts": [], "result": {}}


def output_of(*parts: tuple[str, Any], pieces: OutputSequencer | None = None) -> list[tuple[str, str]]:
    pieces = pieces or OutputSequencer()
    output: list[OutputPiece] = [piece for mode, part in parts for piece in pieces.feed(mode, part)]
    return [(piece.kind, piece.text) for piece in (*output, *pieces.end())]


def test_pieces_of_one_message_are_shown_at_once() -> None:
    pieces = OutputSequencer()
    assert [piece.text for piece in pieces.feed(*text_part("Hel"))] == ["Hel"]
    assert [piece.text for piece in pieces.feed(*text_part("lo"))] == ["lo"]
    assert [piece.kind for piece in pieces.feed(*end_of("t"))] == ["end"]
    assert list(pieces.end()) == []


def test_the_start_of_a_task_ends_nothing() -> None:
    start = ("tasks", {"id": "t", "name": "model", "input": {}})
    assert output_of(text_part("a"), start, text_part("b")) == [("text", "a"), ("text", "b"), ("end", "")]


def test_concurrent_messages_are_shown_one_after_another() -> None:
    parts = [
        text_part("a1", "a-0"),
        text_part("b1", "b-0"),
        text_part("a2", "a-0"),
        text_part("b2", "b-0"),
        end_of("a"),
        text_part("b3", "b-0"),
    ]
    texts = [text for kind, text in output_of(*parts) if kind == "text"]
    assert texts == ["a1", "a2", "b1", "b2", "b3"]


def test_a_message_that_ends_first_is_still_shown_second() -> None:
    parts = [text_part("a1", "a-0"), text_part("b1", "b-0"), end_of("b"), text_part("a2", "a-0"), end_of("a")]
    assert output_of(*parts) == [("text", "a1"), ("text", "a2"), ("end", ""), ("text", "b1"), ("end", "")]


def test_the_next_message_of_a_task_ends_the_previous_one() -> None:
    assert output_of(text_part("a", "t-0"), text_part("b", "t-1")) == [
        ("text", "a"),
        ("end", ""),
        ("text", "b"),
        ("end", ""),
    ]


@pytest.mark.parametrize("restarted", ["t-0-2", "t-0-1-1"])
def test_a_restarted_answer_is_announced_and_shown_at_once(restarted: str) -> None:
    pieces = OutputSequencer()
    list(pieces.feed(*text_part("half an", "t-0")))
    list(pieces.feed(*call_part(ToolCallDelta(0, "1", "find", '{"a'), message_id="t-0")))
    assert [(piece.kind, piece.text) for piece in pieces.feed(*text_part("a whole", restarted))] == [
        ("restart", ""),
        ("end", ""),
        ("text", "a whole"),
    ]
    assert [piece.text for piece in pieces.feed(*text_part(" answer", restarted))] == [" answer"]
    assert [piece.kind for piece in pieces.feed(*end_of("t"))] == ["end"]


def test_messages_of_other_calls_do_not_restart_an_answer() -> None:
    parts = [
        text_part("a", "t-0"),
        text_part("b", "u-0"),
        text_part("c", "run--4f-1"),
        text_part("d", "run--4f-2"),
        text_part("e", "t-1"),
    ]
    assert "restart" not in [kind for kind, _ in output_of(*parts)]


def test_a_call_is_shown_once_its_arguments_are_complete() -> None:
    pieces = OutputSequencer()
    name = call_part(ToolCallDelta(0, "1", "find", ""))
    assert list(pieces.feed(*name)) == []
    assert list(pieces.feed(*call_part(ToolCallDelta(0, arguments='{"a": {"b": 1}')))) == []
    assert list(pieces.feed(*call_part(ToolCallDelta(0, arguments="}")))) == [
        OutputPiece("call", '{"a": {"b": 1}}', "find")
    ]
    assert output_of(end_of("t"), pieces=pieces) == [("end", "")]


@pytest.mark.parametrize("arguments", ["", "{", '{"a": ', "[1]", "}"])
def test_a_call_with_incomplete_arguments_is_shown_at_the_end(arguments: str) -> None:
    call = ToolCallDelta(0, "1", "find", arguments)
    assert output_of(call_part(call), end_of("t")) == [("call", arguments), ("end", "")]


def test_several_calls_of_one_answer_are_separated() -> None:
    deltas = [ToolCallDelta(0, "1", "x", "{"), ToolCallDelta(1, "2", "y", "{"), ToolCallDelta(1, None, None, "}")]
    assert output_of(call_part(*deltas), call_part(ToolCallDelta(0, None, None, '"n": 1}'))) == [
        ("call", "{}"),
        ("call", '{"n": 1}'),
        ("end", ""),
    ]


def test_messages_that_were_not_streamed_are_shown_with_their_calls() -> None:
    call = ToolCall("1", "find", {"a": 1})
    message = Message("Let me look.", role="assistant", id="m", tool_calls=(call,))
    assert output_of(("messages", (message, ORIGIN))) == [("text", "Let me look."), ("call", '{"a": 1}'), ("end", "")]


@pytest.mark.parametrize(("status", "kind"), [(None, "result"), ({"status": "error"}, "failure")])
def test_results_of_tools_are_shown(status: Any, kind: str) -> None:
    result = Message("5", role="tool", name="find", tool_call_id="1", id="r", metadata=status)
    assert next(OutputSequencer().feed("messages", (result, ORIGIN))) == OutputPiece(kind, "5", "find")  # type: ignore[arg-type]


def test_messages_of_the_user_are_not_shown() -> None:
    assert output_of(("messages", (Message("hi", id="u"), ORIGIN))) == []


def test_a_speaker_without_a_name_has_the_name_of_the_node() -> None:
    pieces = OutputSequencer()
    (text, *_) = pieces.feed("messages", (MessageChunk("x", id="t-0"), ORIGIN))
    assert text.name == "model"


def test_usage_is_the_sum_of_the_last_report_of_each_answer() -> None:
    pieces = OutputSequencer()
    for number in (1, 2):
        list(pieces.feed(*text_part("", "a-0", usage=Usage(10, number))))
    list(pieces.feed(*text_part("", "b-0", usage=Usage(5, 1, 0.5))))
    list(pieces.end())
    assert pieces.usage == Usage(15, 3, 0.5)


def test_reasoning_is_shown_before_the_text() -> None:
    assert output_of(text_part("", reasoning="hm"), text_part("so")) == [("thought", "hm"), ("text", "so"), ("end", "")]

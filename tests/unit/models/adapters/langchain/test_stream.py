"""Conversion of LangChain's chunks to events."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk

from statewright.messages import ToolCall
from statewright.models import ModelEvent, TextDelta, ToolCallDelta
from statewright.models.adapters.langchain.conversion import ChunkMerger


def add_chunks(merger: ChunkMerger, *chunks: Any) -> list[ModelEvent]:
    return [event for chunk in chunks for event in merger.add(chunk)]


def call_chunk(
    args: str | None, *, call_id: str | None = None, name: str | None = None, index: Any = None
) -> AIMessageChunk:
    return AIMessageChunk("", tool_call_chunks=[{"name": name, "args": args, "id": call_id, "index": index}])


def test_a_stream_without_chunks_has_no_answer() -> None:
    assert ChunkMerger().merge() is None


def test_a_single_chunk_is_the_whole_answer() -> None:
    merger = ChunkMerger()
    assert add_chunks(merger, AIMessageChunk("a")) == [TextDelta("a")]
    assert merger.merge().content == "a"


def test_repeated_metadata_is_not_concatenated() -> None:
    merger = ChunkMerger()
    add_chunks(merger, *(AIMessageChunk(text, response_metadata={"model_name": "m", "id": ""}) for text in "ab"))
    assert merger.response_metadata == {"model_name": "m"}
    assert merger.merge().content == "ab"


def test_chunks_without_index_and_id_continue_the_last_call() -> None:
    merger = ChunkMerger()
    events = add_chunks(merger, call_chunk('{"a":', call_id="x", name="look"), call_chunk(" 1}"))
    assert events == [ToolCallDelta(0, "x", "look", '{"a":'), ToolCallDelta(0, arguments=" 1}")]
    assert merger.calls() == [ToolCall("x", "look", {"a": 1})]


def test_id_and_name_of_a_call_are_emitted_once() -> None:
    merger = ChunkMerger()
    events = add_chunks(merger, *(call_chunk(args, call_id="x", name="look", index=3) for args in ("{", None, "}")))
    assert events == [ToolCallDelta(0, "x", "look", "{"), ToolCallDelta(0), ToolCallDelta(0, arguments="}")]


@pytest.mark.parametrize(("arguments", "invalid"), [('{"a": 1', '{"a": 1'), ("[1]", "[1]"), ("", None)])
def test_incomplete_arguments_are_not_repaired(arguments: str, invalid: str | None) -> None:
    merger = ChunkMerger()
    add_chunks(merger, call_chunk(arguments, call_id="x", name="look", index=0))
    assert merger.calls() == [ToolCall("x", "look", invalid=invalid)]


def test_complete_calls_of_a_message_are_emitted_whole() -> None:
    merger = ChunkMerger()
    calls = [{"name": "look", "args": {"a": n}, "id": str(n)} for n in range(2)]
    events = add_chunks(merger, AIMessage("", tool_calls=calls))
    assert events == [ToolCallDelta(0, "0", "look", '{"a": 0}'), ToolCallDelta(1, "1", "look", '{"a": 1}')]

"""Streams of LangChain as our events."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk

from statewright.messages import ToolCall
from statewright.models import ModelEvent, TextDelta, ToolCallDelta
from statewright.models.adapters.langchain.conversion import ChunkMerger


def taken(merger: ChunkMerger, *chunks: Any) -> list[ModelEvent]:
    return [event for chunk in chunks for event in merger.add(chunk)]


def piece(
    args: str | None, *, identity: str | None = None, name: str | None = None, index: Any = None
) -> AIMessageChunk:
    return AIMessageChunk("", tool_call_chunks=[{"name": name, "args": args, "id": identity, "index": index}])


def test_without_chunks_there_is_no_answer() -> None:
    assert ChunkMerger().merge() is None


def test_one_chunk_is_the_whole() -> None:
    merger = ChunkMerger()
    assert taken(merger, AIMessageChunk("a")) == [TextDelta("a")]
    assert merger.merge().content == "a"


def test_facts_that_come_twice_are_not_joined() -> None:
    merger = ChunkMerger()
    taken(merger, *(AIMessageChunk(text, response_metadata={"model_name": "m", "id": ""}) for text in "ab"))
    assert merger.response_metadata == {"model_name": "m"}
    assert merger.merge().content == "ab"


def test_pieces_without_index_and_id_belong_to_the_last_call() -> None:
    merger = ChunkMerger()
    events = taken(merger, piece('{"a":', identity="x", name="look"), piece(" 1}"))
    assert events == [ToolCallDelta(0, "x", "look", '{"a":'), ToolCallDelta(0, arguments=" 1}")]
    assert merger.calls() == [ToolCall("x", "look", {"a": 1})]


def test_an_id_and_a_name_are_told_of_once() -> None:
    merger = ChunkMerger()
    events = taken(merger, *(piece(args, identity="x", name="look", index=3) for args in ("{", None, "}")))
    assert events == [ToolCallDelta(0, "x", "look", "{"), ToolCallDelta(0), ToolCallDelta(0, arguments="}")]


@pytest.mark.parametrize(("written", "invalid"), [('{"a": 1', '{"a": 1'), ("[1]", "[1]"), ("", None)])
def test_arguments_that_were_cut_off_are_not_mended(written: str, invalid: str | None) -> None:
    merger = ChunkMerger()
    taken(merger, piece(written, identity="x", name="look", index=0))
    assert merger.calls() == [ToolCall("x", "look", invalid=invalid)]


def test_a_whole_message_has_whole_calls() -> None:
    merger = ChunkMerger()
    calls = [{"name": "look", "args": {"a": n}, "id": str(n)} for n in range(2)]
    events = taken(merger, AIMessage("", tool_calls=calls))
    assert events == [ToolCallDelta(0, "0", "look", '{"a": 0}'), ToolCallDelta(1, "1", "look", '{"a": 1}')]

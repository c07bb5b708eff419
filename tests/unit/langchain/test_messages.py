"""Conversion of messages from and to LangChain: nothing is lost, and later changes win over recorded originals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages import RemoveMessage as LangChainRemoveMessage
from tests.work import examples

from statewright.channels import add_messages
from statewright.langchain.messages import from_langchain, to_langchain
from statewright.messages import Message, RemoveMessage, ToolCall, as_message

TEXT = st.text(max_size=8)
NAMES = st.none() | st.from_regex(r"[a-z]{1,5}", fullmatch=True)
VALUES = st.none() | st.integers(-5, 5) | TEXT | st.lists(st.integers(0, 3), max_size=2)
RECORDS = st.dictionaries(st.sampled_from(["model_name", "finish_reason", "refusal", "x"]), VALUES, max_size=2)
PARTS = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}),
    st.just({"type": "image", "base64": "AAAA", "mime_type": "image/png"}),
    st.just({"type": "file", "file_id": "f1"}),
)
CONTENTS = TEXT | st.lists(PARTS | TEXT, max_size=3)
REASONING_PARTS = st.one_of(
    TEXT.map(lambda text: {"type": "reasoning", "reasoning": text}),
    TEXT.map(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}),
)
CALLS = st.builds(
    lambda name, args, call_id: {"name": name, "args": args, "id": call_id, "type": "tool_call"},
    st.sampled_from(["add", "look"]),
    st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2),
    st.none() | TEXT,
)
INVALID = st.builds(
    lambda name, args, call_id, error: {
        "name": name, "args": args, "id": call_id, "error": error, "type": "invalid_tool_call"
    },
    NAMES, st.none() | TEXT, st.none() | TEXT, st.none() | TEXT,
)  # fmt: skip
USAGE = st.none() | st.builds(
    lambda input_tokens, output_tokens: {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "input_token_details": {"cache_read": 1},
    },
    st.integers(0, 9),
    st.integers(0, 9),
)
COMMON = {"id": NAMES, "name": NAMES, "additional_kwargs": RECORDS, "response_metadata": RECORDS}
LANGCHAIN_MESSAGES = st.one_of(
    st.builds(HumanMessage, content=CONTENTS, **COMMON),
    st.builds(SystemMessage, content=CONTENTS, **COMMON),
    st.builds(ChatMessage, content=CONTENTS, role=st.sampled_from(["critic", "user", "assistant"]), **COMMON),
    st.builds(FunctionMessage, content=TEXT, **{**COMMON, "name": st.just("look")}),
    st.builds(
        ToolMessage,
        content=CONTENTS,
        tool_call_id=TEXT,
        artifact=VALUES,
        status=st.sampled_from(["success", "error"]),
        **COMMON,
    ),
    st.builds(
        AIMessage,
        content=TEXT | st.lists(PARTS | TEXT | REASONING_PARTS, max_size=3),
        tool_calls=st.lists(CALLS, max_size=2),
        invalid_tool_calls=st.lists(INVALID, max_size=2),
        usage_metadata=USAGE,
        **{**COMMON, "additional_kwargs": RECORDS | st.just({"reasoning_content": "hm", "refusal": None})},
    ),
)
STATEWRIGHT_CALLS = st.builds(
    ToolCall, TEXT, TEXT, st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)
) | st.builds(ToolCall, TEXT, TEXT, st.just({}), TEXT)
STATEWRIGHT_MESSAGES = st.builds(
    Message,
    TEXT | st.lists(PARTS | REASONING_PARTS, max_size=3),
    st.sampled_from(["user", "assistant", "system", "tool", "critic"]),
    NAMES,
    NAMES,
    st.lists(STATEWRIGHT_CALLS, max_size=3).map(tuple),
    st.none() | TEXT,
    st.none()
    | st.dictionaries(
        st.sampled_from(["status", "artifact", "reasoning", "x", "provider"]),
        st.sampled_from(["error", "success", "some thoughts", {"anthropic": {"signature": "s"}}, None, 7]),
        max_size=3,
    ),
)


@settings(max_examples=examples(300), deadline=None)
@given(LANGCHAIN_MESSAGES)
def test_a_langchain_message_survives_a_round_trip(message: Any) -> None:
    before = message.model_copy(deep=True)
    converted = from_langchain(message)
    assert isinstance(converted, Message)
    converted_back = to_langchain(converted)
    assert (type(converted_back), converted_back) == (type(message), message)
    assert message == before


@settings(max_examples=examples(300), deadline=None)
@given(STATEWRIGHT_MESSAGES)
def test_a_statewright_message_survives_a_round_trip(message: Message) -> None:
    before = replace(message)
    langchain_message = to_langchain(message)
    assert from_langchain(langchain_message) == message == before


def test_common_fields_are_converted() -> None:
    langchain_message = AIMessage(
        [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Yes."}],
        id="1",
        name="bot",
        tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}],
        invalid_tool_calls=[{"name": "add", "args": "{", "id": "c2", "error": "cut"}],
    )
    message = from_langchain(langchain_message)
    assert (message.role, message.text, message.id, message.name) == ("assistant", "Yes.", "1", "bot")
    assert message.tool_calls == (ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "add", invalid="{"))
    result = from_langchain(ToolMessage("3", tool_call_id="c1", artifact={"n": 3}, status="error"))
    assert result == Message("3", "tool", tool_call_id="c1", metadata={"status": "error", "artifact": {"n": 3}})
    assert (
        to_langchain(Message("hm", "assistant", metadata={"reasoning": "why"})).content_blocks[0]["reasoning"] == "why"
    )


def test_changes_after_a_conversion_survive_the_way_back() -> None:
    langchain_message = AIMessage(
        [{"type": "text", "text": "No."}, {"type": "tool_use", "id": "c1", "name": "add", "input": {}}],
        tool_calls=[{"name": "add", "args": {}, "id": "c1"}],
        additional_kwargs={"tool_calls": [{"id": "c1"}], "refusal": "r"},
        usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    )
    changed = replace(from_langchain(langchain_message), content="Yes.", tool_calls=())
    converted_back = to_langchain(changed)
    assert (converted_back.content, converted_back.tool_calls) == ("Yes.", [])
    assert converted_back.additional_kwargs == {"refusal": "r"}
    assert converted_back.usage_metadata == langchain_message.usage_metadata
    message = Message([{"type": "text", "text": "a"}], "assistant", tool_calls=(ToolCall("1", "a", invalid="{"),))
    edited = to_langchain(message).model_copy(update={"content": "b", "invalid_tool_calls": []})
    assert (from_langchain(edited).content, from_langchain(edited).tool_calls) == ("b", ())


def test_lists_removals_and_chunks_are_converted() -> None:
    assert from_langchain([HumanMessage("a"), LangChainRemoveMessage(id="1"), "b"]) == [
        Message("a"), RemoveMessage("1"), Message("b")
    ]  # fmt: skip
    assert to_langchain([Message("a"), RemoveMessage("1"), ("ai", "b")]) == [
        HumanMessage("a"), LangChainRemoveMessage(id="1"), AIMessage("b")
    ]  # fmt: skip
    assert from_langchain(AIMessageChunk("b", id="2")) == Message("b", "assistant", id="2")
    original = HumanMessage("mine")
    assert to_langchain(original) is original


def test_a_langchain_message_in_a_state_loses_nothing() -> None:
    langchain_message = AIMessage(
        "x", id="1", usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    )
    (merged,) = add_messages([], [langchain_message])
    assert as_message(langchain_message) == merged
    assert merged.to_langchain() == langchain_message

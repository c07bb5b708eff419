"""The result of an agent's call: its parts, its checksum, and its JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from statewright.agents import AgentResult
from statewright.messages import Message, ToolCall
from statewright.models import Usage
from statewright.serde.serde import Serde

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
MESSAGES = [
    Message("", role="assistant", tool_calls=(ToolCall("1", "read", {"path": "a"}), ToolCall("2", "read", {}))),
    Message("text", role="tool", tool_call_id="1", name="read"),
    Message("Error", role="tool", tool_call_id="2", name="read", metadata={"status": "error"}),
    Message("the end", role="assistant", id="m1"),
]
RESULT = AgentResult(
    agent_name="a",
    messages=MESSAGES,
    created_at=AT,
    id="r1",
    usage=Usage(1, 2, 0.5),
    requests=2,
    stop_reason="max_iter",
)


def test_output_and_tool_calls_are_parts_of_the_messages() -> None:
    assert [message.text for message in RESULT.output] == ["", "the end"]
    assert [call.tool_call_id for call in RESULT.tool_calls] == ["1", "2"]
    assert RESULT.text == "the end"


def test_the_text_is_the_last_text_of_the_agent() -> None:
    assert replace(RESULT, messages=MESSAGES[:3]).text == ""
    assert replace(RESULT, messages=[Message("first", role="assistant"), MESSAGES[0]]).text == "first"
    assert replace(RESULT, messages=[]).text == ""


def test_the_last_call_of_a_tool_is_found() -> None:
    called = RESULT.called("read")
    assert called is not None
    assert called.id == "2"
    assert RESULT.called("write") is None


def test_different_results_have_different_checksums() -> None:
    assert replace(RESULT, id="other", usage=Usage()).checksum == RESULT.checksum
    others = [
        replace(RESULT, agent_name="b"),
        replace(RESULT, messages=MESSAGES[1:]),
        replace(RESULT, created_at=AT + timedelta(microseconds=1)),
    ]
    assert len({result.checksum for result in [RESULT, *others]}) == 4


def test_a_result_survives_a_round_trip_through_json() -> None:
    assert AgentResult.from_json(json.loads(json.dumps(RESULT.to_json()))) == RESULT


def test_default_values_are_omitted_from_json() -> None:
    small = AgentResult(agent_name="a", messages=[], created_at=AT)
    assert set(small.to_json()) == {"agentName", "messages", "createdAt", "checksum"}
    assert AgentResult.from_json(small.to_json()) == small


def test_json_of_other_libraries_can_be_read() -> None:
    written = {
        "agentName": "a",
        "output": [{"role": "assistant", "content": "hi"}],
        "toolCalls": [{"role": "tool", "content": "r", "tool_call_id": "1"}],
        "createdAt": "2026-01-02T03:04:05",
        "checksum": "foreign",
    }
    read = AgentResult.from_json(written)
    assert [(message.role, message.text) for message in read.messages] == [("assistant", "hi"), ("tool", "r")]
    assert read.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30))])
def test_a_result_survives_a_round_trip_through_serde(zone: Any) -> None:
    serde = Serde()
    result = replace(RESULT, created_at=AT.astimezone(zone))
    assert serde.decode(serde.encode(result)) == RESULT


def test_exports_of_agentkit_can_be_read() -> None:
    """Its messages have special types for tool calls and tool results."""
    exported = {
        "agentName": "a",
        "output": [
            {"type": "text", "role": "assistant", "content": "I look."},
            {"type": "tool_call", "role": "assistant", "tools": [{"id": "1", "name": "look", "input": {"at": "x"}}]},
        ],
        "toolCalls": [
            {"type": "tool_result", "role": "tool_result", "tool": {"id": "1", "name": "look"}, "content": {"data": 3}}
        ],
        "createdAt": "2026-01-02T03:04:05.678Z",
    }
    result = AgentResult.from_json(exported)
    call = result.called("look")
    assert call is not None
    assert call.arguments == {"at": "x"}
    assert [(message.role, message.text) for message in result.messages] == [
        ("assistant", "I look."),
        ("assistant", ""),
        ("tool", '{"data": 3}'),
    ]
    assert AgentResult.from_json(result.to_json()) == result

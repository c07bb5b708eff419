"""Answers of models, read by the real client libraries over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.integration.providers.conftest import ModelCaller, Shared
from tests.provider_server import Answer, Call, ProviderServer

from statewright.messages import Message, ToolCall
from statewright.models import (
    ModelRequest,
    ModelResponse,
    OutputForm,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    UsageUpdate,
)

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
SUB = ToolSpec("sub", "Takes away.", {"type": "object", "properties": {}})
TWO_CALLS = Answer("so:", calls=[Call("add", {"a": 1}, "x1"), Call("sub", {}, "x2")])


def as_text(sent: Any) -> str:
    """Return a body as text, to search in it."""
    return json.dumps(sent)


def test_text_is_sent_and_received(ask: ModelCaller) -> None:
    ask.server.script(["Hello there, you"])
    answer = ask(Message("say hello"), system="be brief")
    assert answer.text == "Hello there, you"
    assert (answer.message.role, answer.finish_reason, answer.reasoning) == ("assistant", "stop", "")
    assert answer.model == ask.model.name.partition(":")[2]
    assert "say hello" in as_text(ask.sent)
    assert "be brief" in as_text(ask.sent)


def test_usage_and_cost_are_reported(ask: ModelCaller) -> None:
    ask.server.script([Answer("a", input_tokens=1000, output_tokens=50, cached_tokens=300, reasoning_tokens=20)])
    usage = ask().usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (1000, 50, 300)
    assert usage.reasoning_tokens == (0 if ask.provider == "anthropic" else 20)
    assert 0 < usage.cost < 1


def test_several_tool_calls_are_received(ask: ModelCaller) -> None:
    ask.server.script([TWO_CALLS])
    answer = ask(tools=[ADD, SUB])
    assert answer.message.tool_calls == (ToolCall("x1", "add", {"a": 1}), ToolCall("x2", "sub", {}))
    assert (answer.text, answer.finish_reason) == ("so:", "tools")
    assert "Adds." in as_text(ask.sent)


@pytest.mark.parametrize("provider", ["openai-chat", "openai", "anthropic"])  # Google's API has no arguments as text
def test_invalid_json_arguments_are_kept_and_reported_back(ask: ModelCaller) -> None:
    ask.server.script([Answer(calls=[Call("add", '{"a": ', "x1")]), "sorry"])
    answer = ask(tools=[ADD])
    (call,) = answer.message.tool_calls
    assert (call.invalid, call.arguments, answer.finish_reason) == ('{"a": ', {}, "tools")
    result = Message("the arguments are no JSON", role="tool", tool_call_id="x1", metadata={"status": "error"})
    assert ask(Message("hi"), answer.message, result, tools=[ADD]).text == "sorry"


def test_tool_results_are_sent_with_the_ids_of_their_calls(ask: ModelCaller) -> None:
    ask.server.script([TWO_CALLS, "done"])
    first = ask(tools=[ADD, SUB])
    results = [
        Message("three", role="tool", tool_call_id="x1"),
        Message("broken", role="tool", tool_call_id="x2", metadata={"status": "error"}),
    ]
    assert ask(Message("hi"), first.message, *results, tools=[ADD, SUB]).text == "done"
    sent_results = {
        "openai-chat": lambda body: [(m["tool_call_id"], m["content"]) for m in body["messages"][2:]],
        "openai": lambda body: [(i["call_id"], i["output"]) for i in body["input"][-2:]],
        "anthropic": lambda body: [(c["tool_use_id"], c["content"][0]["text"]) for c in body["messages"][2]["content"]],
        "google": lambda body: [
            (p["functionResponse"]["id"], json.dumps(p["functionResponse"]["response"]))
            for p in body["contents"][2]["parts"]
        ],
    }[ask.provider](ask.sent)
    assert [call_id for call_id, _ in sent_results] == ["x1", "x2"]
    assert "three" in sent_results[0][1]
    assert "broken" in sent_results[1][1]
    if ask.provider == "anthropic":
        assert [block["is_error"] for block in ask.sent["messages"][2]["content"]] == [False, True]


REASONED = Answer("so:", reasoning="I think", calls=[Call("add", {"a": 1}, "x1")])
SEALED = {
    "openai-chat": '"reasoning_content": "I think"',
    "openai": '"encrypted_content": "sealed"',
    "anthropic": '"signature": "signed"',
    "google": '"thoughtSignature": "c2lnbmVk"',
}


def body_after_reasoning(ask: ModelCaller, other: ModelCaller | None = None) -> str:
    """Return the request that follows an answer with reasoning and a call, which was stored as JSON."""
    ask.server.script([REASONED, "done"])
    first = ask(tools=[ADD])
    assert (first.reasoning, first.text) == ("I think", "so:")
    answer = Message(**json.loads(json.dumps({"metadata": first.message.metadata})), content="so:", role="assistant")
    answer.tool_calls = first.message.tool_calls
    result = Message("2", role="tool", tool_call_id="x1")
    (other or ask)(Message("hi"), answer, result, tools=[ADD])
    return as_text(ask.sent)


def test_reasoning_is_sent_back_to_its_provider(ask: ModelCaller) -> None:
    assert SEALED[ask.provider] in body_after_reasoning(ask)


def test_reasoning_is_not_sent_to_another_provider(ask: ModelCaller, shared: Shared) -> None:
    another = "anthropic" if ask.provider != "anthropic" else "openai"
    sent = body_after_reasoning(ask, shared.caller(another, ask.mode))
    assert "I think" not in sent
    assert "sealed" not in sent
    assert "x1" in sent


def test_the_schema_of_the_answer_is_sent(ask: ModelCaller) -> None:
    form = OutputForm({"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}, name="answer")
    ask.server.script(['{"x": "y"}'])
    assert ask(output=form).text == '{"x": "y"}'
    schema = {
        "openai-chat": lambda body: body["response_format"]["json_schema"]["schema"],
        "openai": lambda body: body["text"]["format"]["schema"],
        "anthropic": lambda body: body["output_config"]["format"]["schema"],
        "google": lambda body: body["generationConfig"]["responseJsonSchema"],
    }[ask.provider](ask.sent)
    assert schema["required"] == ["x"]


def test_a_model_without_schema_support_gets_the_schema_in_its_prompt(shared: Shared, server: ProviderServer) -> None:
    ask = shared.caller("anthropic", "whole")
    server.script(['{"x": 1}'])
    ask(model="claude-unheard-of", output=OutputForm({"type": "object", "properties": {"x": {}}}))
    assert "JSON object" in as_text(ask.sent["system"])
    assert "output_config" not in ask.sent


@pytest.mark.parametrize(("choice", "index"), [("any", 0), ("none", 1), ("add", 2)])
def test_the_tool_choice_is_sent(ask: ModelCaller, choice: str, index: int) -> None:
    ask.server.script(["a"])
    ask(tools=[ADD], tool_choice=choice, parallel_tool_calls=False if ask.provider != "google" else None)
    chosen = {
        "openai-chat": lambda body: body["tool_choice"],
        "openai": lambda body: body["tool_choice"],
        "anthropic": lambda body: body["tool_choice"]["type"],
        "google": lambda body: body["toolConfig"]["functionCallingConfig"]["mode"],
    }[ask.provider](ask.sent)
    expected = {"anthropic": ["any", "none", "any"], "google": ["ANY", "NONE", "ANY"]}
    assert chosen == expected.get(ask.provider, ["required", "none", "required"])[index]


def test_max_tokens_and_stop_sequences_are_sent(ask: ModelCaller) -> None:
    ask.server.script(["a"])
    ask(max_tokens=77, stop=["END"] if ask.provider != "openai" else ())
    sent = as_text(ask.sent)
    assert "77" in sent
    assert ("END" in sent) == (ask.provider != "openai")


FINISHES = [
    ("openai-chat", "length", "length"),
    ("openai-chat", "content_filter", "refused"),
    ("openai", "max_output_tokens", "length"),
    ("openai", "content_filter", "refused"),
    ("anthropic", "max_tokens", "length"),
    ("anthropic", "stop_sequence", "stop"),
    ("google", "MAX_TOKENS", "length"),
    ("google", "SAFETY", "refused"),
    ("google", "OTHER", "refused"),
    ("openai-chat", "guardrail_intervened", "refused"),
    ("anthropic", "model_context_window_exceeded", "length"),
]


@pytest.mark.parametrize(("provider", "finish", "expected"), FINISHES)
def test_finish_reasons_are_translated(ask: ModelCaller, finish: str, expected: str) -> None:
    ask.server.script([Answer("cut", finish=finish)])
    assert ask().finish_reason == expected


def test_a_refusal_is_returned_as_an_answer(ask: ModelCaller) -> None:
    ask.server.script([Answer(refusal="I will not.")])
    answer = ask()
    assert (answer.text, answer.finish_reason) == ("I will not.", "refused")


def test_the_beginning_of_an_answer_is_the_last_message(ask: ModelCaller) -> None:
    ask.server.script(["upon a time"])
    ask(Message("tell"), Message("Once", role="assistant"), continue_last=True)
    last = (ask.sent.get("messages") or ask.sent.get("input") or ask.sent.get("contents"))[-1]
    assert last["role"] in ("assistant", "model")
    assert "Once" in as_text(last)


def test_images_are_sent(ask: ModelCaller) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}}
    ask.server.script(["a cat"])
    assert ask(Message([{"type": "text", "text": "what is it?"}, picture])).text == "a cat"
    assert "AAEC" in as_text(ask.sent)
    assert "image/png" in as_text(ask.sent)


def test_settings_and_headers_are_sent(ask: ModelCaller) -> None:
    ask.server.script(["a"])
    ask.model = ask.connect(http_headers={"x-team": "red"}, settings={"max_tokens": 55})
    ask(extra={"extra_headers": {"x-run": "7"}})
    headers = ask.server.requests[-1].headers
    assert (headers["x-team"], headers["x-run"]) == ("red", "7")
    assert "55" in as_text(ask.sent)


def test_a_request_can_name_another_model_of_the_provider(ask: ModelCaller) -> None:
    names = {"anthropic": "claude-haiku-4-5", "google": "gemini-2.5-flash"}
    other = names.get(ask.provider, "gpt-5-mini")
    ask.server.script(["a", "b"])
    assert ask(model=other).model == other
    assert ask(model=f"{ask.provider}:{other}").model == other


def test_a_stream_yields_each_piece(streaming: ModelCaller) -> None:
    answer = Answer("one two", reasoning="hm", calls=[Call("add", {"a": 1}, "x1"), Call("sub", {}, "x2")])
    streaming.server.script([answer])
    events = streaming.run(streaming.events(ModelRequest([Message("hi")], tools=[ADD, SUB])))
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["hm"]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == "one two"
    assert texts == ["one", " two"]
    calls = [event for event in events if isinstance(event, ToolCallDelta)]
    assert [(call.index, call.id, call.name) for call in calls if call.id] == [(0, "x1", "add"), (1, "x2", "sub")]
    assert json.loads("".join(call.arguments for call in calls if call.index == 0)) == {"a": 1}
    assert any(isinstance(event, UsageUpdate) and event.usage.input_tokens == 12 for event in events)


def test_streamed_and_whole_responses_are_equal(shared: Shared, server: ProviderServer, provider: str) -> None:
    def response(mode: str) -> ModelResponse:
        server.script([Answer("one two", reasoning="hm", calls=[Call("add", {"a": 1}, "x1")], cached_tokens=2)])
        return shared.caller(provider, mode)(tools=[ADD])

    assert response("whole") == response("streamed")


def test_the_first_piece_arrives_before_the_last_is_sent(streaming: ModelCaller) -> None:
    async def first() -> bool:
        stream = streaming.model.stream(ModelRequest([Message("hi")]))
        async for event in stream:
            if isinstance(event, TextDelta):
                await asyncio.sleep(0.02)  # some libraries close nothing between two pieces
                await stream.aclose()  # type: ignore[attr-defined]
                return await asyncio.to_thread(streaming.server.requests[0].disconnected.wait, 60)
        return False

    streaming.server.script([Answer("word " * 300, calls=[Call("add", {"a": 1})], pause=0.2)])
    assert streaming.run(first())

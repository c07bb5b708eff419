"""The adapter for LangChain's chat models, tested with LangChain's fakes and with small models defined here."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from statewright.errors import InvalidConfig, ModelError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import (
    ModelEvent,
    ModelRequest,
    ModelResponse,
    OutputForm,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    Usage,
    UsageUpdate,
)
from statewright.models.adapters.langchain.model import LangChainModel
from statewright.models.guard import forbid_model_calls

LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}}, strict=True)
FORM = OutputForm({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


class ScriptedChatModel(BaseChatModel):
    """Returns its answers one after another, and records the calls."""

    answers: list[Any]
    """Messages, or exceptions to raise."""
    received: list[tuple[list[BaseMessage], dict[str, Any]]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.received.append((messages, {"stop": stop, **kwargs} if stop else kwargs))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ChatResult(generations=[ChatGeneration(message=answer)])


class ToolCallingModel(ScriptedChatModel):
    """A scripted model that supports tools."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=list(tools), **kwargs)


class StreamingModel(ToolCallingModel):
    """A model whose answers are lists of chunks."""

    pause: float = 0.0
    closed: list[bool] = Field(default_factory=list)

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.received.append((messages, kwargs))
        try:
            for chunk in self.answers.pop(0):
                if isinstance(chunk, Exception):
                    raise chunk
                yield ChatGenerationChunk(message=chunk)
                await asyncio.sleep(self.pause)
        finally:
            self.closed.append(True)


class SlowModel(ScriptedChatModel):
    """A model that takes longer than any timeout in these tests."""

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(5.0)
        return ChatResult(generations=[])


def adapter(chat_model: BaseChatModel) -> LangChainModel:
    return LangChainModel(chat_model, fake=True)


def model_request(*messages: Message, **settings: Any) -> ModelRequest:
    return ModelRequest(messages or (Message("hi"),), **settings)


def complete(chat_model: BaseChatModel, request: ModelRequest | None = None) -> ModelResponse:
    return asyncio.run(adapter(chat_model).complete(request or model_request()))


def stream_events(chat_model: BaseChatModel, request: ModelRequest | None = None) -> list[ModelEvent]:
    async def read() -> list[ModelEvent]:
        return [event async for event in adapter(chat_model).stream(request or model_request())]

    return asyncio.run(read())


def final_response(events: Sequence[ModelEvent]) -> ModelResponse:
    last = events[-1]
    assert isinstance(last, ResponseFinished)
    return last.response


# -- requests


def test_a_langchain_fake_answers() -> None:
    response = complete(FakeMessagesListChatModel(responses=[AIMessage("there")]))
    assert (response.text, response.message.role, response.usage) == ("there", "assistant", Usage())


def test_messages_are_converted_to_langchain_messages() -> None:
    chat_model = ScriptedChatModel(answers=[AIMessage("x")])
    call, odd = ToolCall("1", "look", {"at": "a"}), ToolCall("2", "look", invalid="{")
    complete(
        chat_model,
        model_request(
            Message("hi", id="ours", name="ann", metadata={"m": 1}),
            Message("look", role="assistant", tool_calls=(call, odd)),
            Message("seen", role="tool", tool_call_id="1", name="look"),
            Message("not made", role="tool", tool_call_id="2", name="look"),
            Message("more", role="system"),
            system="be kind",
        ),
    )
    (messages, settings) = chat_model.received[0]
    system, human, ai, tool, _, more = messages
    assert system == SystemMessage("be kind")
    assert human == HumanMessage("hi", name="ann")
    assert isinstance(ai, AIMessage)
    assert [(call["id"], call["args"]) for call in ai.tool_calls] == [("1", {"at": "a"})]
    assert [(call["id"], call["args"]) for call in ai.invalid_tool_calls] == [("2", "{")]
    assert tool == ToolMessage("seen", tool_call_id="1", name="look")
    assert more == SystemMessage("more")
    assert settings == {}


def test_only_given_settings_are_passed_on() -> None:
    chat_model = ScriptedChatModel(answers=[AIMessage("x")])
    complete(
        chat_model,
        model_request(temperature=0.5, max_tokens=9, stop=("END",), seed=1, model="m", extra={"effort": "low"}),
    )
    assert chat_model.received[0][1] == {
        "stop": ["END"],
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 1,
        "model": "m",
        "effort": "low",
    }


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        ({"tool_choice": "any"}, {"tool_choice": "any"}),
        ({"tool_choice": "look", "parallel_tool_calls": False}, {"tool_choice": "look", "parallel_tool_calls": False}),
    ],
)
def test_tools_are_bound_to_the_model(settings: dict[str, Any], options: dict[str, Any]) -> None:
    chat_model = ToolCallingModel(answers=[AIMessage("x")])
    complete(chat_model, model_request(tools=(LOOK,), **settings))
    function = {"name": "look", "description": "Looks.", "parameters": LOOK.parameters, "strict": True}
    assert chat_model.received[0][1] == {"tools": [{"type": "function", "function": function}], **options}


def test_tool_choice_none_binds_no_tools() -> None:
    chat_model = ToolCallingModel(answers=[AIMessage("x")])
    complete(chat_model, model_request(tools=(LOOK,), tool_choice="none"))
    assert chat_model.received[0][1] == {}


def test_tools_for_a_model_without_tool_support_are_an_error() -> None:
    with pytest.raises(ModelError, match=r"'ScriptedChatModel' does not support tools.*look"):
        complete(ScriptedChatModel(answers=[]), model_request(tools=(LOOK,)))


# -- responses


def test_calls_usage_model_and_finish_reason_are_read() -> None:
    answer = AIMessage(
        "hm",
        tool_calls=[{"name": "look", "args": {"at": "a"}, "id": "1"}],
        invalid_tool_calls=[{"name": "look", "args": "{", "id": "2", "error": "no JSON"}],
        usage_metadata={
            "input_tokens": 5,
            "output_tokens": 3,
            "total_tokens": 8,
            "input_token_details": {"cache_read": 2},
            "output_token_details": {"reasoning": 1},
        },
        response_metadata={"finish_reason": "tool_calls", "model_name": "gpt"},
    )
    response = complete(ScriptedChatModel(answers=[answer]))
    assert response.message.tool_calls == (ToolCall("1", "look", {"at": "a"}), ToolCall("2", "look", invalid="{"))
    assert response.usage == Usage(5, 3, 0.0, 2, 1)
    assert (response.model, response.finish_reason) == ("gpt", "tools")


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"finish_reason": "stop"}, "stop"),
        ({"finish_reason": "STOP"}, "stop"),
        ({"stop_reason": "end_turn"}, "stop"),
        ({"done_reason": "length"}, "length"),
        ({"finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": "content_filter"}, "refused"),
        ({"stop_reason": "refusal"}, "refused"),
        ({"finish_reason": "else"}, None),
        ({}, None),
    ],
)
def test_finish_reasons_of_all_providers_are_read(metadata: dict[str, Any], reason: str | None) -> None:
    assert complete(ScriptedChatModel(answers=[AIMessage("x", response_metadata=metadata)])).finish_reason == reason


def test_reasoning_is_read_and_sent_back_unchanged() -> None:
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        {"type": "text", "text": "there"},
    ]
    chat_model = ScriptedChatModel(
        answers=[AIMessage(blocks, response_metadata={"model_provider": "anthropic"}), AIMessage("x")]
    )
    first = complete(chat_model)
    assert (first.text, first.message.content, first.reasoning) == ("there", "there", "hm")
    complete(chat_model, model_request(Message("hi"), first.message, Message("go on")))
    assert chat_model.received[1][0][1].content == blocks


def test_a_changed_answer_is_sent_with_its_new_content() -> None:
    blocks: list[Any] = [
        {"type": "text", "text": "there"},
        {"type": "tool_use", "id": "1", "name": "look", "input": {}},
    ]
    answer = AIMessage(blocks, tool_calls=[{"name": "look", "args": {}, "id": "1"}])
    chat_model = ScriptedChatModel(answers=[answer, AIMessage("x")])
    first = complete(chat_model).message
    changed = Message(first.text, role="assistant", metadata=first.metadata)
    complete(chat_model, model_request(Message("hi"), changed, Message("and?")))
    assert chat_model.received[1][0][1].content == "there"


def test_reasoning_next_to_the_text_is_read() -> None:
    answer = AIMessage("there", additional_kwargs={"reasoning_content": "hm"})
    response = complete(ScriptedChatModel(answers=[answer]))
    assert (response.text, response.reasoning) == ("there", "hm")


def test_parts_other_than_text_are_kept() -> None:
    image = {"type": "image", "url": "https://x/y.png"}
    response = complete(ScriptedChatModel(answers=[AIMessage([{"type": "text", "text": "see"}, image])]))
    assert isinstance(response.message.content, list)
    assert [part["type"] for part in response.message.content] == ["text", "image"]
    assert response.text == "see"


# -- structured answers


def test_a_structured_answer_becomes_the_text() -> None:
    chat_model = ToolCallingModel(answers=[AIMessage("", tool_calls=[{"name": "answer", "args": {"n": 3}, "id": "1"}])])
    response = complete(chat_model, model_request(output=FORM))
    assert (json.loads(response.text), response.message.tool_calls, response.finish_reason) == ({"n": 3}, (), "stop")
    assert chat_model.received[0][1]["tool_choice"] == "any"


def test_json_text_is_accepted_as_a_structured_answer() -> None:
    assert complete(ToolCallingModel(answers=[AIMessage('{"n": 3}')]), model_request(output=FORM)).text == '{"n": 3}'


def test_a_model_without_tools_gets_the_schema_in_its_prompt() -> None:
    chat_model = ScriptedChatModel(answers=[AIMessage('{"n": 3}')])
    assert complete(chat_model, model_request(output=FORM, system="be kind")).text == '{"n": 3}'
    system = chat_model.received[0][0][0].text
    assert system.startswith("be kind\n\nAnswer with JSON alone")
    assert '"required": ["n"]' in system


@pytest.mark.parametrize("settings", [{"temperature": 0.5}, {"extra": {"effort": "low"}}])
def test_structured_requests_pass_on_settings(settings: dict[str, Any]) -> None:
    chat_model = ToolCallingModel(answers=[AIMessage("", tool_calls=[{"name": "answer", "args": {"n": 3}, "id": "1"}])])
    request = model_request(output=FORM, tools=(LOOK,), tool_choice="none", **settings)
    assert complete(chat_model, request).text == '{"n": 3}'
    sent = chat_model.received[0][1]
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["answer"]
    assert sent.items() >= {"tool_choice": "any", **settings.get("extra", settings)}.items()
    plain_model = ScriptedChatModel(answers=[AIMessage('{"n": 3}')])
    assert complete(plain_model, request).text == '{"n": 3}'
    assert plain_model.received[0][1] == settings.get("extra", settings)


def test_a_structured_request_with_tools_needs_tool_support() -> None:
    with pytest.raises(ModelError, match="does not support tools"):
        complete(ScriptedChatModel(answers=[]), model_request(output=FORM, tools=(LOOK,)))


def test_the_structured_answer_is_offered_as_one_more_tool() -> None:
    look = {"name": "look", "args": {}, "id": "1"}
    answer = {"name": "answer", "args": {"n": 3}, "id": "2"}
    chat_model = ToolCallingModel(
        answers=[AIMessage("", tool_calls=[look, answer]), AIMessage("", tool_calls=[answer])]
    )
    first = complete(chat_model, model_request(output=FORM, tools=(LOOK,)))
    assert [call.name for call in first.message.tool_calls] == ["look"]
    assert [tool["function"]["name"] for tool in chat_model.received[0][1]["tools"]] == ["look", "answer"]
    assert chat_model.received[0][1]["tool_choice"] == "any"
    second = complete(chat_model, model_request(output=FORM, tools=(LOOK,)))
    assert (second.text, second.finish_reason) == ('{"n": 3}', "stop")


def test_a_structured_answer_is_streamed_as_one_event() -> None:
    chat_model = ToolCallingModel(answers=[AIMessage("", tool_calls=[{"name": "answer", "args": {"n": 3}, "id": "1"}])])
    assert stream_events(chat_model, model_request(output=FORM))[0] == TextDelta('{"n": 3}')


@pytest.mark.parametrize("model", [ToolCallingModel, ScriptedChatModel])
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}])
def test_a_schema_other_than_an_object_is_wrapped_in_an_object(model: Any, settings: dict[str, Any]) -> None:
    form = OutputForm({"type": "array", "items": {"type": "integer"}}, "list[int]")
    call = {"name": "list_int", "args": {"value": [1]}, "id": "1"}
    answer = AIMessage("", tool_calls=[call]) if model is ToolCallingModel else AIMessage('{"value": [1]}')
    chat_model = model(answers=[answer, answer])
    assert complete(chat_model, model_request(output=form, **settings)).text == "[1]"
    assert stream_events(chat_model, model_request(output=form, **settings))[0] == TextDelta("[1]")
    if model is ToolCallingModel:
        (sent,) = chat_model.received[0][1]["tools"]
        function = sent.get("function") or {"name": sent["title"], "parameters": sent}
        assert (function["name"], function["parameters"]["type"]) == ("list_int", "object")


# -- streaming


def test_a_langchain_fake_streams_word_by_word() -> None:
    events = stream_events(GenericFakeChatModel(messages=iter([AIMessage("one two")])))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["one", " ", "two"]
    assert final_response(events).text == "one two"


def test_calls_are_streamed_as_deltas_and_joined_in_the_response() -> None:
    chunks = [
        AIMessageChunk([{"type": "thinking", "thinking": "hm"}], response_metadata={"model_provider": "anthropic"}),
        AIMessageChunk("", tool_call_chunks=[{"name": "look", "args": "", "id": "1", "index": 1}]),
        AIMessageChunk("", tool_call_chunks=[{"name": None, "args": '{"at": ', "id": None, "index": 1}]),
        AIMessageChunk("", tool_call_chunks=[{"name": "look", "args": '{"at": 1', "id": "2", "index": 2}]),
        AIMessageChunk("", tool_call_chunks=[{"name": None, "args": '"a"}', "id": None, "index": 1}]),
        AIMessageChunk(
            "",
            response_metadata={"finish_reason": "tool_calls", "model_name": "gpt"},
            usage_metadata={"input_tokens": 5, "output_tokens": 3, "total_tokens": 8},
        ),
        AIMessageChunk("", response_metadata={"finish_reason": "tool_calls", "model_name": "gpt"}),
    ]
    events = stream_events(StreamingModel(answers=[chunks]))
    assert events[:-1] == [
        ReasoningDelta("hm"),
        ToolCallDelta(0, "1", "look"),
        ToolCallDelta(0, arguments='{"at": '),
        ToolCallDelta(1, "2", "look", '{"at": 1'),
        ToolCallDelta(0, arguments='"a"}'),
        UsageUpdate(Usage(5, 3)),
    ]
    response = final_response(events)
    assert response.message.tool_calls == (
        ToolCall("1", "look", {"at": "a"}),
        ToolCall("2", "look", invalid='{"at": 1'),
    )
    assert (response.model, response.finish_reason, response.reasoning) == ("gpt", "tools", "hm")


def test_calls_without_an_index_are_distinguished_by_id() -> None:
    chunks = [
        AIMessageChunk("", tool_call_chunks=[{"name": "look", "args": "{}", "id": call_id, "index": None}])
        for call_id in "ab"
    ]
    events = stream_events(StreamingModel(answers=[chunks]))
    assert [event.index for event in events if isinstance(event, ToolCallDelta)] == [0, 1]
    assert [call.id for call in final_response(events).message.tool_calls] == ["a", "b"]


def test_a_model_without_streaming_yields_its_answer_at_once() -> None:
    answer = AIMessage("there", tool_calls=[{"name": "look", "args": {"at": "a"}, "id": "1"}])
    events = stream_events(ScriptedChatModel(answers=[answer]))
    assert events[:2] == [TextDelta("there"), ToolCallDelta(0, "1", "look", '{"at": "a"}')]
    assert final_response(events).message.tool_calls == (ToolCall("1", "look", {"at": "a"}),)


def test_closing_the_stream_closes_the_stream_of_the_model() -> None:
    chat_model = StreamingModel(answers=[[AIMessageChunk("a"), AIMessageChunk("b")]])

    async def read() -> None:
        stream = adapter(chat_model).stream(model_request())
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        assert chat_model.closed == [True]

    asyncio.run(read())


# -- errors


def status_error(status: int, **headers: str) -> Exception:
    response = httpx.Response(status, headers=headers, request=httpx.Request("POST", "http://x"))
    return httpx.HTTPStatusError(f"status {status}", request=response.request, response=response)


def test_provider_errors_are_translated_and_kept_as_the_cause() -> None:
    busy = status_error(429, **{"retry-after": "3"})
    with pytest.raises(ModelUnavailable, match=r"'ScriptedChatModel' failed: HTTPStatusError: status 429") as caught:
        complete(ScriptedChatModel(answers=[busy]))
    assert (caught.value.status, caught.value.retry_after, caught.value.__cause__) == (429, 3.0, busy)
    with pytest.raises(ModelError, match="A retry would not help") as other:
        complete(ScriptedChatModel(answers=[status_error(400)]))
    assert not isinstance(other.value, ModelUnavailable)


def test_errors_in_the_middle_of_a_stream_are_translated() -> None:
    with pytest.raises(ModelUnavailable, match="ConnectError"):
        stream_events(StreamingModel(answers=[[AIMessageChunk("half"), httpx.ConnectError("gone")]]))


def test_statewright_errors_are_not_translated() -> None:
    ours = ModelUnavailable("busy", retry_after=9.0)
    with pytest.raises(ModelUnavailable) as caught:
        complete(ScriptedChatModel(answers=[ours]))
    assert caught.value is ours


def test_a_model_that_exceeds_its_timeout_is_cancelled() -> None:
    slow = StreamingModel(answers=[[AIMessageChunk("a"), AIMessageChunk("b")]], pause=5.0)
    with pytest.raises(ModelUnavailable, match=r"within 0\.05 seconds"):
        stream_events(slow, model_request(timeout=0.05))
    assert slow.closed == [True]
    with pytest.raises(ModelUnavailable, match=r"within 0\.05 seconds"):
        complete(SlowModel(answers=[]), model_request(timeout=0.05))


def test_the_timeout_does_not_include_the_time_of_the_reader() -> None:
    class SkippingLoop(asyncio.SelectorEventLoop):
        """An event loop whose time can be advanced."""

        ahead = 0.0

        def time(self) -> float:
            return super().time() + self.ahead

    loop = SkippingLoop()

    async def read() -> int:
        count = 0
        chunks = [AIMessageChunk("a"), AIMessageChunk("b")]
        async for _ in adapter(StreamingModel(answers=[chunks])).stream(model_request(timeout=600)):
            count += 1
            loop.ahead += 1_000
            await asyncio.sleep(0)
        return count

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(read()) == 4


# -- the guard


def test_calls_are_forbidden_unless_the_model_is_known_to_be_fake() -> None:
    with forbid_model_calls():
        with pytest.raises(ModelError, match="forbidden"):
            asyncio.run(LangChainModel(ScriptedChatModel(answers=[AIMessage("x")])).complete(model_request()))
        assert complete(ScriptedChatModel(answers=[AIMessage("x")])).text == "x"
        fake = LangChainModel(FakeMessagesListChatModel(responses=[AIMessage("x")]))
        assert asyncio.run(fake.complete(model_request())).text == "x"


def test_calls_of_a_local_model_are_allowed() -> None:
    class Local(ScriptedChatModel):
        base_url: str = "http://localhost:11434"

    with forbid_model_calls():
        assert asyncio.run(LangChainModel(Local(answers=[AIMessage("x")])).complete(model_request())).text == "x"


def test_only_langchain_chat_models_are_accepted() -> None:
    with pytest.raises(InvalidConfig, match="7 of type int"):
        LangChainModel(7)

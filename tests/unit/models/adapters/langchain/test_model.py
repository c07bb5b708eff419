"""Chat models of LangChain: its own fakes, and small models written here."""

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


class Speaker(BaseChatModel):
    """Gives its answers one after another, and remembers what it was asked."""

    answers: list[Any]
    """Messages, or what is raised."""
    asked: list[tuple[list[BaseMessage], dict[str, Any]]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.asked.append((messages, {"stop": stop, **kwargs} if stop else kwargs))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Caller(Speaker):
    """A speaker that takes tools."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=list(tools), **kwargs)


class Streamer(Caller):
    """A caller whose answers are lists of chunks."""

    pause: float = 0.0
    closed: list[bool] = Field(default_factory=list)

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.asked.append((messages, kwargs))
        try:
            for chunk in self.answers.pop(0):
                if isinstance(chunk, Exception):
                    raise chunk
                yield ChatGenerationChunk(message=chunk)
                await asyncio.sleep(self.pause)
        finally:
            self.closed.append(True)


class Slow(Speaker):
    """A speaker that nobody has the time to wait for."""

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(5.0)
        return ChatResult(generations=[])


def model(chat_model: BaseChatModel) -> LangChainModel:
    return LangChainModel(chat_model, fake=True)


def request(*messages: Message, **settings: Any) -> ModelRequest:
    return ModelRequest(messages or (Message("hi"),), **settings)


def asked(chat_model: BaseChatModel, request_: ModelRequest | None = None) -> ModelResponse:
    return asyncio.run(model(chat_model).complete(request_ or request()))


def streamed(chat_model: BaseChatModel, request_: ModelRequest | None = None) -> list[ModelEvent]:
    async def read() -> list[ModelEvent]:
        return [event async for event in model(chat_model).stream(request_ or request())]

    return asyncio.run(read())


def finished(events: Sequence[ModelEvent]) -> ModelResponse:
    last = events[-1]
    assert isinstance(last, ResponseFinished)
    return last.response


# -- asking


def test_a_fake_of_langchain_answers() -> None:
    response = asked(FakeMessagesListChatModel(responses=[AIMessage("there")]))
    assert (response.text, response.message.role, response.usage) == ("there", "assistant", Usage())


def test_messages_are_handed_on_as_langchain_has_them() -> None:
    speaker = Speaker(answers=[AIMessage("x")])
    call, odd = ToolCall("1", "look", {"at": "a"}), ToolCall("2", "look", invalid="{")
    asked(
        speaker,
        request(
            Message("hi", id="ours", name="ann", metadata={"m": 1}),
            Message("look", role="assistant", tool_calls=(call, odd)),
            Message("seen", role="tool", tool_call_id="1", name="look"),
            Message("not made", role="tool", tool_call_id="2", name="look"),
            Message("more", role="system"),
            system="be kind",
        ),
    )
    (messages, settings) = speaker.asked[0]
    system, human, ai, tool, _, more = messages
    assert system == SystemMessage("be kind")
    assert human == HumanMessage("hi", name="ann")
    assert isinstance(ai, AIMessage)
    assert [(one["id"], one["args"]) for one in ai.tool_calls] == [("1", {"at": "a"})]
    assert [(one["id"], one["args"]) for one in ai.invalid_tool_calls] == [("2", "{")]
    assert tool == ToolMessage("seen", tool_call_id="1", name="look")
    assert more == SystemMessage("more")
    assert settings == {}


def test_settings_are_handed_on_if_they_are_given() -> None:
    speaker = Speaker(answers=[AIMessage("x")])
    asked(speaker, request(temperature=0.5, max_tokens=9, stop=("END",), seed=1, model="m", extra={"effort": "low"}))
    assert speaker.asked[0][1] == {
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
def test_tools_are_bound(settings: dict[str, Any], options: dict[str, Any]) -> None:
    caller = Caller(answers=[AIMessage("x")])
    asked(caller, request(tools=(LOOK,), **settings))
    function = {"name": "look", "description": "Looks.", "parameters": LOOK.parameters, "strict": True}
    assert caller.asked[0][1] == {"tools": [{"type": "function", "function": function}], **options}


def test_with_no_choice_no_tools_are_shown() -> None:
    caller = Caller(answers=[AIMessage("x")])
    asked(caller, request(tools=(LOOK,), tool_choice="none"))
    assert caller.asked[0][1] == {}


def test_a_model_that_takes_no_tools_is_told_of() -> None:
    with pytest.raises(ModelError, match=r"'Speaker' does not support tools.*look"):
        asked(Speaker(answers=[]), request(tools=(LOOK,)))


# -- reading


def test_calls_usage_model_and_reason_are_read() -> None:
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
    response = asked(Speaker(answers=[answer]))
    assert response.message.tool_calls == (ToolCall("1", "look", {"at": "a"}), ToolCall("2", "look", invalid="{"))
    assert response.usage == Usage(5, 3, 0.0, 2, 1)
    assert (response.model, response.finish_reason) == ("gpt", "tools")


@pytest.mark.parametrize(
    ("facts", "reason"),
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
def test_reasons_of_all_providers_are_understood(facts: dict[str, Any], reason: str | None) -> None:
    assert asked(Speaker(answers=[AIMessage("x", response_metadata=facts)])).finish_reason == reason


def test_thoughts_are_read_and_sent_back_as_they_were() -> None:
    blocks: list[Any] = [
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        {"type": "text", "text": "there"},
    ]
    speaker = Speaker(answers=[AIMessage(blocks, response_metadata={"model_provider": "anthropic"}), AIMessage("x")])
    first = asked(speaker)
    assert (first.text, first.message.content, first.reasoning) == ("there", "there", "hm")
    asked(speaker, request(Message("hi"), first.message, Message("go on")))
    assert speaker.asked[1][0][1].content == blocks


def test_what_was_changed_since_is_sent_as_it_is_now() -> None:
    blocks: list[Any] = [
        {"type": "text", "text": "there"},
        {"type": "tool_use", "id": "1", "name": "look", "input": {}},
    ]
    answer = AIMessage(blocks, tool_calls=[{"name": "look", "args": {}, "id": "1"}])
    speaker = Speaker(answers=[answer, AIMessage("x")])
    first = asked(speaker).message
    changed = Message(first.text, role="assistant", metadata=first.metadata)
    asked(speaker, request(Message("hi"), changed, Message("and?")))
    assert speaker.asked[1][0][1].content == "there"


def test_reasoning_beside_the_text_is_read() -> None:
    answer = AIMessage("there", additional_kwargs={"reasoning_content": "hm"})
    response = asked(Speaker(answers=[answer]))
    assert (response.text, response.reasoning) == ("there", "hm")


def test_parts_that_are_no_text_are_kept() -> None:
    image = {"type": "image", "url": "https://x/y.png"}
    response = asked(Speaker(answers=[AIMessage([{"type": "text", "text": "see"}, image])]))
    assert isinstance(response.message.content, list)
    assert [part["type"] for part in response.message.content] == ["text", "image"]
    assert response.text == "see"


# -- structured answers


def test_a_structured_answer_comes_as_text() -> None:
    caller = Caller(answers=[AIMessage("", tool_calls=[{"name": "answer", "args": {"n": 3}, "id": "1"}])])
    response = asked(caller, request(output=FORM))
    assert (json.loads(response.text), response.message.tool_calls, response.finish_reason) == ({"n": 3}, (), "stop")
    assert caller.asked[0][1]["tool_choice"] == "any"


def test_a_model_that_writes_json_itself_is_taken_at_its_word() -> None:
    assert asked(Caller(answers=[AIMessage('{"n": 3}')]), request(output=FORM)).text == '{"n": 3}'


def test_a_model_without_tools_is_asked_in_words() -> None:
    speaker = Speaker(answers=[AIMessage('{"n": 3}')])
    assert asked(speaker, request(output=FORM, system="be kind")).text == '{"n": 3}'
    system = speaker.asked[0][0][0].text
    assert system.startswith("be kind\n\nAnswer with JSON alone")
    assert '"required": ["n"]' in system


@pytest.mark.parametrize("settings", [{"temperature": 0.5}, {"extra": {"effort": "low"}}])
def test_with_settings_they_are_handed_on_too(settings: dict[str, Any]) -> None:
    caller = Caller(answers=[AIMessage("", tool_calls=[{"name": "answer", "args": {"n": 3}, "id": "1"}])])
    asked_with = request(output=FORM, tools=(LOOK,), tool_choice="none", **settings)
    assert asked(caller, asked_with).text == '{"n": 3}'
    sent = caller.asked[0][1]
    assert [one["function"]["name"] for one in sent["tools"]] == ["answer"]
    assert sent.items() >= {"tool_choice": "any", **settings.get("extra", settings)}.items()
    speaker = Speaker(answers=[AIMessage('{"n": 3}')])
    assert asked(speaker, asked_with).text == '{"n": 3}'
    assert speaker.asked[0][1] == settings.get("extra", settings)


def test_a_model_without_tools_is_told_of_where_there_are_some() -> None:
    with pytest.raises(ModelError, match="does not support tools"):
        asked(Speaker(answers=[]), request(output=FORM, tools=(LOOK,)))


def test_among_tools_the_answer_is_one_more() -> None:
    look = {"name": "look", "args": {}, "id": "1"}
    answer = {"name": "answer", "args": {"n": 3}, "id": "2"}
    caller = Caller(answers=[AIMessage("", tool_calls=[look, answer]), AIMessage("", tool_calls=[answer])])
    first = asked(caller, request(output=FORM, tools=(LOOK,)))
    assert [call.name for call in first.message.tool_calls] == ["look"]
    assert [one["function"]["name"] for one in caller.asked[0][1]["tools"]] == ["look", "answer"]
    assert caller.asked[0][1]["tool_choice"] == "any"
    second = asked(caller, request(output=FORM, tools=(LOOK,)))
    assert (second.text, second.finish_reason) == ('{"n": 3}', "stop")


def test_a_structured_answer_is_streamed_in_one_piece() -> None:
    caller = Caller(answers=[AIMessage("", tool_calls=[{"name": "answer", "args": {"n": 3}, "id": "1"}])])
    assert streamed(caller, request(output=FORM))[0] == TextDelta('{"n": 3}')


@pytest.mark.parametrize("model", [Caller, Speaker])
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}])
def test_a_form_that_is_no_object_is_sent_as_the_field_of_one(model: Any, settings: dict[str, Any]) -> None:
    form = OutputForm({"type": "array", "items": {"type": "integer"}}, "list[int]")
    given = {"name": "list_int", "args": {"value": [1]}, "id": "1"}
    answer = AIMessage("", tool_calls=[given]) if model is Caller else AIMessage('{"value": [1]}')
    speaker = model(answers=[answer, answer])
    assert asked(speaker, request(output=form, **settings)).text == "[1]"
    assert streamed(speaker, request(output=form, **settings))[0] == TextDelta("[1]")
    if model is Caller:
        (sent,) = speaker.asked[0][1]["tools"]
        function = sent.get("function") or {"name": sent["title"], "parameters": sent}
        assert (function["name"], function["parameters"]["type"]) == ("list_int", "object")


# -- streaming


def test_a_fake_of_langchain_streams_word_by_word() -> None:
    events = streamed(GenericFakeChatModel(messages=iter([AIMessage("one two")])))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["one", " ", "two"]
    assert finished(events).text == "one two"


def test_calls_are_streamed_in_pieces_and_read_as_they_were_written() -> None:
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
    events = streamed(Streamer(answers=[chunks]))
    assert events[:-1] == [
        ReasoningDelta("hm"),
        ToolCallDelta(0, "1", "look"),
        ToolCallDelta(0, arguments='{"at": '),
        ToolCallDelta(1, "2", "look", '{"at": 1'),
        ToolCallDelta(0, arguments='"a"}'),
        UsageUpdate(Usage(5, 3)),
    ]
    response = finished(events)
    assert response.message.tool_calls == (
        ToolCall("1", "look", {"at": "a"}),
        ToolCall("2", "look", invalid='{"at": 1'),
    )
    assert (response.model, response.finish_reason, response.reasoning) == ("gpt", "tools", "hm")


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    chunks = [
        AIMessageChunk("", tool_call_chunks=[{"name": "look", "args": "{}", "id": one, "index": None}]) for one in "ab"
    ]
    events = streamed(Streamer(answers=[chunks]))
    assert [event.index for event in events if isinstance(event, ToolCallDelta)] == [0, 1]
    assert [call.id for call in finished(events).message.tool_calls] == ["a", "b"]


def test_a_model_that_cannot_stream_comes_at_once() -> None:
    answer = AIMessage("there", tool_calls=[{"name": "look", "args": {"at": "a"}, "id": "1"}])
    events = streamed(Speaker(answers=[answer]))
    assert events[:2] == [TextDelta("there"), ToolCallDelta(0, "1", "look", '{"at": "a"}')]
    assert finished(events).message.tool_calls == (ToolCall("1", "look", {"at": "a"}),)


def test_a_reader_who_leaves_closes_the_stream_below() -> None:
    streamer = Streamer(answers=[[AIMessageChunk("a"), AIMessageChunk("b")]])

    async def read() -> None:
        stream = model(streamer).stream(request())
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        assert streamer.closed == [True]

    asyncio.run(read())


# -- errors


def status_error(status: int, **headers: str) -> Exception:
    response = httpx.Response(status, headers=headers, request=httpx.Request("POST", "http://x"))
    return httpx.HTTPStatusError(f"status {status}", request=response.request, response=response)


def test_an_error_of_the_provider_is_one_of_ours_with_its_cause() -> None:
    busy = status_error(429, **{"retry-after": "3"})
    with pytest.raises(ModelUnavailable, match=r"'Speaker' failed: HTTPStatusError: status 429") as caught:
        asked(Speaker(answers=[busy]))
    assert (caught.value.status, caught.value.retry_after, caught.value.__cause__) == (429, 3.0, busy)
    with pytest.raises(ModelError, match="A retry would not help") as other:
        asked(Speaker(answers=[status_error(400)]))
    assert not isinstance(other.value, ModelUnavailable)


def test_an_error_in_the_middle_of_a_stream_is_one_of_ours_too() -> None:
    with pytest.raises(ModelUnavailable, match="ConnectError"):
        streamed(Streamer(answers=[[AIMessageChunk("half"), httpx.ConnectError("gone")]]))


def test_an_error_of_ours_stays_what_it_is() -> None:
    ours = ModelUnavailable("busy", retry_after=9.0)
    with pytest.raises(ModelUnavailable) as caught:
        asked(Speaker(answers=[ours]))
    assert caught.value is ours


def test_a_model_that_takes_too_long_is_given_up() -> None:
    slow = Streamer(answers=[[AIMessageChunk("a"), AIMessageChunk("b")]], pause=5.0)
    with pytest.raises(ModelUnavailable, match=r"within 0\.05 seconds"):
        streamed(slow, request(timeout=0.05))
    assert slow.closed == [True]
    with pytest.raises(ModelUnavailable, match=r"within 0\.05 seconds"):
        asked(Slow(answers=[]), request(timeout=0.05))


def test_the_time_of_the_reader_does_not_count() -> None:
    class SkippingLoop(asyncio.SelectorEventLoop):
        """An event loop whose time can be advanced."""

        ahead = 0.0

        def time(self) -> float:
            return super().time() + self.ahead

    loop = SkippingLoop()

    async def read() -> int:
        count = 0
        chunks = [AIMessageChunk("a"), AIMessageChunk("b")]
        async for _ in model(Streamer(answers=[chunks])).stream(request(timeout=600)):
            count += 1
            loop.ahead += 1_000
            await asyncio.sleep(0)
        return count

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(read()) == 4


# -- the guard


def test_it_is_a_real_model_unless_it_is_known_to_be_none() -> None:
    with forbid_model_calls():
        with pytest.raises(ModelError, match="forbidden"):
            asyncio.run(LangChainModel(Speaker(answers=[AIMessage("x")])).complete(request()))
        assert asked(Speaker(answers=[AIMessage("x")])).text == "x"
        fake = LangChainModel(FakeMessagesListChatModel(responses=[AIMessage("x")]))
        assert asyncio.run(fake.complete(request())).text == "x"


def test_a_model_on_this_machine_may_be_asked() -> None:
    class Local(Speaker):
        base_url: str = "http://localhost:11434"

    with forbid_model_calls():
        assert asyncio.run(LangChainModel(Local(answers=[AIMessage("x")])).complete(request())).text == "x"


def test_only_chat_models_are_accepted() -> None:
    with pytest.raises(InvalidConfig, match="7 of type int"):
        LangChainModel(7)

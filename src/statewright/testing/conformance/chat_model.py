"""The conformance suite for chat models.

Derive a class from `ChatModelConformance`, and pytest collects its tests:

    class TestMyModel(ChatModelConformance):
        @contextmanager
        def chat_model(self, *answers):
            with ServerWithAnswers(answers) as server:
                yield MyModel(server.url)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, cast

from statewright.errors import ModelError
from statewright.messages import Message, ToolCall
from statewright.models import (
    ChatModel,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ResponseFinished,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    Usage,
    stream_model,
)

HELLO = Message("Hello, world: how are you?", role="assistant")
CALLS = Message(
    "",
    role="assistant",
    tool_calls=(ToolCall("call_1", "look_up", {"word": "tree"}), ToolCall("call_2", "look_up", {"word": "Öl"})),
)
LOOK_UP = ToolSpec(
    "look_up",
    "Look up a word.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
REQUEST = ModelRequest((Message("Hi."),), system="Be brief.", tools=(LOOK_UP,))

_RESULT = Message("found", role="tool", name="look_up", tool_call_id="call_1")
REJECTED: Final[Mapping[str, tuple[Message, ...]]] = {
    "no messages": (),
    "an assistant message at its end": (Message("Hi."), HELLO),
    "tool calls that have no results": (Message("Hi."), CALLS, Message("And?")),
    "one result for two tool calls": (Message("Hi."), CALLS, _RESULT, Message("And?")),
    "a result without a tool call": (Message("Hi."), _RESULT),
    "text that cannot be encoded": (Message("\ud800"),),
}
"""Conversations that a provider would reject. The keys complete the phrase "A conversation with ..."."""


class ChatModelConformance:
    """The requirements of the port `ChatModel`, one test each."""

    def chat_model(self, *answers: Message) -> AbstractContextManager[ChatModel]:
        """Return a context manager that yields a model, which answers its calls with these messages in turn.

        The answers do not depend on the requests.
        """
        raise NotImplementedError

    def test_the_answer_is_an_assistant_message(self) -> None:
        with self.chat_model(HELLO) as model:
            response = asyncio.run(model.complete(REQUEST))
        assert (response.message.role, response.text) == ("assistant", HELLO.text)
        assert response.message.tool_calls == ()

    def test_tool_calls_have_their_arguments(self) -> None:
        with self.chat_model(CALLS) as model:
            response = asyncio.run(model.complete(REQUEST))
        assert _calls_in(response.message) == _calls_in(CALLS)

    def test_a_stream_ends_with_the_complete_response(self) -> None:
        with self.chat_model(HELLO) as model:
            events = asyncio.run(_collect_events(model, REQUEST))
        assert _final_response(events).text == HELLO.text
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == HELLO.text
        assert [event for event in events[:-1] if isinstance(event, ResponseFinished)] == []

    def test_streamed_tool_calls_add_up_to_the_final_response(self) -> None:
        with self.chat_model(CALLS) as model:
            events = asyncio.run(_collect_events(model, REQUEST))
        assert _calls_in(_final_response(events).message) == _calls_in(CALLS)
        assert _assembled_calls(events) == _calls_in(CALLS)

    def test_a_conversation_may_contain_tool_results(self) -> None:
        results = [Message("found", role="tool", name="look_up", tool_call_id=call.id) for call in CALLS.tool_calls]
        request = ModelRequest((Message("Hi."), CALLS, *results), tools=(LOOK_UP,))
        with self.chat_model(HELLO) as model:
            assert asyncio.run(model.complete(request)).text == HELLO.text

    def test_an_invalid_conversation_is_rejected_before_it_is_sent(self) -> None:
        """A model must call `check_request` first, so that every model refuses the same requests."""
        with self.chat_model(HELLO) as model:
            for name, messages in REJECTED.items():
                for call_model in (model.complete, partial(_collect_events, model)):
                    try:
                        answer = asyncio.run(cast(Any, call_model(ModelRequest(messages, tools=(LOOK_UP,)))))
                    except ModelError:
                        continue
                    raise AssertionError(f"A conversation with {name} was answered: {answer!r}")
            assert asyncio.run(model.complete(REQUEST)).text == HELLO.text

    def test_usage_is_reported(self) -> None:
        with self.chat_model(HELLO) as model:
            usage = asyncio.run(model.complete(REQUEST)).usage
        assert isinstance(cast(Any, usage), Usage)
        assert min(usage.input_tokens, usage.output_tokens, usage.cost) >= 0

    def test_one_model_serves_several_event_loops_in_turn(self) -> None:
        with self.chat_model(HELLO, CALLS, HELLO) as model:
            responses = [asyncio.run(model.complete(REQUEST)) for _ in range(3)]
        assert [response.text for response in responses] == [HELLO.text, "", HELLO.text]

    def test_requests_may_be_concurrent(self) -> None:
        async def ask_all(model: ChatModel) -> list[ModelResponse]:
            return await asyncio.gather(*(model.complete(REQUEST) for _ in range(20)))

        with self.chat_model(*[HELLO] * 20) as model:
            assert {response.text for response in asyncio.run(ask_all(model))} == {HELLO.text}

    def test_a_stream_may_be_closed_early(self) -> None:
        async def close_early(model: ChatModel) -> ModelResponse:
            stream = stream_model(model, REQUEST)
            await anext(stream)
            await cast(Any, stream).aclose()
            return await model.complete(REQUEST)

        with self.chat_model(HELLO, HELLO) as model:
            assert asyncio.run(close_early(model)).text == HELLO.text


async def _collect_events(model: ChatModel, request: ModelRequest) -> list[ModelEvent]:
    stream: AsyncIterator[ModelEvent] = stream_model(model, request)
    return [event async for event in stream]


def _final_response(events: list[ModelEvent]) -> ModelResponse:
    last = events[-1]
    assert isinstance(last, ResponseFinished)
    return last.response


def _calls_in(message: Message) -> list[tuple[str, Any]]:
    """Return the name and the arguments of each tool call in a message."""
    return [(call.name, call.arguments) for call in message.tool_calls]


def _assembled_calls(events: list[ModelEvent]) -> list[tuple[str, Any]]:
    """Return the name and the arguments of each tool call, assembled from the deltas of a stream."""
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            names[event.index] = names.get(event.index) or event.name or ""
            texts[event.index] = texts.get(event.index, "") + event.arguments
    return [(names[index], json.loads(texts[index])) for index in sorted(names)]

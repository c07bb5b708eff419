"""What every chat model must do: derive from the suite, say how to make yours, and let pytest collect it.

class TestMyModel(ChatModelConformance):
    @contextmanager
    def chat_model(self, *answers):
        with a_server_that_gives(answers) as server:
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
ASKED = ModelRequest((Message("Hi."),), system="Be brief.", tools=(LOOK_UP,))

_FOUND = Message("found", role="tool", name="look_up", tool_call_id="call_1")
REFUSED: Final[Mapping[str, tuple[Message, ...]]] = {
    "no messages": (),
    "an answer at its end": (Message("Hi."), HELLO),
    "calls that have no results": (Message("Hi."), CALLS, Message("And?")),
    "one of two results": (Message("Hi."), CALLS, _FOUND, Message("And?")),
    "a result of no call": (Message("Hi."), _FOUND),
    "text that cannot be encoded": (Message("\ud800"),),
}
"""Conversations that a provider refuses, by what is wrong with them."""


class ChatModelConformance:
    """The promises of the port, one test each."""

    def chat_model(self, *answers: Message) -> AbstractContextManager[ChatModel]:
        """A model that gives these answers, one a call, whatever it is asked."""
        raise NotImplementedError

    def test_it_answers_with_a_message_of_the_assistant(self) -> None:
        with self.chat_model(HELLO) as model:
            response = asyncio.run(model.complete(ASKED))
        assert (response.message.role, response.text) == ("assistant", HELLO.text)
        assert response.message.tool_calls == ()

    def test_it_asks_for_tools_with_their_arguments(self) -> None:
        with self.chat_model(CALLS) as model:
            response = asyncio.run(model.complete(ASKED))
        assert _called(response) == _wanted(CALLS)

    def test_a_stream_ends_with_the_whole_answer(self) -> None:
        with self.chat_model(HELLO) as model:
            events = asyncio.run(_events(model, ASKED))
        assert _whole(events).text == HELLO.text
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == HELLO.text
        assert [event for event in events[:-1] if isinstance(event, ResponseFinished)] == []

    def test_calls_of_tools_come_in_pieces_that_make_the_whole(self) -> None:
        with self.chat_model(CALLS) as model:
            events = asyncio.run(_events(model, ASKED))
        assert _called(_whole(events)) == _wanted(CALLS)
        assert _pieced_together(events) == _wanted(CALLS)

    def test_results_of_tools_are_part_of_a_conversation(self) -> None:
        results = [Message("found", role="tool", name="look_up", tool_call_id=call.id) for call in CALLS.tool_calls]
        request = ModelRequest((Message("Hi."), CALLS, *results), tools=(LOOK_UP,))
        with self.chat_model(HELLO) as model:
            assert asyncio.run(model.complete(request)).text == HELLO.text

    def test_what_providers_refuse_is_refused_before_it_is_sent(self) -> None:
        """Call `check_request` first: then a program hears of its mistake whichever model it is tried with."""
        with self.chat_model(HELLO) as model:
            for name, messages in REFUSED.items():
                for ask in (model.complete, partial(_events, model)):
                    try:
                        answer = asyncio.run(cast(Any, ask(ModelRequest(messages, tools=(LOOK_UP,)))))
                    except ModelError:
                        continue
                    raise AssertionError(f"A conversation with {name} was answered: {answer!r}")
            assert asyncio.run(model.complete(ASKED)).text == HELLO.text

    def test_what_was_used_up_is_counted(self) -> None:
        with self.chat_model(HELLO) as model:
            usage = asyncio.run(model.complete(ASKED)).usage
        assert isinstance(cast(Any, usage), Usage)
        assert min(usage.input_tokens, usage.output_tokens, usage.cost) >= 0

    def test_it_serves_one_event_loop_after_another(self) -> None:
        with self.chat_model(HELLO, CALLS, HELLO) as model:
            responses = [asyncio.run(model.complete(ASKED)) for _ in range(3)]
        assert [response.text for response in responses] == [HELLO.text, "", HELLO.text]

    def test_it_serves_many_at_once(self) -> None:
        async def ask_all(model: ChatModel) -> list[ModelResponse]:
            return await asyncio.gather(*(model.complete(ASKED) for _ in range(20)))

        with self.chat_model(*[HELLO] * 20) as model:
            assert {response.text for response in asyncio.run(ask_all(model))} == {HELLO.text}

    def test_a_stream_may_be_left(self) -> None:
        async def leave(model: ChatModel) -> ModelResponse:
            stream = stream_model(model, ASKED)
            await anext(stream)
            await cast(Any, stream).aclose()
            return await model.complete(ASKED)

        with self.chat_model(HELLO, HELLO) as model:
            assert asyncio.run(leave(model)).text == HELLO.text


async def _events(model: ChatModel, request: ModelRequest) -> list[ModelEvent]:
    stream: AsyncIterator[ModelEvent] = stream_model(model, request)
    return [event async for event in stream]


def _whole(events: list[ModelEvent]) -> ModelResponse:
    last = events[-1]
    assert isinstance(last, ResponseFinished)
    return last.response


def _called(response: ModelResponse) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in response.message.tool_calls]


def _wanted(message: Message) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


def _pieced_together(events: list[ModelEvent]) -> list[tuple[str, Any]]:
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ToolCallDelta):
            names[event.index] = names.get(event.index) or event.name or ""
            texts[event.index] = texts.get(event.index, "") + event.arguments
    return [(names[index], json.loads(texts[index])) for index in sorted(names)]

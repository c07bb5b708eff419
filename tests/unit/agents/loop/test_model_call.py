"""Model calls of nodes: their cost, their log entries, and invalid answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from statewright import START, Budget, InMemorySaver, Runtime, StateGraph
from statewright.agents import Agent, ask
from statewright.errors import BudgetExceeded, ModelAnswerInvalid, ModelError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import ModelRequest, ModelResponse, ResponseFinished, ScriptedModel, TextDelta, Usage


def app(chat_model: Any, *, name: str | None = None, times: int = 1, **settings: Any) -> Any:
    graph = StateGraph({"messages": list})

    async def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        request = ModelRequest([Message("hi")], **settings)
        responses = [await ask(chat_model, request, runtime, name=name, position=position) for position in range(times)]
        return {"messages": [response.message for response in responses]}

    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(InMemorySaver())


def answers_of(chat_model: Any, **options: Any) -> list[Message]:
    return app(chat_model, **options).invoke({"messages": []}, thread_id="t")["messages"]


class StreamingModel:
    """Streams the given events."""

    def __init__(self, *events: Any) -> None:
        self._events = events
        self.closed = False

    async def complete(self, request: Any) -> Any:
        raise AssertionError("the stream has a reader")

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        try:
            for event in self._events:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.closed = True


WHOLE = ModelResponse(Message("a b", role="assistant"), Usage(1, 2), "m-1", "stop")


def test_the_answer_has_the_name_of_the_agent() -> None:
    assert answers_of(ScriptedModel(["x"]), name="Ann")[0].name == "Ann"
    assert answers_of(ScriptedModel([Message("x", name="own")]))[0].name == "own"


@pytest.mark.parametrize("budget", [Budget(max_tokens=1000), Budget(max_cost=0.4)])
def test_model_calls_count_against_the_budget(budget: Budget) -> None:
    message = Message("", role="assistant", tool_calls=(ToolCall("1", "nothing"),))
    model = ScriptedModel([ModelResponse(message, Usage(600, 500, 0.5))], repeat_last=True)
    with pytest.raises(BudgetExceeded):
        Agent("a", model=model, max_iter=9).run("go", budget=budget)
    assert len(model.requests) == 1


def test_the_log_contains_the_usage_but_no_text() -> None:
    message = Message("secret", role="assistant", tool_calls=(ToolCall("1", "dig"),))
    graph = app(ScriptedModel([ModelResponse(message, Usage(3, 4, 0.5), "m-1", "tools")]), name="Ann")
    graph.invoke({"messages": []}, thread_id="t")
    (event,) = [event for event in graph.get_events(thread_id="t") if event.kind == "model_called"]
    assert 0 < event.data.pop("seconds") < 60
    assert event.data == {
        "model": "m-1",
        "agent": "Ann",
        "input_tokens": 3,
        "output_tokens": 4,
        "cost": 0.5,
        "tools": ["dig"],
        "finish_reason": "tools",
    }


def test_a_slow_model_times_out_and_the_error_reports_it() -> None:
    calls: list[str] = []

    class HangingModel:
        name = "slow"

        async def complete(self, request: Any) -> Any:
            try:
                await asyncio.sleep(30)
            finally:
                calls.append("cancelled")

    with pytest.raises(ModelUnavailable, match=r"'slow' did not answer within 0.05 seconds"):
        answers_of(HangingModel(), timeout=0.05)
    assert calls == ["cancelled"]


def test_an_invalid_answer_is_an_error_that_names_the_adapter() -> None:
    class InvalidAdapter:
        async def complete(self, request: Any) -> Any:
            return "text"

    with pytest.raises(ModelAnswerInvalid, match=r"Model 'm-2' answered 'text'.*InvalidAdapter"):
        answers_of(InvalidAdapter(), model="m-2")


# -- streams


def read_stream(chat_model: Any, **options: Any) -> list[Any]:
    return [
        part for part, _ in app(chat_model, **options).stream({"messages": []}, thread_id="t", stream_mode="messages")
    ]


def test_chunks_have_the_id_of_the_saved_message() -> None:
    graph = app(StreamingModel(TextDelta("a "), TextDelta("b"), ResponseFinished(WHOLE)), name="Ann")
    parts = [message for message, _ in graph.stream({"messages": []}, thread_id="t", stream_mode="messages")]
    (saved,) = graph.get_state(thread_id="t").values["messages"]
    assert [message.text for message in parts][:2] == ["a ", "b"]
    assert {chunk.id for chunk in parts} == {saved.id}
    assert {message.name for message in parts} == {"Ann"}
    assert saved.text == "a b"


def test_two_answers_of_one_task_have_different_ids() -> None:
    parts = read_stream(ScriptedModel(["one", "two"]), times=2)
    assert len({chunk.id for chunk in parts if chunk.text}) == 2


@pytest.mark.parametrize("events", [[], [TextDelta("a")], [ResponseFinished(None)]])  # type: ignore[arg-type]
def test_a_stream_without_a_response_is_an_error_that_names_the_adapter(events: Any) -> None:
    with pytest.raises(ModelAnswerInvalid, match="StreamingModel"):
        read_stream(StreamingModel(*events))


def test_an_exception_of_a_stream_is_raised() -> None:
    model = StreamingModel(TextDelta("a"), ModelError("broken"))
    with pytest.raises(ModelError, match="broken"):
        read_stream(model)
    assert model.closed


def test_an_invalid_event_is_an_error_that_names_the_adapter() -> None:
    with pytest.raises(
        ModelAnswerInvalid, match=r"stream\(\) of .*StreamingModel yielded 'text', which is not a ModelEvent"
    ):
        read_stream(StreamingModel("text", TextDelta("a"), ResponseFinished(WHOLE)))


def test_a_stream_that_stalls_times_out_and_is_closed() -> None:
    class HangingModel(StreamingModel):
        async def stream(self, request: Any) -> AsyncIterator[Any]:
            try:
                yield TextDelta("a")
                await asyncio.sleep(30)
            finally:
                self.closed = True

    model = HangingModel()
    with pytest.raises(ModelUnavailable, match="not answer within"):
        read_stream(model, timeout=0.05)
    assert model.closed

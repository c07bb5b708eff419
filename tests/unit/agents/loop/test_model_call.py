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


def app(asks: Any, *, name: str | None = None, times: int = 1, **settings: Any) -> Any:
    graph = StateGraph({"messages": list})

    async def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        request = ModelRequest([Message("hi")], **settings)
        found = [await ask(asks, request, runtime, name=name, position=place) for place in range(times)]
        return {"messages": [one.message for one in found]}

    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(InMemorySaver())


def asked(asks: Any, **options: Any) -> list[Message]:
    return app(asks, **options).invoke({"messages": []}, thread_id="t")["messages"]


class Streams:
    """Streams what it is told to."""

    def __init__(self, *events: Any) -> None:
        self._events = events
        self.closed = False

    async def complete(self, request: Any) -> Any:
        raise AssertionError("somebody reads the stream")

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
    assert asked(ScriptedModel(["x"]), name="Ann")[0].name == "Ann"
    assert asked(ScriptedModel([Message("x", name="own")]))[0].name == "own"


@pytest.mark.parametrize("budget", [Budget(max_tokens=1000), Budget(max_cost=0.4)])
def test_it_counts_against_the_budget(budget: Budget) -> None:
    message = Message("", role="assistant", tool_calls=(ToolCall("1", "nothing"),))
    model = ScriptedModel([ModelResponse(message, Usage(600, 500, 0.5))], repeat_last=True)
    with pytest.raises(BudgetExceeded):
        Agent("a", model=model, max_iter=9).run("go", budget=budget)
    assert len(model.requests) == 1


def test_the_log_has_the_usage_but_no_text() -> None:
    message = Message("secret", role="assistant", tool_calls=(ToolCall("1", "dig"),))
    made = app(ScriptedModel([ModelResponse(message, Usage(3, 4, 0.5), "m-1", "tools")]), name="Ann")
    made.invoke({"messages": []}, thread_id="t")
    (event,) = [one for one in made.get_events(thread_id="t") if one.kind == "model_called"]
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
    left: list[str] = []

    class Hangs:
        name = "slow"

        async def complete(self, request: Any) -> Any:
            try:
                await asyncio.sleep(30)
            finally:
                left.append("cancelled")

    with pytest.raises(ModelUnavailable, match=r"'slow' did not answer within 0.05 seconds"):
        asked(Hangs(), timeout=0.05)
    assert left == ["cancelled"]


def test_an_adapter_that_answers_anything_else_is_named() -> None:
    class Odd:
        async def complete(self, request: Any) -> Any:
            return "text"

    with pytest.raises(ModelAnswerInvalid, match=r"Model 'm-2' answered 'text'.*Odd"):
        asked(Odd(), model="m-2")


# -- streams


def read(model: Any, **options: Any) -> list[Any]:
    return [part for part, _ in app(model, **options).stream({"messages": []}, thread_id="t", stream_mode="messages")]


def test_pieces_share_the_id_of_the_whole() -> None:
    made = app(Streams(TextDelta("a "), TextDelta("b"), ResponseFinished(WHOLE)), name="Ann")
    parts = [one for one, _ in made.stream({"messages": []}, thread_id="t", stream_mode="messages")]
    (kept,) = made.get_state(thread_id="t").values["messages"]
    assert [one.text for one in parts][:2] == ["a ", "b"]
    assert {one.id for one in parts} == {kept.id}
    assert {one.name for one in parts} == {"Ann"}
    assert kept.text == "a b"


def test_two_answers_of_one_task_have_two_ids() -> None:
    parts = read(ScriptedModel(["one", "two"]), times=2)
    assert len({one.id for one in parts if one.text}) == 2


@pytest.mark.parametrize("events", [[], [TextDelta("a")], [ResponseFinished(None)]])  # type: ignore[arg-type]
def test_a_stream_without_an_end_is_an_odd_answer(events: Any) -> None:
    with pytest.raises(ModelAnswerInvalid, match="Streams"):
        read(Streams(*events))


def test_a_stream_that_breaks_raises_what_broke_it() -> None:
    model = Streams(TextDelta("a"), ModelError("broken"))
    with pytest.raises(ModelError, match="broken"):
        read(model)
    assert model.closed


def test_an_invalid_event_is_an_error_that_names_the_adapter() -> None:
    with pytest.raises(ModelAnswerInvalid, match=r"stream\(\) of .*Streams yielded 'text', which is not a ModelEvent"):
        read(Streams("text", TextDelta("a"), ResponseFinished(WHOLE)))


def test_a_stream_that_stalls_times_out_and_is_closed() -> None:
    class Hangs(Streams):
        async def stream(self, request: Any) -> AsyncIterator[Any]:
            try:
                yield TextDelta("a")
                await asyncio.sleep(30)
            finally:
                self.closed = True

    model = Hangs()
    with pytest.raises(ModelUnavailable, match="not answer within"):
        read(model, timeout=0.05)
    assert model.closed

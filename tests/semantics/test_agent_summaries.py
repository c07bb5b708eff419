"""Summaries in agent memories: which responses are accepted, and that each summary is made once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statewright import Budget, InMemorySaver, RetryPolicy
from statewright.agents import Agent, State, UsageLimits, create_agent, tool
from statewright.agents.memory import Buffer, Summarizing
from statewright.errors import ModelError, ModelUnavailable
from statewright.messages import Message, ToolCall
from statewright.models import FinishReason, ModelRequest, ModelResponse, ScriptedModel, Usage
from statewright.storage.sqlite import SqliteSaver

PRICE = Usage(100, 10, 1.0)


def respond(text: str, *calls: ToolCall, reason: FinishReason | None = None) -> ModelResponse:
    return ModelResponse(Message(text, role="assistant", tool_calls=calls), PRICE, None, reason)


@tool
def look(at: int = 0) -> str:
    """Look."""
    return f"seen {at}"


def look_twice(request: ModelRequest) -> ModelResponse:
    """Call the tool twice in each turn, then end."""
    last = request.messages[-1]
    if last.role == "user":
        return respond("", ToolCall("first", "look", {"at": 1}))
    return respond("end") if last.text == "seen 2" else respond("", ToolCall("second", "look", {"at": 2}))


MEMORIES: dict[str, Callable[[Any], Any]] = {
    "summarizing": lambda summaries: Summarizing(summaries, keep=1, after=2),
    "buffer": lambda summaries: Buffer(4, summarize=summaries),
    "buffer of tokens": lambda summaries: Buffer(max_tokens=60, summarize=summaries),
}


def turn_function(form: str, memory: Any, model: Any, saver: Any) -> Callable[[str], Any]:
    """Return a function that runs one turn on a thread, with a new agent and memory, as in a new process."""

    def network(text: str) -> Any:
        agent = Agent("A", model=model, tools=[look], max_iter=5, memory=memory())
        return agent.alone().run(text, checkpointer=saver, thread_id="t")

    def prebuilt(text: str) -> Any:
        app = create_agent(model, [look], memory=memory(), checkpointer=saver)
        return app.invoke({"messages": [text]}, thread_id="t")

    return network if form == "network" else prebuilt


# -- answers that are not a summary

INVALID_SUMMARIES = {
    "refused": respond("I'm sorry, I can't help with that.", reason="refused"),
    "cut off": respond("They spoke of", reason="length"),
    "empty": respond(" "),
    "call": respond("I look.", ToolCall("1", "look")),
}


@pytest.mark.parametrize("form", ["network", "prebuilt"])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", INVALID_SUMMARIES)
def test_an_invalid_summary_is_not_used(form: str, memory: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    answer = INVALID_SUMMARIES[kind]
    requested: list[int] = []
    number = 0

    def summarise(request: ModelRequest) -> ModelResponse:
        requested.append(number)
        return answer if number < 5 else respond("A good summary.")

    model, summaries = ScriptedModel(look_twice), ScriptedModel(summarise)
    turn = turn_function(form, lambda: MEMORIES[memory](summaries), model, InMemorySaver())
    with caplog.at_level(logging.WARNING, "statewright"):
        for number in range(5):
            turn(f"fact {number} " + "y" * 40)
    assert 0 < len(requested) == len(set(requested)), "no summary, or several in one turn"
    lines = [record.getMessage() for record in caplog.records if "did not summarize" in record.getMessage()]
    assert len(lines) == len(requested)
    for request in model.requests:
        prompt = "\n".join(message.text for message in request.messages)
        assert "Summary of the conversation" not in prompt
        assert answer.text.strip() not in prompt or not answer.text.strip()
        if memory == "summarizing":
            texts = [message.text for message in request.messages if message.role == "user"]
            assert [text[:6] for text in texts] == [f"fact {number}" for number in range(len(texts))]
        elif memory == "buffer":
            assert len(request.messages) <= 4
    before, number = len(model.requests), 5
    turn("fact 5")
    first = model.requests[before].messages
    assert first[0].text == "Summary of the conversation up to here:\nA good summary."
    assert first[-1].text == "fact 5"


# -- summaries are made once


def failing_after_a_summary(faults: list[Exception]) -> ScriptedModel:
    """Return a model that raises each of the errors once, when its prompt has a summary."""

    def answer(request: ModelRequest) -> ModelResponse:
        if faults and request.messages[0].text.startswith("Summary"):
            raise faults.pop()
        return look_twice(request)

    return ScriptedModel(answer)


@pytest.mark.parametrize("form", ["network", "prebuilt"])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", ["error", "unavailable", "many unavailable"])
@pytest.mark.parametrize("process", ["same", "another"])
@pytest.mark.sampled(4)
def test_a_summary_is_made_once_although_the_answer_fails(
    form: str, memory: str, kind: str, process: str, tmp_path: Path
) -> None:
    faults: dict[str, list[Exception]] = {
        "error": [ModelError("no"), ModelError("no")],
        "unavailable": [ModelUnavailable("busy")],
        "many unavailable": [ModelUnavailable("busy") for _ in range(12)],
    }
    remaining, count = faults[kind], len(faults[kind])
    model, summaries = (
        failing_after_a_summary(remaining),
        ScriptedModel(lambda _: respond(f"S{len(summaries.requests)}")),
    )
    shared = MEMORIES[memory](summaries)
    make_memory = lambda: shared if process == "same" else MEMORIES[memory](summaries)  # noqa: E731

    def turn(message: Any) -> Any:
        with SqliteSaver(tmp_path / "a.db") as saver:
            options: Any = {"retries": RetryPolicy(initial_interval=0, jitter=False, retry_on=ModelUnavailable)}
            if form == "network":
                agent = Agent("A", model=model, tools=[look], max_iter=5, memory=make_memory(), **options)
                return agent.alone().run(message, checkpointer=saver, thread_id="t")
            app = create_agent(model, [look], memory=make_memory(), checkpointer=saver, **options)
            return app.invoke({"messages": [message]} if message is not None else None, thread_id="t")

    end = None
    for number in range(3):
        message: Any = f"fact {number} " + "y" * 40
        while True:
            try:
                end = turn(message)
                break
            except ModelError:
                message = None
    assert not remaining
    prompt = [request.messages[0].text for request in summaries.requests]
    assert len(prompt) == len(set(prompt)), "a summary was made twice"
    if form == "network":
        assert end.usage.cost == len(summaries.requests) + len(model.requests) - count


def test_the_budget_counts_a_summary_once() -> None:
    faults = [ModelUnavailable("busy")]

    def answer(request: ModelRequest) -> ModelResponse:
        if faults:
            raise faults.pop()
        return respond("end")

    summaries = ScriptedModel(lambda request: respond("S"))
    app = create_agent(
        ScriptedModel(answer),
        memory=Summarizing(summaries, keep=1, after=2),
        retries=RetryPolicy(initial_interval=0, jitter=False, retry_on=ModelUnavailable),
        post_model_hook=lambda state: {},  # a superstep after the model, before which the budget is checked
    )
    app.invoke({"messages": [f"message {number}" for number in range(4)]}, budget=Budget(max_cost=2.5))
    assert (len(summaries.requests), faults) == (1, [])


def test_a_usage_limit_counts_a_reused_summary_once() -> None:
    model = failing_after_a_summary([ModelUnavailable("busy"), ModelUnavailable("busy")])
    summaries = ScriptedModel(lambda request: respond("S"))
    agent = Agent(
        "A",
        model=model,
        memory=Summarizing(summaries, keep=1, after=2),
        retries=RetryPolicy(initial_interval=0, jitter=False, retry_on=ModelUnavailable),
    )
    network = agent.alone(usage_limits=UsageLimits(requests=2))
    run = network.run("go", state=State(messages=[f"message {number}" for number in range(4)]))
    assert (len(summaries.requests), run.usage.cost, run.stop_reason) == (1, 2.0, "usage_limit")

"""Summaries of agents' memories: which answers are taken for one, and that each is paid once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.agents import Agent, create_agent, tool
from statewright.agents.memory import Buffer, Summarizing
from statewright.messages import Message, ToolCall
from statewright.models import FinishReason, ModelRequest, ModelResponse, ScriptedModel, Usage

PRICE = Usage(100, 10, 1.0)


def says(text: str, *calls: ToolCall, reason: FinishReason | None = None) -> ModelResponse:
    return ModelResponse(Message(text, role="assistant", tool_calls=calls), PRICE, None, reason)


@tool
def look(at: int = 0) -> str:
    """Look."""
    return f"seen {at}"


def works(request: ModelRequest) -> ModelResponse:
    """Look twice in each turn, then end."""
    last = request.messages[-1]
    if last.role == "user":
        return says("", ToolCall("first", "look", {"at": 1}))
    return says("end") if last.text == "seen 2" else says("", ToolCall("second", "look", {"at": 2}))


MEMORIES: dict[str, Callable[[Any], Any]] = {
    "summarizing": lambda summaries: Summarizing(summaries, keep=1, after=2),
    "buffer": lambda summaries: Buffer(4, summarize=summaries),
    "buffer of tokens": lambda summaries: Buffer(max_tokens=60, summarize=summaries),
}


def turns(form: str, memory: Any, model: Any, saver: Any) -> Callable[[str], Any]:
    """Run one turn on a thread; strategies and agents are made anew for each, as in processes of their own."""

    def network(text: str) -> Any:
        agent = Agent("A", model=model, tools=[look], max_iter=5, memory=memory())
        return agent.alone().run(text, checkpointer=saver, thread_id="t")

    def prebuilt(text: str) -> Any:
        app = create_agent(model, [look], memory=memory(), checkpointer=saver)
        return app.invoke({"messages": [text]}, thread_id="t")

    return network if form == "network" else prebuilt


# -- answers that are no summary

NO_SUMMARIES = {
    "refused": says("I'm sorry, I can't help with that.", reason="refused"),
    "cut off": says("They spoke of", reason="length"),
    "empty": says(" "),
    "call": says("I look.", ToolCall("1", "look")),
}


@pytest.mark.parametrize("form", ["network", "prebuilt"])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", NO_SUMMARIES)
def test_an_answer_that_is_no_summary_never_becomes_the_memory(
    form: str, memory: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = NO_SUMMARIES[kind]
    asked: list[int] = []
    number = 0

    def summarise(request: ModelRequest) -> ModelResponse:
        asked.append(number)
        return answer if number < 5 else says("A good summary.")

    model, summaries = ScriptedModel(works), ScriptedModel(summarise)
    turn = turns(form, lambda: MEMORIES[memory](summaries), model, InMemorySaver())
    with caplog.at_level(logging.WARNING, "statewright"):
        for number in range(5):
            turn(f"fact {number} " + "y" * 40)
    assert 0 < len(asked) == len(set(asked)), "asked again within a turn"
    lines = [one.getMessage() for one in caplog.records if "asked to summarise" in one.getMessage()]
    assert len(lines) == len(asked)
    for request in model.requests:
        told = "\n".join(message.text for message in request.messages)
        assert "Summary of the conversation" not in told
        assert answer.text.strip() not in told or not answer.text.strip()
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

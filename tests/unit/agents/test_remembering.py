"""Memory strategies in the requests of agents."""

from __future__ import annotations

from typing import Any

import pytest

from statewright import Budget, InMemoryStore, Message, ToolCall
from statewright.agents import Agent, create_agent
from statewright.agents.memory import MemoryContext, SlidingWindow, Summarizing
from statewright.errors import BudgetExceeded
from statewright.models import ModelResponse, ScriptedModel, Usage

TALK = [Message(f"{role} {number}", role=role) for number in range(4) for role in ("user", "assistant")]


class RecordingStrategy:
    """Selects all messages, and records the contexts."""

    def __init__(self) -> None:
        self.contexts: list[MemoryContext] = []

    async def select(self, messages: Any, *, context: MemoryContext) -> Any:
        self.contexts.append(context)
        return messages


def test_all_messages_are_sent_without_a_strategy() -> None:
    model = ScriptedModel(["x"])
    create_agent(model).invoke({"messages": [*TALK, "now"]})
    assert len(model.requests[0].messages) == 9


def test_a_strategy_selects_sent_messages_and_the_state_keeps_all() -> None:
    model = ScriptedModel(["x"])
    state = create_agent(model, memory=SlidingWindow(2)).invoke({"messages": [*TALK, "now"]})
    assert [message.text for message in model.requests[0].messages] == ["now"]
    assert len(state["messages"]) == 10


def test_a_strategy_receives_the_query_and_the_store() -> None:
    strategy, store = RecordingStrategy(), InMemoryStore()
    create_agent(ScriptedModel(["x"]), memory=strategy, store=store).invoke({"messages": [*TALK, "now"]})
    assert (strategy.contexts[0].query, strategy.contexts[0].store) == ("now", store)


def test_an_agent_of_a_network_can_have_a_strategy() -> None:
    model = ScriptedModel(["x"])
    Agent("a", model=model, memory=SlidingWindow(1)).run("now")
    assert [message.text for message in model.requests[0].messages] == ["now"]


def look() -> str:
    """Look."""
    return "seen"


def test_summaries_count_against_the_budget() -> None:
    costly = ModelResponse(Message("summed up", role="assistant"), Usage(900, 200))
    summarizer = ScriptedModel([costly], repeat_last=True)
    model = ScriptedModel([ToolCall("1", "look", {}), "x"])
    app = create_agent(model, [look], memory=Summarizing(summarizer, keep=1, after=2))
    with pytest.raises(BudgetExceeded):
        app.invoke({"messages": [*TALK, "now"]}, budget=Budget(max_tokens=1000))
    assert len(summarizer.requests) == 1

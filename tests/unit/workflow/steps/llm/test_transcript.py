"""The journal of a conversation. Most tests are in `tests/semantics/test_steps_conversations.py`."""

from __future__ import annotations

from typing import Any

import pytest

from statewright import END, START, InMemorySaver, StateGraph
from statewright.errors import InternalError
from statewright.workflow.steps.llm.conversation import ConversationJournal


class Crash(BaseException):
    """Simulates that the process is killed."""


def test_a_conversation_needs_a_node() -> None:
    with pytest.raises(InternalError, match="outside a node"):
        ConversationJournal()


def test_each_call_of_a_conversation_is_made_once_until_it_is_abandoned() -> None:
    calls: list[str] = []
    crashes = [True, True]

    async def talk(state: Any) -> Any:
        transcript = ConversationJournal()

        async def word() -> str:
            calls.append(f"word {len(calls)}")
            return calls[-1]

        words = [await transcript.call_once("say", word) for _ in range(len(calls) % 2 + 1)]
        if len(crashes) == 1:
            await transcript.abandon()
        if crashes:
            crashes.pop()
            raise Crash
        return {"words": words}

    graph = StateGraph({"words": list})
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    graph.add_edge("talk", END)
    app = graph.compile(InMemorySaver())
    with pytest.raises(Crash):
        app.invoke({"words": []}, thread_id="t")
    assert calls == ["word 0"]
    with pytest.raises(Crash):
        app.invoke(None, thread_id="t")
    assert calls == ["word 0", "word 1"]
    assert app.invoke(None, thread_id="t") == {"words": ["word 2"]}

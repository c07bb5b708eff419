"""What a step keeps of a conversation. Most is in `tests/semantics/test_steps_conversations.py`."""

from __future__ import annotations

from typing import Any

import pytest

from statewright import END, START, InMemorySaver, StateGraph
from statewright.errors import InternalError
from statewright.workflow.steps.llm.conversation import ConversationJournal


class Crash(BaseException):
    """The process is killed."""


def test_a_conversation_belongs_to_a_node() -> None:
    with pytest.raises(InternalError, match="outside a node"):
        ConversationJournal()


def test_each_place_of_a_conversation_is_reached_once_until_it_is_given_up() -> None:
    made: list[str] = []
    deaths = [True, True]

    async def talk(state: Any) -> Any:
        transcript = ConversationJournal()

        async def word() -> str:
            made.append(f"word {len(made)}")
            return made[-1]

        said = [await transcript.call_once("say", word) for _ in range(len(made) % 2 + 1)]
        if len(deaths) == 1:
            await transcript.abandon()
        if deaths:
            deaths.pop()
            raise Crash
        return {"said": said}

    graph = StateGraph({"said": list})
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    graph.add_edge("talk", END)
    app = graph.compile(InMemorySaver())
    with pytest.raises(Crash):
        app.invoke({"said": []}, thread_id="t")
    assert made == ["word 0"]
    with pytest.raises(Crash):
        app.invoke(None, thread_id="t")
    assert made == ["word 0", "word 1"]
    assert app.invoke(None, thread_id="t") == {"said": ["word 2"]}

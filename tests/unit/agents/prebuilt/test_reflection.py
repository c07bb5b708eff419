"""Drafts, critiques and revisions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from statewright import START, Command, StateGraph
from statewright.agents import AgentState, tool
from statewright.agents.prebuilt.reflection import create_reflection
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidConfig, ModelAnswerInvalid
from statewright.messages import ToolCall
from statewright.models import ModelRequest, ScriptedModel

HI = {"messages": ["write"]}
SATISFIED = json.dumps({"satisfied": True})


def unsatisfied(text: str) -> str:
    return json.dumps({"satisfied": False, "critique": text})


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


def test_a_draft_is_revised_until_the_critic_is_satisfied() -> None:
    critic = ScriptedModel([unsatisfied("shorter"), SATISFIED])
    result = create_reflection(ScriptedModel(["long", "short"]), critic_model=critic).invoke(HI)

    assert texts(result) == ["write", "short"]
    assert (result["drafts"], result["critiques"], result["stop_reason"]) == (
        ["long", "short"],
        ["shorter", ""],
        "satisfied",
    )


def test_a_revision_receives_all_drafts_and_critiques() -> None:
    author = ScriptedModel(["one", "two", "three"])
    create_reflection(
        author, critic_model=ScriptedModel([unsatisfied("x"), unsatisfied("y")]), prompt="You write."
    ).invoke(HI)

    messages = author.requests[2].messages
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [message.text.splitlines()[-1] for message in messages] == ["write", "one", "x", "two", "y"]
    assert author.requests[2].system == "You write."


def test_the_critic_receives_only_the_conversation_and_the_draft() -> None:
    critic = ScriptedModel([unsatisfied("x"), SATISFIED])
    create_reflection(ScriptedModel(["one", "two"]), critic_model=critic, critic_prompt="Be hard.").invoke(HI)

    assert critic.requests[1].system == "Be hard."
    assert [message.text for message in critic.requests[1].messages][:2] == ["write", "two"]
    assert critic.requests[1].messages[-1].role == "user"


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_iterations_limits_the_drafts_and_the_last_has_no_critique(limit: int) -> None:
    author = ScriptedModel(["one", "two", "three", "four"])
    critic = ScriptedModel([unsatisfied("more")], repeat_last=True)
    result = create_reflection(author, critic_model=critic, max_iterations=limit).invoke(HI)

    assert (len(result["drafts"]), len(critic.requests), result["stop_reason"]) == (limit, limit - 1, "max_iterations")
    assert texts(result)[-1] == ["one", "two", "three"][limit - 1]


def test_one_model_can_be_author_and_critic() -> None:
    model = ScriptedModel(lambda request: SATISFIED if request.output is not None else "a draft")

    assert texts(create_reflection(model).invoke(HI)) == ["write", "a draft"]


def test_stop_when_ends_the_reflection() -> None:
    seen: list[Any] = []

    async def enough(draft: str, critique: str, iteration: int) -> bool:
        seen.append((draft, critique, iteration))
        return iteration == 2

    app = create_reflection(
        ScriptedModel(["one", "two"]),
        critic_model=ScriptedModel([unsatisfied("x"), unsatisfied("y")]),
        stop_when=enough,
        max_iterations=9,
    )
    assert app.invoke(HI)["stop_reason"] == "stop_when"
    assert seen == [("one", "x", 1), ("two", "y", 2)]


@pytest.mark.parametrize("invalid", ["Not good.", '{"satisfied": false}', '{"critique": "x"}'])
def test_an_invalid_critique_is_requested_again(invalid: str) -> None:
    critic = ScriptedModel([invalid, SATISFIED])

    assert create_reflection(ScriptedModel(["one"]), critic_model=critic).invoke(HI)["stop_reason"] == "satisfied"
    assert len(critic.requests) == 2


def test_repeated_invalid_critiques_raise_an_error_and_keep_the_draft(saver: Checkpointer) -> None:
    author, critic = ScriptedModel(["one"]), ScriptedModel(["no", "no", "no", SATISFIED])
    app = create_reflection(author, critic_model=critic, checkpointer=saver)

    with pytest.raises(ModelAnswerInvalid, match="'Critique' in 3 answers"):
        app.invoke(HI, thread_id="1")
    assert texts(app.invoke(None, thread_id="1")) == ["write", "one"]
    assert len(author.requests) == 1


def test_a_new_turn_of_a_thread_starts_without_drafts(saver: Checkpointer) -> None:
    app = create_reflection(
        ScriptedModel(["one", "two", "three"]),
        critic_model=ScriptedModel([unsatisfied("x"), SATISFIED, SATISFIED]),
        checkpointer=saver,
    )
    app.invoke(HI, thread_id="1")
    result = asyncio.run(app.ainvoke({"messages": ["again"]}, thread_id="1"))

    assert texts(result) == ["write", "two", "again", "three"]
    assert (result["drafts"], result["critiques"]) == (["three"], [""])


def test_an_interrupt_in_a_tool_of_the_author_can_be_resumed(saver: Checkpointer) -> None:
    @tool(approve=True)
    def look() -> str:
        """Look."""
        return "seen"

    def script(request: ModelRequest) -> Any:
        last = request.messages[-1]
        return f"I have {last.text}" if last.role == "tool" else ToolCall("1", "look")

    author = ScriptedModel(script)
    app = create_reflection(author, tools=[look], critic_model=ScriptedModel([SATISFIED]), checkpointer=saver)

    assert app.invoke(HI, thread_id="1")["__interrupt__"][0].value["tool"] == "look"
    assert texts(app.invoke(Command(resume=True), thread_id="1")) == ["write", "I have seen"]
    assert len(author.requests) == 2


def test_a_reflection_can_be_drawn_streamed_and_used_as_a_node() -> None:
    app = create_reflection(ScriptedModel(["a draft"]), critic_model=ScriptedModel([SATISFIED]))
    arrows = {(edge.source.split(":")[-1], edge.target.split(":")[-1]) for edge in app.get_graph().edges}
    assert {("draft", "critique"), ("critique", "revise"), ("revise", "critique")} < arrows

    outer = StateGraph(AgentState).add_node("write", app).add_edge(START, "write").compile()
    parts = [part for _, part in outer.stream(HI, stream_mode="messages", subgraphs=True)]
    assert {("reflection", "a"), ("reflection", " draft")} <= {(chunk.name, chunk.text) for chunk, _ in parts}


def test_zero_iterations_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="max_iterations of reflection 'reflection' is 0"):
        create_reflection(ScriptedModel([]), max_iterations=0)

"""The beginning of a network's run."""

from __future__ import annotations

from datetime import UTC, datetime

from statewright import InMemorySaver, Message
from statewright.agents import Agent, AgentResult, Network, State
from statewright.models import ScriptedModel
from statewright.models.conversation.prepare import YOUR_TURN

_NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def once(network: object, call_count: int) -> str | None:
    return None if call_count else "a"


def network(**options: object) -> Network[object]:
    agent = Agent("a", model=ScriptedModel(["one", "two", "three"]))
    return Network("n", agents=[agent], router=once, **options)  # type: ignore[arg-type]


def texts(owner: Network[object], call: int) -> list[str]:
    return [message.text for message in owner.agents["a"].model.requests[call].messages]


def test_a_new_conversation_starts_with_the_defaults_of_the_network() -> None:
    old = AgentResult(agent_name="a", messages=[Message("before", role="assistant")], created_at=_NOON)
    owner = network(state=State({"n": 1}, messages=["seed"], results=[old], thread_id="owner's"))
    run = owner.run("hi")
    assert texts(owner, 0) == ["seed", "before", "hi"]
    assert (dict(run.state.data), run.state.thread_id) == ({"n": 1}, "owner's")
    assert [result.text for result in run.results] == ["before", "one"]


def test_a_second_turn_continues_with_the_state_of_the_first() -> None:
    owner, saver = network(state={"n": 1}), InMemorySaver()
    owner.run("hi", checkpointer=saver, thread_id="t")
    run = owner.run("and?", checkpointer=saver, thread_id="t")
    assert texts(owner, 1) == ["hi", "one", "and?"]
    assert (run.call_count, [result.text for result in run.results]) == (1, ["one", "two"])


def test_the_state_of_a_run_replaces_the_defaults() -> None:
    owner, saver = network(state={"n": 1}), InMemorySaver()
    owner.run("hi", checkpointer=saver, thread_id="t")
    run = owner.run("new", state={"n": 5}, checkpointer=saver, thread_id="t")
    assert texts(owner, 1) == ["new"]
    assert dict(run.state.data) == {"n": 5}


def test_an_input_without_content_is_not_a_turn() -> None:
    owner = network()
    owner.run("")
    assert texts(owner, 0) == [YOUR_TURN]  # no provider takes an empty conversation

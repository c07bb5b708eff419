"""The views of a network's state for agents and routers."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from statewright import Message
from statewright.agents import Agent, AgentResult, Network
from statewright.agents.network.state import build_agent_call, build_run_view, results_of_run, run_agents, usage_of_run
from statewright.errors import RoutingError
from statewright.models import ScriptedModel, Usage

AT = datetime(2026, 1, 2, tzinfo=UTC)
INFO = SimpleNamespace(workspace="default", thread_id="t", run_id="r", namespace="")
RUNTIME = cast(Any, SimpleNamespace(execution_info=INFO))


def result(name: str, tokens: int = 0) -> AgentResult:
    message = Message(name, role="assistant")
    return AgentResult(agent_name=name, messages=[message], created_at=AT, usage=Usage(tokens), requests=1)


STATE = {
    "data.n": 1,
    "turns": [result("a", 100), result("user"), result("a", 10), result("b", 20)],
    "first": 2,
    "routed": [result("router", 5)],
    "queue": ["b"],
    "call_count": 2,
    "message": Message("hi"),
}


def network(default: Any = None) -> Network[Any]:
    return Network("n", agents=[Agent("a"), Agent("b")], router=lambda: None, default_model=default)


def test_the_results_of_a_run_exclude_older_turns() -> None:
    assert [result.agent_name for result in results_of_run(STATE)] == ["a", "b"]


def test_the_usage_of_a_run_includes_routers() -> None:
    assert usage_of_run(STATE) == (Usage(35), 3)
    assert usage_of_run({}) == (Usage(), 0)


def test_a_call_receives_the_data_and_the_run_of_the_network() -> None:
    owner = network(ScriptedModel([]))
    call = build_agent_call(owner, STATE, RUNTIME, owner.agents["a"])
    run = call.build_view({}).network
    assert (call.values, run.call_count, run.state.thread_id) == ({"n": 1}, 2, "t")
    assert [agent.name for agent in run.stack] == ["b"]
    assert call.default_model is owner.default_chat_model
    assert [message.text for message in run.state.format_history()] == ["a", "user", "a", "b"]


def test_the_thread_of_the_history_and_the_model_of_the_agent_take_precedence() -> None:
    agent = Agent("own", model=ScriptedModel([]))
    call = build_agent_call(network(ScriptedModel([])), {**STATE, "history_thread": "theirs"}, RUNTIME, agent)
    assert (call.build_view({}).state.thread_id, call.default_model) == ("theirs", None)


def test_a_view_shows_the_run_and_collects_its_writes() -> None:
    view = build_run_view(network(), STATE, RUNTIME)
    view.state.data.n = 2
    assert (view.network.input, view.network.call_count) == ("hi", 2)
    assert view.update() == {"data.n": 2}


def test_agents_that_a_router_created_are_not_found_in_another_workspace() -> None:
    owner = network()
    other = cast(Any, SimpleNamespace(execution_info=SimpleNamespace(**{**vars(INFO), "workspace": "other"})))
    run_agents(owner, RUNTIME).admit(Agent("guest"))
    assert run_agents(owner, RUNTIME).find("guest").name == "guest"
    with pytest.raises(RoutingError):
        run_agents(owner, other).find("guest")

"""The run of a network, as routers, hooks and tools see it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.agents import Agent, AgentResult, Lifecycle, NetworkRun, State
from statewright.agents.state.state import user_turn
from statewright.errors import ToolError
from statewright.messages import Message
from statewright.models import Usage

AT = datetime(2026, 1, 1, tzinfo=UTC)


def result(name: str) -> AgentResult:
    return AgentResult(agent_name=name, messages=[], created_at=AT, usage=Usage(1, 1), requests=1)


def run(*agents: Agent, **options: Any) -> NetworkRun[Any]:
    turns = [user_turn(Message("hi")), result("a"), result("b")]
    state: State[Any] = State({"open": True}, results=turns)
    return NetworkRun("n", state, {agent.name: agent for agent in agents}, **options)


def test_a_run_has_its_results_and_their_usage() -> None:
    network_run = run(message=Message("hi"))
    assert network_run.input == "hi"
    assert [result.agent_name for result in network_run.results] == ["a", "b"]
    assert network_run.last_result is network_run.results[-1]
    assert network_run.usage == Usage(2, 2)


def test_an_empty_run_has_defaults() -> None:
    empty: NetworkRun[Any] = NetworkRun("n", State(), {})
    assert (empty.input, empty.results, empty.last_result, empty.usage) == ("", [], None, Usage())
    assert (empty.stop_reason, empty.interrupts, empty.available_agents) == (None, (), [])


def test_agents_are_available_unless_enabled_returns_false() -> None:
    agents = [
        Agent("always"),
        Agent("open", lifecycle=Lifecycle(enabled=lambda state: state.data.open)),
        Agent("never", lifecycle=Lifecycle(enabled=lambda agent, network: agent.name in network.state.data)),
        Agent("falsy", lifecycle=Lifecycle(enabled=lambda: None)),
    ]
    assert [agent.name for agent in run(*agents).available_agents] == ["always", "open"]


def test_agents_are_scheduled_by_name_or_object() -> None:
    second = Agent("b")
    network_run = run(Agent("a"), second)
    network_run.schedule("a")
    network_run.schedule(second)
    assert network_run.scheduled == ["a", "b"]


@pytest.mark.parametrize("agent", ["zoe", "", None, 3, ["a"], object(), Agent, Agent("zoe")])
def test_only_agents_of_the_network_can_be_scheduled(agent: Any) -> None:
    network_run = run(Agent("a"))
    with pytest.raises(ToolError, match=r"cannot be scheduled.*Agents: a\."):
        network_run.schedule(agent)
    assert network_run.scheduled == []


def test_the_repr_shows_the_calls_and_the_stop_reason() -> None:
    network_run = run(call_count=2)
    assert repr(network_run) == "NetworkRun('n', 2 calls)"
    network_run.stop_reason = "done"
    assert repr(network_run) == "NetworkRun('n', 2 calls, stop_reason='done')"

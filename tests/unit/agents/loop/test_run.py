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
    return NetworkRun("n", state, {one.name: one for one in agents}, **options)


def test_a_run_has_its_results_and_their_usage() -> None:
    found = run(message=Message("hi"))
    assert found.input == "hi"
    assert [one.agent_name for one in found.results] == ["a", "b"]
    assert found.last_result is found.results[-1]
    assert found.usage == Usage(2, 2)


def test_a_run_without_anything() -> None:
    empty: NetworkRun[Any] = NetworkRun("n", State(), {})
    assert (empty.input, empty.results, empty.last_result, empty.usage) == ("", [], None, Usage())
    assert (empty.stop_reason, empty.interrupts, empty.available_agents) == (None, (), [])


def test_agents_are_available_unless_their_hook_says_no() -> None:
    agents = [
        Agent("always"),
        Agent("open", lifecycle=Lifecycle(enabled=lambda state: state.data.open)),
        Agent("never", lifecycle=Lifecycle(enabled=lambda agent, network: agent.name in network.state.data)),
        Agent("falsy", lifecycle=Lifecycle(enabled=lambda: None)),
    ]
    assert [one.name for one in run(*agents).available_agents] == ["always", "open"]


def test_agents_are_scheduled_by_name_or_themselves() -> None:
    second = Agent("b")
    found = run(Agent("a"), second)
    found.schedule("a")
    found.schedule(second)
    assert found.scheduled == ["a", "b"]


@pytest.mark.parametrize("agent", ["zoe", "", None, 3, ["a"], object(), Agent, Agent("zoe")])
def test_only_agents_of_the_network_can_be_scheduled(agent: Any) -> None:
    found = run(Agent("a"))
    with pytest.raises(ToolError, match=r"cannot be scheduled.*Agents: a\."):
        found.schedule(agent)
    assert found.scheduled == []


def test_it_shows_itself_in_few_words() -> None:
    found = run(call_count=2)
    assert repr(found) == "NetworkRun('n', 2 calls)"
    found.stop_reason = "done"
    assert repr(found) == "NetworkRun('n', 2 calls, stop_reason='done')"

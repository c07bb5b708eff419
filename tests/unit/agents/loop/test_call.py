"""The context of an agent's call, and the updates of its hooks and tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.agents import Agent, AgentResult, NetworkRun, State
from statewright.agents.loop.run import AgentCall, current_call, enter_call
from statewright.agents.state.data import DataSchema, data_fields
from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.models import Usage

TURN = AgentResult(
    agent_name="a", messages=[Message("said", role="assistant")], created_at=datetime(2026, 1, 1, tzinfo=UTC)
)


def build_run(data: Mapping[str, Any], usage: Usage) -> NetworkRun[Any]:
    state = State.from_values(DataSchema(), data, [Message("seed")], [TURN], "t")
    agents = {name: Agent(name) for name in "ab"}
    return NetworkRun("n", state, agents, message=Message("go"), further_usage=Usage(5) + usage)


def call() -> AgentCall:
    return AgentCall(network="n", build_run=build_run, schema=DataSchema(), values={"files": ["x"], "count": 1})


def test_current_call_raises_outside_a_call() -> None:
    with pytest.raises(InvalidConfig, match="without a network"):
        current_call()


def test_calls_can_be_nested() -> None:
    outer, inner = call(), call()
    with enter_call(outer):
        with enter_call(inner):
            assert current_call() is inner
        assert current_call() is outer
    with pytest.raises(InvalidConfig):
        current_call()


def test_an_error_leaves_the_current_call() -> None:
    with pytest.raises(ZeroDivisionError), enter_call(call()):
        raise ZeroDivisionError
    with pytest.raises(InvalidConfig):
        current_call()


def test_concurrent_tasks_have_their_own_calls() -> None:
    async def task(own: AgentCall) -> bool:
        with enter_call(own):
            await asyncio.sleep(0)
            return current_call() is own

    async def both() -> list[bool]:
        return await asyncio.gather(task(call()), task(call()))

    assert asyncio.run(both()) == [True, True]


def test_a_view_includes_the_writes_and_the_usage_since_the_call_began() -> None:
    view = call().build_view({"data.count": 2, "messages": [], "data.new": "n", "usage": [1, 2, 0.0, 0, 0]})
    assert (view.network.usage.input_tokens, view.network.usage.output_tokens) == (6, 2)
    assert dict(view.state.data) == {"files": ["x"], "count": 2, "new": "n"}
    assert view.kwargs == {"network": view.network, "state": view.network.state}
    assert (view.network.input, view.state.thread_id, len(view.network.results)) == ("go", "t", 1)


def test_only_changed_fields_are_in_the_update() -> None:
    agent_call = call()
    view = agent_call.build_view({})
    assert view.update() == {}
    assert view.state.data.files == ["x"]
    assert view.update() == {}
    view.state.data.files.append("y")
    view.state.data.new = None
    assert view.update() == {"data.files": ["x", "y"], "data.new": None}
    assert agent_call.values == {"files": ["x"], "count": 1}


def test_scheduled_agents_are_in_the_update() -> None:
    view = call().build_view({})
    view.network.schedule("a")
    view.network.schedule(Agent("b"))
    assert view.update() == {"scheduled": ["a", "b"]}


def test_a_value_that_is_restored_is_not_in_the_update() -> None:
    view = call().build_view({})
    view.state.data.count = 9
    view.state.data.count = 1
    assert view.update() == {}


def test_data_fields_selects_the_data_in_the_state_of_a_graph() -> None:
    assert data_fields({"data.a": 1, "data.b.c": 2, "data": 3, "messages": []}) == {"a": 1, "b.c": 2}

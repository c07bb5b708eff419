"""What an agent is called with, and what its hooks and tools leave changed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.agents import Agent, AgentResult
from statewright.agents.loop.call import AgentCall, RunView, current_call, data_fields, enter_call
from statewright.agents.state.data import DataSchema
from statewright.errors import InvalidConfig
from statewright.messages import Message

TURN = AgentResult(
    agent_name="a", messages=[Message("said", role="assistant")], created_at=datetime(2026, 1, 1, tzinfo=UTC)
)


def call(**options: Any) -> AgentCall:
    usual: dict[str, Any] = {
        "network": "n",
        "agents": {name: Agent(name) for name in "ab"},
        "form": DataSchema(),
        "values": {"files": ["x"], "count": 1},
        "messages": [Message("seed")],
        "turns": [TURN],
        "message": Message("go"),
        "thread_id": "t",
    }
    return AgentCall(**{**usual, **options})


def test_outside_of_a_call_there_is_none() -> None:
    with pytest.raises(InvalidConfig, match="without a network"):
        current_call()


def test_a_call_is_entered_and_left() -> None:
    outer, inner = call(), call()
    with enter_call(outer):
        with enter_call(inner):
            assert current_call() is inner
        assert current_call() is outer
    with pytest.raises(InvalidConfig):
        current_call()


def test_a_call_is_left_by_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), enter_call(call()):
        raise ZeroDivisionError
    with pytest.raises(InvalidConfig):
        current_call()


def test_calls_of_several_tasks_are_apart() -> None:
    async def task(mine: AgentCall) -> bool:
        with enter_call(mine):
            await asyncio.sleep(0)
            return current_call() is mine

    async def both() -> list[bool]:
        return await asyncio.gather(task(call()), task(call()))

    assert asyncio.run(both()) == [True, True]


def test_the_history_is_messages_and_turns() -> None:
    assert [one.text for one in call().history] == ["seed", "said"]
    assert [one.text for one in call(formatter=lambda turn: [Message("short")] * 2).history] == [
        "seed",
        "short",
        "short",
    ]


def test_a_view_shows_what_was_written_since_the_call_began() -> None:
    view = RunView(call(), {"data.count": 2, "messages": [], "data.new": "n"})
    assert dict(view.state.data) == {"files": ["x"], "count": 2, "new": "n"}
    assert view.kwargs == {"network": view.network, "state": view.network.state}
    assert (view.network.input, view.state.thread_id, len(view.network.results)) == ("go", "t", 1)


def test_what_changed_is_an_update_and_nothing_else() -> None:
    made = call()
    view = RunView(made, {})
    assert view.update() == {}
    assert view.state.data.files == ["x"]
    assert view.update() == {}
    view.state.data.files.append("y")
    view.state.data.new = None
    assert view.update() == {"data.files": ["x", "y"], "data.new": None}
    assert made.values == {"files": ["x"], "count": 1}


def test_scheduled_agents_are_an_update() -> None:
    view = RunView(call(), {})
    view.network.schedule("a")
    view.network.schedule(Agent("b"))
    assert view.update() == {"scheduled": ["a", "b"]}


def test_a_value_that_is_set_back_has_not_changed() -> None:
    view = RunView(call(), {})
    view.state.data.count = 9
    view.state.data.count = 1
    assert view.update() == {}


def test_the_data_in_the_state_of_a_graph() -> None:
    assert data_fields({"data.a": 1, "data.b.c": 2, "data": 3, "messages": []}) == {"a": 1, "b.c": 2}

"""The graph of a network: two nodes, and a position that is saved."""

from __future__ import annotations

from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.agents import Agent, Network, RoutingAgent
from statewright.errors import GraphRecursionError, RoutingError
from statewright.messages import Message
from statewright.models import ScriptedModel


def network(*names: str, **options: Any) -> Network[Any]:
    agents = [Agent(name, model=ScriptedModel([name], repeat_last=True)) for name in names]
    defaults: dict[str, Any] = {"router": lambda call_count: [] if call_count else agents}
    return Network("n", agents=agents, **{**defaults, **options})


def test_router_and_agent_alternate_in_supersteps() -> None:
    app = network("a", "b").compile()
    nodes = [part["name"] for part in app.stream({"input": Message("go")}, stream_mode="tasks") if "input" in part]
    assert nodes == ["route", "agent", "route", "agent", "route"]


def test_position_queue_and_stop_reason_are_channels() -> None:
    app = network("a", "b", state={"files": ["x"]}).compile(InMemorySaver())
    app.invoke({"input": Message("go")}, thread_id="t")
    history = list(app.get_state_history(thread_id="t"))
    seen = [
        (snapshot.values.get("position"), snapshot.values.get("call_count"), snapshot.values.get("queue"))
        for snapshot in history
    ]
    assert (2, 2, []) in seen
    assert (0, 0, ["b"]) in seen
    last = history[0].values
    assert (last["stop_reason"], last["data.files"]) == ("completed", ["x"])
    assert "input" not in last


def test_a_snapshot_can_be_read_as_a_state() -> None:
    owner = network("a", state={"files": ["x"]})
    app = owner.compile(InMemorySaver())
    values = app.invoke({"input": Message("go")}, thread_id="t")
    state = owner.state_of(values)
    assert (state.data.files, [result.text for result in state.results]) == (["x"], ["a"])
    assert owner.state_of(app.get_state(thread_id="t").values).turns == state.turns


def test_a_thread_can_be_forked_before_a_decision_of_the_router() -> None:
    agents = {name: Agent(name, model=ScriptedModel([name], repeat_last=True)) for name in "abc"}
    choice = ["b"]

    def router(call_count: int) -> Any:
        return {0: agents["a"], 1: agents[choice[0]]}.get(call_count)

    owner = Network("n", agents=list(agents.values()), router=router)
    app = owner.compile(InMemorySaver())
    app.invoke({"input": Message("go")}, thread_id="t")
    after_a = next(
        snapshot
        for snapshot in app.get_state_history(thread_id="t")
        if snapshot.values.get("position") == 1 and "route" in snapshot.next
    )
    choice[0] = "c"
    values = app.invoke(None, after_a.config)
    assert [result.agent_name for result in owner.state_of(values).results] == ["a", "c"]
    assert len(agents["a"].model.requests) == 1


@pytest.mark.parametrize("names", [("Ann", "Bob"), ("an agent", "x|y"), ()])
def test_a_diagram_can_be_drawn_for_any_agent_names(names: tuple[str, ...]) -> None:
    diagram = network(*names).compile().get_graph().draw_mermaid()
    assert diagram.startswith("flowchart")


def test_agent_names_need_not_be_valid_node_names() -> None:
    ended = network("an agent", "x|y:z", "route").run("go")
    assert [result.agent_name for result in ended.results] == ["an agent", "x|y:z", "route"]


def test_a_cycle_of_routing_agents_raises_an_error() -> None:
    circle: list[RoutingAgent] = []
    circle.append(RoutingAgent("R", model=ScriptedModel(["x"], repeat_last=True), on_route=lambda: circle[0]))
    with pytest.raises((GraphRecursionError, RoutingError)):
        Network("n", router=circle[0]).run("go", recursion_limit=8)

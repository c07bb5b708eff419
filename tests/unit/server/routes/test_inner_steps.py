"""The steps inside subgraphs, in traces: of calls that have ended, are under way, wait or have failed; of fan-outs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, TypedDict

from tests.unit.server.serving import Api, catalog, serving, two_workspaces

from statewright import CompiledGraph, RetryPolicy, Send, StateGraph, interrupt
from statewright.agents import Agent, Network
from statewright.models import ScriptedModel
from statewright.service import Service
from statewright.service.operations import inner_steps


class State(TypedDict, total=False):
    count: int


def chain(**nodes: Any) -> StateGraph:
    """Return a graph that runs nodes one after another."""
    graph, before = StateGraph(State), "__start__"
    for name, action in nodes.items():
        graph.add_node(name, action).add_edge(before, name)
        before = name
    return graph


def nothing(state: State) -> State:
    return {}


def nested(action: Any = nothing) -> CompiledGraph:
    """Return a graph whose second node is a graph, which calls a graph in turn."""
    innermost = chain(bottom=nothing)
    return chain(first=nothing, second=chain(deep=action, deepest=innermost.compile()).compile()).compile()


async def trace_of(api: Api, graph: str, values: Any = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a graph, and return the run and the steps of its trace."""
    started = await api.post("/workflow-runs?wait=10", {"graph": graph, "input": values}, 201)
    trace = await api.get(f"/workflow-runs/{started['id']}/trace")
    return started, trace["steps"]


def paths(step: dict[str, Any]) -> list[tuple[str, str]]:
    return [("/".join(inner["path"]), inner["status"]) for inner in step["innerSteps"]]


def test_steps_inside_subgraphs_are_shown_two_levels_deep_with_their_times() -> None:
    async def run() -> None:
        served = catalog()
        served.serve("outer", chain(before=nothing, box=nested()))
        async with serving(service=Service(served)) as api:
            _, (before, box) = await trace_of(api, "outer")
            assert (before["innerSteps"], before["innerCount"]) == ([], 0)
            names = ["box/first", "box/second", "box/second/deep", "box/second/deepest"]
            assert paths(box) == [(name, "completed") for name in names]
            first, second, deep, deepest = box["innerSteps"]
            assert [first["parentId"], second["parentId"]] == [None, None]
            assert [deep["parentId"], deepest["parentId"]] == [second["id"], second["id"]]
            assert first["startedAt"] == box["startedAt"] <= first["endedAt"] == second["startedAt"]
            assert second["startedAt"] == deep["startedAt"] <= deep["endedAt"] == deepest["startedAt"]
            assert deepest["endedAt"] <= second["endedAt"] <= box["completedAt"]

    asyncio.run(run())


def test_each_task_of_a_fan_out_has_the_steps_of_its_own_subgraph_up_to_a_number(monkeypatch: Any) -> None:
    async def run() -> None:
        served = catalog()
        graph = StateGraph(State).add_node("item", chain(a=nothing, b=nothing, c=nothing).compile())
        graph.add_conditional_edges("__start__", lambda _: [Send("item", {"count": n}) for n in range(5)], ["item"])
        served.serve("fan", graph)
        async with serving(service=Service(served)) as api:
            started, steps = await trace_of(api, "fan")
            assert [paths(step) for step in steps] == [[(f"item/{name}", "completed") for name in "abc"]] * 5
            assert len({inner["id"] for step in steps for inner in step["innerSteps"]}) == 15
            monkeypatch.setattr(inner_steps, "MAX_SHOWN", 2)
            (step, *_) = (await api.get(f"/workflow-runs/{started['id']}/trace"))["steps"]
            assert ([name for name, _ in paths(step)], step["innerCount"]) == (["item/b", "item/c"], 3)

    asyncio.run(run())


def test_what_runs_inside_a_subgraph_is_shown_while_it_runs() -> None:
    entered, released = threading.Event(), threading.Event()

    def hold(state: State) -> State:
        entered.set()
        assert released.wait(30)
        return {}

    async def run() -> None:
        served = catalog()
        served.serve("outer", chain(box=nested(hold)))
        async with serving(service=Service(served)) as api:
            started = await api.post("/workflow-runs", {"graph": "outer"}, 201)
            try:
                assert await asyncio.to_thread(entered.wait, 30)
                (box,) = (await api.get(f"/workflow-runs/{started['id']}/trace"))["steps"]
                assert paths(box) == [
                    ("box/first", "completed"),
                    ("box/second", "running"),
                    ("box/second/deep", "running"),
                ]
                assert [inner["endedAt"] is None for inner in box["innerSteps"]] == [False, True, True]
            finally:
                released.set()
            await api.get(f"/workflow-runs/{started['id']}?wait=10")
            (box,) = (await api.get(f"/workflow-runs/{started['id']}/trace"))["steps"]
            assert {status for _, status in paths(box)} == {"completed"}

    asyncio.run(run())


def test_an_inner_step_waits_with_its_question() -> None:
    def ask(state: State) -> State:
        return {"count": interrupt("how many?")}

    async def run() -> None:
        served = catalog()
        served.serve("outer", chain(box=nested(ask)))
        async with serving(service=Service(served)) as api:
            started, (box,) = await trace_of(api, "outer")
            waiting = [("box/first", "completed"), ("box/second", "waiting"), ("box/second/deep", "waiting")]
            assert paths(box) == waiting
            (wait,) = await api.get("/interrupts")
            await api.post(f"/workflow-runs/{started['id']}/resume", {"answers": {wait["id"]: 5}})
            await api.get(f"/workflow-runs/{started['id']}?wait=10")
            (box,) = (await api.get(f"/workflow-runs/{started['id']}/trace"))["steps"]
            assert [status for _, status in paths(box)] == ["completed"] * 4

    asyncio.run(run())


def test_an_inner_step_has_its_failed_attempts_with_errors_that_hide_secrets() -> None:
    failures = [ConnectionError("first"), ConnectionError("token=hunter2hunter2")]

    def charge(state: State) -> State:
        if failures:
            raise failures.pop(0)
        return {}

    async def run() -> None:
        served = catalog()
        policy = RetryPolicy(max_attempts=2, initial_interval=0.01, jitter=False, retry_on=ConnectionError)
        inner = StateGraph(State).add_node("early", nothing).add_node("charge", charge, retry_policy=policy)
        inner.add_edge("__start__", "early").add_edge("early", "charge")
        served.serve("outer", chain(box=inner.compile()))
        redact = lambda value: {**value, "message": "hidden"} if "message" in value else value  # noqa: E731
        hide = lambda value: {name: redact(each) if type(each) is dict else each for name, each in value.items()}  # noqa: E731
        async with serving(service=Service(served, redact=hide)) as api:
            started, (box,) = await trace_of(api, "outer")
            assert started["status"] == "failed"
            assert paths(box) == [("box/early", "completed"), ("box/charge", "failed")]
            early, failed = box["innerSteps"]
            assert early["attempts"] == []
            first, second = failed["attempts"]
            assert [first["number"], second["number"]] == [1, 2]
            assert [first["error"]["message"], second["error"]["message"]] == ["hidden", "hidden"]
            assert first["endedAt"] <= first["retryAt"] == second["startedAt"] <= second["endedAt"]
            assert second["retryAt"] is None
            # The run continues at the inner step that failed.
            await api.post(f"/workflow-runs/{started['id']}/retry")
            await api.get(f"/workflow-runs/{started['id']}?wait=10")
            (box,) = (await api.get(f"/workflow-runs/{started['id']}/trace"))["steps"]
            assert paths(box) == [("box/early", "completed"), ("box/charge", "completed")]
            attempts = box["innerSteps"][1]["attempts"]
            assert [attempt["error"] is None for attempt in attempts] == [False, False, True]
            assert attempts[-1]["endedAt"] == box["innerSteps"][1]["endedAt"]

    asyncio.run(run())


def test_a_repeated_step_shows_only_its_last_execution() -> None:
    async def run() -> None:
        served = catalog()
        served.serve("outer", chain(box=nested(), ask=lambda state: {"count": interrupt("how many?")}))
        async with serving(service=Service(served)) as api:
            started, (before, _) = await trace_of(api, "outer")
            history = await api.get(f"/threads/{started['threadId']}/history")
            start = next(each for each in history if each["next"] == ["box"])
            await api.post(f"/threads/{started['threadId']}/fork", {"checkpointId": start["checkpointId"]}, 201)
            await api.get(f"/workflow-runs/{started['id']}?wait=10")
            while (run := await api.get(f"/workflow-runs/{started['id']}"))["status"] != "waiting":
                await asyncio.sleep(0.01)
            steps = (await api.get(f"/workflow-runs/{run['id']}/trace"))["steps"]
            (box,) = (step for step in steps if step["stepName"] == "box")
            assert len(box["innerSteps"]) == 4
            assert all(before["completedAt"] < box["startedAt"] <= inner["startedAt"] for inner in box["innerSteps"])

    asyncio.run(run())


def test_the_steps_of_a_network_name_their_agents_and_calls() -> None:
    async def run() -> None:
        alice = Agent(name="alice", model=ScriptedModel(["hello"], repeat_last=True))
        bob = Agent(name="bob", model=ScriptedModel(["goodbye"], repeat_last=True))
        router = lambda call_count: [alice, bob][call_count] if call_count < 2 else None  # noqa: E731
        team = Network("team", agents=[alice, bob], router=router)
        served = catalog()
        served.serve("team", team)
        boxed = StateGraph({"input": object}).add_node("crew", team.compile()).add_edge("__start__", "crew")
        served.serve("boxed", boxed)
        async with serving(service=Service(served)) as api:
            started = await api.post("/workflow-runs?wait=10", {"graph": "team", "input": {"input": "hi"}}, 201)
            steps = (await api.get(f"/workflow-runs/{started['id']}/trace"))["steps"]
            names = [(step["stepName"], step["agent"]) for step in steps]
            assert names == [("route", None), ("agent", "alice"), ("route", None), ("agent", "bob"), ("route", None)]
            for step in (steps[1], steps[3]):
                called = [inner for inner in step["innerSteps"] if inner["calls"]]
                assert [(inner["agent"], inner["calls"]) for inner in called] == [(step["agent"], step["calls"])]
            # In a subgraph, each call of an agent is an inner step that names it; the step of the run has several.
            _, (box,) = await trace_of(api, "boxed", {"input": "hi"})
            agents = [inner["agent"] for inner in box["innerSteps"] if inner["path"] == ["crew", "agent"]]
            assert (agents, box["agent"]) == (["alice", "bob"], None)
            events = await api.get(f"/workflow-runs/{started['id']}/events?pageSize=100")
            begun = [event["payload"] for event in events if event["eventType"] == "STEP_STARTED"]
            assert [payload.get("agent") for payload in begun] == [None, "alice", None, "bob", None]

    asyncio.run(run())


def test_inner_steps_of_another_workspace_are_not_found_and_need_the_scope() -> None:
    async def run() -> None:
        async with two_workspaces() as (one, two):
            started = await one.post("/workflow-runs?wait=10", {"graph": "greeter", "input": {"messages": "hi"}}, 201)
            path = f"/workflow-runs/{started['id']}/trace"
            await two.get(path, 404)
            key = await one.post("/api-keys", {"name": "other", "scopes": ["threads:read"]}, 201)
            await one.get(path, 403, headers={"x-api-key": key["key"]})

    asyncio.run(run())

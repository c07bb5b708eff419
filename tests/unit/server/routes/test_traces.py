"""Traces of runs, states around steps, sources and diagrams of definitions, costs by day, repeated deliveries."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from tests.unit.server.serving import LEAD, PAYMENT, REVIEW, Api, catalog, serving, two_workspaces

from statewright import RetryPolicy, StateGraph
from statewright.runs import DEFAULT_WORKSPACE, Insert, ModelCall, Run, RunStatus
from statewright.service import Service
from statewright.service.webhooks import WebhookSettings


class State(TypedDict, total=False):
    count: int


def test_a_trace_has_the_attempts_of_a_step_with_their_errors() -> None:
    failures = iter([ConnectionError("first"), ConnectionError("second")])

    def charge(state: State) -> State:
        for failure in failures:
            raise failure
        return {"count": 1}

    async def run() -> None:
        served = catalog()
        policy = RetryPolicy(max_attempts=3, initial_interval=0.01, jitter=False, retry_on=ConnectionError)
        served.serve("order", StateGraph(State).add_node(charge, retry_policy=policy).add_edge("__start__", "charge"))
        async with serving(service=Service(served)) as api:
            started = await api.post("/workflow-runs?wait=10", {"graph": "order"}, 201)
            trace = await api.get(f"/workflow-runs/{started['id']}/trace")
            (step,) = trace["steps"]
            attempts = step["attempts"]
            assert [attempt["number"] for attempt in attempts] == [1, 2, 3]
            assert ["first" in str(attempts[0]["error"]), "second" in str(attempts[1]["error"])] == [True, True]
            assert attempts[2]["error"] is None
            times = [attempt[name] for attempt in attempts for name in ("startedAt", "endedAt")]
            assert times == sorted(times)
            assert (trace["complete"], trace["totalSteps"]) == (True, 1)
            assert len(trace["queued"]) == 1

    asyncio.run(run())


def test_a_trace_has_waits_with_who_ended_them_and_calls_of_models() -> None:
    async def run() -> None:
        async with two_workspaces() as (one, two):
            payment = await one.start(PAYMENT)
            path = f"/workflow-runs/{payment['id']}"
            (wait,) = (await one.get(f"{path}/trace"))["steps"][1]["waits"]
            assert (wait["kind"], wait["endedAt"], wait["endedBy"]) == ("event", None, None)
            await one.post(f"{path}/resume", {"signalType": "payment_confirmed", "payload": {"amount": 5}})
            await one.get(f"{path}?wait=10")
            (ended,) = (await one.get(f"{path}/trace"))["steps"][1]["waits"]
            (key,) = await one.get("/api-keys")
            assert (ended["endedBy"], ended["byKey"], ended["id"]) == ("signal", key["id"], wait["id"])
            assert ended["endedAt"] >= ended["startedAt"]
            greeted = await one.post("/workflow-runs?wait=10", {"graph": "greeter", "input": {"messages": "hi"}}, 201)
            steps = (await one.get(f"/workflow-runs/{greeted['id']}/trace"))["steps"]
            calls = [call for step in steps for call in step["calls"]]
            assert [call["kind"] for call in calls] == ["model"]
            await two.get(f"{path}/trace", 404)

    asyncio.run(run())


def test_a_trace_is_read_by_page_and_waits_end_with_a_cancelled_run() -> None:
    async def run() -> None:
        async with serving() as api:
            review = await api.start(REVIEW)
            path = f"/workflow-runs/{review['id']}"
            await api.post(f"{path}/cancel")
            first = await api.get(f"{path}/trace?limit=1")
            last = await api.get(f"{path}/trace?limit=1&cursor={first['nextCursor']}")
            assert [len(page["steps"]) for page in (first, last)] == [1, 1]
            assert ({page["totalSteps"] for page in (first, last)}, last["nextCursor"]) == ({2}, None)
            (wait,) = last["steps"][0]["waits"]
            assert wait["endedBy"] == "end"

    asyncio.run(run())


def test_the_state_before_and_after_a_step_shows_what_it_has_changed() -> None:
    def increase(state: State) -> State:
        return {"count": state.get("count", 0) + 1}

    async def run() -> None:
        served = catalog()
        graph = StateGraph(State)
        for name in ("one", "two", "three"):
            graph.add_node(name, increase)
        graph.add_edge("__start__", "one").add_edge("one", "two").add_edge("two", "three")
        served.serve("counter", graph)
        async with serving(service=Service(served)) as api:
            for _ in range(2):  # two runs on one thread: the superstep alone does not say which checkpoint it is
                body = {"graph": "counter", "threadId": "t"}
                started = await api.post("/workflow-runs?wait=10", body, 201)
            steps = await api.get(f"/workflow-runs/{started['id']}/steps")
            counts = []
            for step in steps:
                states = await api.get(f"/workflow-runs/{started['id']}/steps/{step['id']}/state")
                counts.append((states["before"]["count"], states["after"]["count"]))
                before, after = states["beforeCheckpointId"], states["afterCheckpointId"]
                difference = await api.get(f"/threads/t/diff?before={before}&after={after}")
                assert set(difference) == {"count"}
            assert counts == [(3, 4), (4, 5), (5, 6)]
            await api.get(f"/workflow-runs/{started['id']}/steps/unknown/state", 404)
            payment = await api.start(PAYMENT)
            waiting = (await api.get(f"/workflow-runs/{payment['id']}/steps"))[1]
            states = await api.get(f"/workflow-runs/{payment['id']}/steps/{waiting['id']}/state")
            assert (states["after"], states["before"] is None) == (None, False)

    asyncio.run(run())


YAML = """name: flow
tools:
- {id: clock, tool: current_time}
states:
- id: find
  tool_id: clock
  next: {state_id: rank}
- {id: rank, tool_id: clock, next: {state_id: end}}
"""


def nodes_of_python(state: State) -> State:
    return {"count": 1}


def test_the_source_of_a_definition_has_the_lines_of_its_nodes() -> None:
    async def run() -> None:
        served = catalog()
        served.serve_states(YAML, name="flow")
        served.serve("python", StateGraph(State).add_node("count", nodes_of_python).add_edge("__start__", "count"))
        async with serving(service=Service(served)) as api:
            stored = await api.define({**LEAD, "name": "send-email"})  # as one of its steps
            source = await api.get(f"/workflow-definitions/{stored}/source")
            assert source["language"] == "json"
            line = source["text"].splitlines()[source["lines"]["send-email"] - 1]
            assert '"send-email"' in line
            assert source["lines"]["send-email"] > source["lines"]["enrich-lead"]
            ids = {graph["name"]: graph["definitionId"] for graph in await api.get("/graphs")}
            source = await api.get(f"/workflow-definitions/{ids['flow']}/source")
            assert (source["language"], source["text"]) == ("yaml", YAML)
            assert {name: YAML.splitlines()[line - 1] for name, line in source["lines"].items()} == {
                "find": "- id: find",
                "rank": "- {id: rank, tool_id: clock, next: {state_id: end}}",
            }
            source = await api.get(f"/workflow-definitions/{ids['python']}/source")
            assert (source["language"], source["file"]) == ("python", "test_traces.py")
            assert source["text"].splitlines()[source["lines"]["count"] - 1].startswith("def nodes_of_python")
            await api.get(f"/workflow-definitions/{ids['greeter']}/source", 404)

    asyncio.run(run())


def test_a_diagram_has_the_nodes_of_subgraphs_in_place_of_them() -> None:
    async def run() -> None:
        served = catalog()
        inner = StateGraph(State).add_node("count", nodes_of_python).add_edge("__start__", "count").compile()
        served.serve("outer", StateGraph(State).add_node("inner", inner).add_edge("__start__", "inner"))
        async with serving(service=Service(served)) as api:
            ids = {graph["name"]: graph["definitionId"] for graph in await api.get("/graphs")}
            diagram = await api.get(f"/workflow-definitions/{ids['outer']}/diagram")
            assert "inner:count" in [node["id"] for node in diagram["nodes"]]
            assert {"source": "inner:__start__", "target": "inner:count", "kind": "plain", "label": ""} in diagram[
                "edges"
            ]

    asyncio.run(run())


def test_costs_are_listed_by_day_for_models_and_graphs() -> None:
    async def run() -> None:
        async with serving() as api:
            ledger, now = api.service.context.ledger, datetime(2026, 3, 2, 12, tzinfo=UTC)

            def record(number: int, days: int, graph: str, model: str, cost: float) -> list[Any]:
                at, name = now + timedelta(days=days), f"run_{number}"
                values: dict[str, Any] = {"workspace_id": DEFAULT_WORKSPACE, "created_at": at}
                ended = {"status": RunStatus.COMPLETED, "updated_at": at, "total_cost": cost}
                run = Run(id=name, graph=graph, thread_id=name, **values, **ended)
                call = ModelCall(id=f"call_{number}", run_id=name, model=model, cost=cost, input_tokens=10, **values)
                return [Insert(run), Insert(call)]

            rows = [(0, "a", "m", 1.0), (0, "a", "n", 2.0), (0, "b", "m", 4.0), (2, "a", "m", 8.0), (9, "a", "m", 16.0)]
            for number, row in enumerate(rows):
                ledger.write(record(number, *row))

            async def costs(by: str) -> list[tuple[Any, ...]]:
                path = f"/cost/by-day?from=2026-03-01T22:00:00Z&to=2026-03-06T00:00:00Z&by={by}"
                return [(cost["day"], cost["name"], cost["count"], cost["costUsd"]) for cost in await api.get(path)]

            assert await costs("model") == [
                ("2026-03-02", "m", 2, 5.0),
                ("2026-03-02", "n", 1, 2.0),
                ("2026-03-04", "m", 1, 8.0),
            ]
            assert await costs("graph") == [
                ("2026-03-02", "a", 2, 3.0),
                ("2026-03-02", "b", 1, 4.0),
                ("2026-03-04", "a", 1, 8.0),
            ]
            await api.get("/cost/by-day?from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", 400)

    asyncio.run(run())


async def _first_delivery(api: Api, webhook_id: str) -> dict[str, Any]:
    while True:
        deliveries = await api.get(f"/webhooks/{webhook_id}/deliveries")
        if deliveries and deliveries[0]["status"] != "pending":
            return deliveries[0]
        await asyncio.sleep(0.02)


def test_a_delivery_is_sent_again_as_a_new_one() -> None:
    async def run() -> None:
        settings = WebhookSettings(allow_hosts=("127.0.0.1",))
        service = Service(catalog(), webhooks=settings)
        async with serving(service=service) as api:
            created = await api.post("/webhooks", {"url": "http://127.0.0.1:9/closed"}, 201)
            await api.post(f"/webhooks/{created['id']}/test")
            earlier = await _first_delivery(api, created["id"])
            path = f"/webhooks/{created['id']}/deliveries/{earlier['id']}/send-again"
            again = await api.post(path, None, 201)
            assert again["id"] != earlier["id"]
            assert (again["eventType"], again["status"], again["attempts"]) == (earlier["eventType"], "pending", 0)
            await api.post(path.replace(earlier["id"], "dlv_unknown"), None, 404)
            await api.patch(f"/webhooks/{created['id']}", {"active": False})
            await api.post(path, None, 409)

    asyncio.run(run())

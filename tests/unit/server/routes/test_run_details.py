"""Details of a run over HTTP: steps, state, costs and events."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import LEAD, PAYMENT, serving


def test_the_details_of_a_run_are_read():
    async def run() -> None:
        async with serving() as api:
            started = await api.start(LEAD, input={"leadEmail": "a@b.example"})
            path = f"/workflow-runs/{started['id']}"
            assert [step["status"] for step in await api.get(f"{path}/steps")] == ["completed", "completed"]
            assert await api.get(f"{path}/state") == started["output"]
            assert await api.get(f"{path}/llm-calls") == []
            cost = await api.get(f"{path}/cost")
            assert (cost["total"]["calls"], cost["calls"], cost["byModel"]) == (0, [], [])

    asyncio.run(run())


def test_the_state_of_a_waiting_run_is_read():
    async def run() -> None:
        async with serving() as api:
            started = await api.start(PAYMENT)
            state = await api.get(f"/workflow-runs/{started['id']}/state")
            assert state == {"leadName": "Jane Smith", "company": "Acme Inc"}

    asyncio.run(run())


def test_model_calls_are_counted():
    async def run() -> None:
        async with serving() as api:
            body = {"graph": "greeter", "input": {"messages": [{"role": "user", "content": "hi"}]}}
            started = await api.post("/workflow-runs?wait=10", body, 201)
            calls = await api.get(f"/workflow-runs/{started['id']}/llm-calls")
            assert len(calls) == 1
            assert (calls[0]["workflowRunId"], calls[0]["stepName"] is None) == (started["id"], False)
            cost = await api.get(f"/workflow-runs/{started['id']}/cost")
            assert (cost["total"]["calls"], len(cost["byModel"]), len(cost["calls"])) == (1, 1, 1)
            summary = await api.get("/cost/summary")
            assert summary["total"] == cost["total"]
            assert (await api.get("/cost/summary?to=2000-01-01T00:00:00Z"))["total"]["calls"] == 0

    asyncio.run(run())


def test_events_are_listed_in_pages_oldest_first():
    async def run() -> None:
        async with serving() as api:
            started = await api.start(LEAD)
            path = f"/workflow-runs/{started['id']}/events"
            page = (await api.call("GET", f"{path}?pageSize=100")).json()
            numbers = [event["seq"] for event in page["data"]]
            assert numbers == list(range(1, page["meta"]["total"] + 1))
            assert [event["seq"] for event in await api.get(f"{path}?pageSize=2&page=2")] == [3, 4]
            assert [event["seq"] for event in await api.get(f"{path}?after=4&pageSize=2")] == [5, 6]
            assert await api.get(f"{path}?after=999") == []
            for wrong in ("after=-1", "after=x", "pageSize=1000", "after=99999999999999999999"):
                await api.get(f"{path}?{wrong}", 400)

    asyncio.run(run())

"""Approvals are decided once, and events reach the runs that wait for them."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from tests.unit.server.serving import PAYMENT, REVIEW, Api, catalog, serving, two_workspaces

from statewright import START, StateGraph, interrupt
from statewright.service import Service


async def wait_until_ended(api: Api, run_id: str) -> dict[str, Any]:
    async with asyncio.timeout(600):
        while (run := await api.get(f"/workflow-runs/{run_id}"))["status"] in ("pending", "running", "waiting"):
            await asyncio.sleep(0.01)
        return run


@pytest.mark.parametrize(
    ("body", "status", "company"),
    [
        ({"decision": "approved", "decidedBy": "jo"}, "completed", "Acme Inc"),
        ({"decision": "edited", "editedContent": "Acme Ltd"}, "completed", "Acme Ltd"),
        ({"decision": "rejected"}, "failed", None),
    ],
)
def test_a_decision_resumes_the_run(body: dict[str, Any], status: str, company: str | None):
    async def run() -> None:
        async with serving() as api:
            started = await api.start(REVIEW)
            (approval,) = await api.get("/approval-requests?pending=true")
            assert (approval["content"], approval["prompt"], approval["decision"]) == ("Acme Inc", "Send it?", None)
            path = f"/approval-requests/{approval['id']}"
            decided = await api.post(f"{path}/decide", body)
            assert decided["decision"] == body["decision"]
            assert decided["decidedBy"] == body.get("decidedBy")
            ended = await wait_until_ended(api, started["id"])
            assert ended["status"] == status
            if company is not None:
                assert ended["output"]["company"] == company
            assert (await api.post(f"{path}/decide", body, 409))["code"] == "INVALID_TRANSITION"
            assert await api.get("/approval-requests?pending=true") == []
            assert [entry["id"] for entry in await api.get("/approval-requests?pending=false")] == [approval["id"]]
            assert (await api.get(path))["decidedAt"] is not None

    asyncio.run(run())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": "maybe"},
        {"decision": "edited"},
        {"decision": "edited", "editedContent": None},
        {"decision": "approved", "editedContent": "x"},
        {"decision": "approved", "by": "me"},
    ],
)
def test_invalid_decisions_change_nothing(body: dict[str, Any]):
    async def run() -> None:
        async with serving() as api:
            await api.start(REVIEW)
            (approval,) = await api.get("/approval-requests")
            await api.post(f"/approval-requests/{approval['id']}/decide", body, 400)
            assert (await api.get(f"/approval-requests/{approval['id']}"))["decision"] is None

    asyncio.run(run())


def test_an_event_wakes_waiting_runs_and_starts_the_runs_of_triggers():
    async def run() -> None:
        async with serving() as api:
            waiting = await api.start(PAYMENT)
            trigger = {"event": "payment_confirmed", "graph": "payment", "match": {"amount": 5}}
            await api.post("/triggers", trigger, 201)
            body = {"name": "payment_confirmed", "payload": {"amount": 5}, "key": "e-1"}
            event = await api.post("/events", body)
            assert event["woken"] == [waiting["id"]]
            assert len(event["started"]) == 1
            assert await api.post("/events", body) == event
            assert (await wait_until_ended(api, waiting["id"]))["output"]["amount"] == 5
            assert (await api.get(f"/workflow-runs/{event['started'][0]}"))["source"] == f"event:{event['id']}"
            for wrong in ({}, {"name": ""}, {"name": "x", "payload": []}, {"name": "x", "payload": {"__a": 1}}):
                await api.post("/events", wrong, 400)

    asyncio.run(run())


class Asked(TypedDict, total=False):
    said: Any


def test_answers_are_listed_by_page_with_who_gave_them_and_approvals_are_apart():
    async def run() -> None:
        def ask(state: Asked) -> Asked:
            return {"said": interrupt("Which?")}

        served = catalog()
        served.serve("asking", StateGraph(Asked).add_node("ask", ask).add_edge(START, "ask"))
        async with two_workspaces(service=Service(served)) as (one, two):
            for number in range(3):
                started = await one.post("/workflow-runs?wait=10", {"graph": "asking"}, 201)
                (wait,) = await one.get(f"/interrupts?runId={started['id']}")
                await one.post(f"/workflow-runs/{started['id']}/resume", {"answers": {wait["id"]: {"number": number}}})
                await wait_until_ended(one, started["id"])
            reviewed = await one.start(REVIEW)
            (approval,) = await one.get("/approval-requests?pending=true")
            await one.post(f"/approval-requests/{approval['id']}/decide", {"decision": "approved"})
            await wait_until_ended(one, reviewed["id"])

            answers = await one.get("/answers")
            assert [answer["answer"] for answer in answers] == [{"number": 2}, {"number": 1}, {"number": 0}]
            (key,) = await one.get("/api-keys")
            newest = answers[0]
            assert (newest["id"], newest["workflowRunId"]) == (wait["id"], started["id"])
            assert (newest["graph"], newest["byKey"]) == ("asking", key["id"])
            page = await one.get("/answers?limit=1")
            assert page == answers[:1]
            assert await one.get(f"/answers?limit=5&before={page[0]['cursor']}") == answers[1:]
            steps = (await one.get(f"/workflow-runs/{started['id']}/trace"))["steps"]
            assert [each["answer"] for step in steps for each in step["waits"]] == [{"number": 2}]
            assert await two.get("/answers") == []

    asyncio.run(run())

"""Approvals are decided once, and events reach who waits for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.server.serving import PAYMENT, REVIEW, Api, serving


async def rested(api: Api, run_id: str) -> dict[str, Any]:
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
def test_a_decision_lets_the_run_go_on(body: dict[str, Any], status: str, company: str | None):
    async def run() -> None:
        async with serving() as api:
            started = await api.start(REVIEW)
            (asked,) = await api.get("/approval-requests?pending=true")
            assert (asked["content"], asked["prompt"], asked["decision"]) == ("Acme Inc", "Send it?", None)
            path = f"/approval-requests/{asked['id']}"
            decided = await api.post(f"{path}/decide", body)
            assert decided["decision"] == body["decision"]
            assert decided["decidedBy"] == body.get("decidedBy")
            ended = await rested(api, started["id"])
            assert ended["status"] == status
            if company is not None:
                assert ended["output"]["company"] == company
            assert (await api.post(f"{path}/decide", body, 409))["code"] == "INVALID_TRANSITION"
            assert await api.get("/approval-requests?pending=true") == []
            assert [one["id"] for one in await api.get("/approval-requests?pending=false")] == [asked["id"]]
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
def test_wrong_decisions_change_nothing(body: dict[str, Any]):
    async def run() -> None:
        async with serving() as api:
            await api.start(REVIEW)
            (asked,) = await api.get("/approval-requests")
            await api.post(f"/approval-requests/{asked['id']}/decide", body, 400)
            assert (await api.get(f"/approval-requests/{asked['id']}"))["decision"] is None

    asyncio.run(run())


def test_an_event_wakes_who_waits_and_starts_who_is_triggered():
    async def run() -> None:
        async with serving() as api:
            waits = await api.start(PAYMENT)
            trigger = {"event": "payment_confirmed", "graph": "payment", "match": {"amount": 5}}
            await api.post("/triggers", trigger, 201)
            body = {"name": "payment_confirmed", "payload": {"amount": 5}, "key": "e-1"}
            sent = await api.post("/events", body)
            assert sent["woken"] == [waits["id"]]
            assert len(sent["started"]) == 1
            assert await api.post("/events", body) == sent
            assert (await rested(api, waits["id"]))["output"]["amount"] == 5
            assert (await api.get(f"/workflow-runs/{sent['started'][0]}"))["source"] == f"event:{sent['id']}"
            for wrong in ({}, {"name": ""}, {"name": "x", "payload": []}, {"name": "x", "payload": {"__a": 1}}):
                await api.post("/events", wrong, 400)

    asyncio.run(run())

"""What belongs to another workspace is not there: every route with an id answers 404, and lists are empty."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.server.serving import LEAD, REVIEW, Api, two_workspaces

from statewright.service.webhooks import WebhookSettings

BODIES: dict[str, Any] = {
    "/api/v1/workflow-runs/{id}/signals": {"signalType": "x"},
    "/api/v1/workflow-runs/{id}/resume": {"answers": {"x": 1}},
    "/api/v1/approval-requests/{id}/decide": {"decision": "approved"},
    "/api/v1/threads/{id}/fork": {"checkpointId": "x"},
    "/api/v1/threads/{id}/state": {"values": {}},
}
QUERIES = {"/api/v1/threads/{id}/diff": {"before": "a", "after": "b"}}
OF_THE_OPERATOR = "/api/v1/workspaces/{id}"


async def _belongings(api: Api) -> dict[str, str]:
    """Something of each kind, by the part of the path that names the kind."""
    run = await api.start(REVIEW)
    approvals = await api.get("/approval-requests")
    schedule = {"name": "daily", "cron": "0 9 * * *", "graph": "lead"}
    await api.define(LEAD)
    return {
        "workflow-runs": run["id"],
        "threads": run["threadId"],
        "approval-requests": approvals[0]["id"],
        "workflow-definitions": run["definitionId"],
        "graphs": "review",
        "schedules": (await api.post("/schedules", schedule, 201))["id"],
        "triggers": (await api.post("/triggers", {"event": "x", "graph": "lead"}, 201))["id"],
        "webhooks": (await api.post("/webhooks", {"url": "http://localhost/hook"}, 201))["id"],
        "api-keys": (await api.get("/api-keys"))[0]["id"],
    }


def test_ids_of_others_are_not_there():
    async def run() -> None:
        async with two_workspaces(webhooks=WebhookSettings(allow_hosts=["localhost"])) as (one, two):
            belongings = await _belongings(one)
            told = one.app.openapi()["paths"]
            routes = [(path, method) for path in told if "{id}" in path for method in told[path]]
            assert len(routes) > 35
            for path, method in routes:
                if path == OF_THE_OPERATOR:
                    continue
                identity = belongings[path.split("/")[3]]
                options: dict[str, Any] = {"params": QUERIES.get(path, {})}
                if path in BODIES and method == "post":
                    options["json"] = BODIES[path]
                elif method == "patch":
                    options["json"] = {}
                response = await two.call(method.upper(), path.replace("{id}", identity), **options)
                assert response.status_code == 404, (method, path, response.text)
                assert response.json()["error"]["code"] == "NOT_FOUND"
            await _is_as_it_was(one, belongings)

    asyncio.run(run())


async def _is_as_it_was(api: Api, belongings: dict[str, str]) -> None:
    run = await api.get(f"/workflow-runs/{belongings['workflow-runs']}")
    assert run["status"] == "waiting"
    assert (await api.get(f"/schedules/{belongings['schedules']}"))["paused"] is False
    assert (await api.get(f"/webhooks/{belongings['webhooks']}"))["active"] is True
    assert (await api.get("/api-keys"))[0]["revokedAt"] is None


def test_lists_have_nothing_of_others():
    async def run() -> None:
        async with two_workspaces(webhooks=WebhookSettings(allow_hosts=["localhost"])) as (one, two):
            await _belongings(one)
            for path in ("workflow-runs", "interrupts", "approval-requests", "schedules", "triggers", "webhooks"):
                assert len(await one.get(f"/{path}")) > 0, path
                assert await two.get(f"/{path}") == [], path
            assert await two.get("/workflow-definitions") == []
            names = [graph["name"] for graph in await two.get("/graphs")]
            assert names == ["greeter"]
            assert await two.post("/workflow-runs/cancel", {"status": ["waiting"]}) == {"runIds": []}

    asyncio.run(run())


def test_a_definition_of_others_cannot_be_run():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            identity = await one.define(LEAD)
            await two.post("/workflow-runs", {"definitionId": identity}, 404)
            await two.post("/workflow-runs", {"graph": "lead"}, 404)
            await two.post("/schedules", {"name": "a", "cron": "* * * * *", "definitionId": identity}, 404)
            await two.post("/triggers", {"event": "a", "definitionId": identity}, 404)

    asyncio.run(run())


def test_a_thread_of_others_cannot_be_gone_on_with():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            run = await one.start(LEAD)
            identity = await two.define(LEAD)
            body = {"definitionId": identity, "threadId": run["threadId"]}
            await two.post("/workflow-runs", body, 404)

    asyncio.run(run())


def test_the_same_idempotency_key_is_another_one_elsewhere():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            first = await one.start(LEAD, idempotencyKey="k")
            second = await two.start(LEAD, idempotencyKey="k")
            assert first["id"] != second["id"]

    asyncio.run(run())

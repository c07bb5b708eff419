"""Objects of another workspace are invisible: every route with an id answers 404, and lists are empty."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
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
OPERATOR_PATHS = {"/api/v1/workspaces/{id}", "/api/v1/workers/{id}/drain", "/api/v1/queues/{id}"}
"""Paths of objects that belong to no workspace."""


async def _create_objects(api: Api) -> dict[str, str]:
    """Create an object of each kind, and return their ids by the path segment of the kind."""
    run = await api.start(REVIEW, threadId="a-thread-of-theirs")
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


def test_ids_of_another_workspace_are_not_found():
    async def run() -> None:
        async with two_workspaces(webhooks=WebhookSettings(allow_hosts=["localhost"])) as (one, two):
            object_ids = await _create_objects(one)
            paths = one.app.openapi()["paths"]
            routes = [(path, method) for path in paths if "{id}" in path for method in paths[path]]
            assert len(routes) > 35
            for path, method in routes:
                if path in OPERATOR_PATHS:
                    continue
                object_id = object_ids[path.split("/")[3]]
                response = await two.call(method.upper(), path.replace("{id}", object_id), **_options(path, method))
                assert response.status_code == 404, (method, path, response.text)
                assert response.json()["error"]["code"] == "NOT_FOUND"
            await _check_unchanged(one, object_ids)

    asyncio.run(run())


async def _check_unchanged(api: Api, object_ids: dict[str, str]) -> None:
    run = await api.get(f"/workflow-runs/{object_ids['workflow-runs']}")
    assert run["status"] == "waiting"
    assert (await api.get(f"/schedules/{object_ids['schedules']}"))["paused"] is False
    assert (await api.get(f"/webhooks/{object_ids['webhooks']}"))["active"] is True
    assert (await api.get("/api-keys"))[0]["revokedAt"] is None


def test_lists_contain_nothing_of_another_workspace():
    async def run() -> None:
        async with two_workspaces(webhooks=WebhookSettings(allow_hosts=["localhost"])) as (one, two):
            await _create_objects(one)
            for path in ("workflow-runs", "interrupts", "approval-requests", "schedules", "triggers", "webhooks"):
                assert len(await one.get(f"/{path}")) > 0, path
                assert await two.get(f"/{path}") == [], path
            assert await two.get("/workflow-definitions") == []
            names = [graph["name"] for graph in await two.get("/graphs")]
            assert names == ["greeter"]
            assert await two.post("/workflow-runs/cancel", {"status": ["waiting"]}) == {"runIds": []}

    asyncio.run(run())


def test_a_definition_of_another_workspace_cannot_be_run():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            definition_id = await one.define(LEAD)
            await two.post("/workflow-runs", {"definitionId": definition_id}, 404)
            await two.post("/workflow-runs", {"graph": "lead"}, 404)
            await two.post("/schedules", {"name": "a", "cron": "* * * * *", "definitionId": definition_id}, 404)
            await two.post("/triggers", {"event": "a", "definitionId": definition_id}, 404)

    asyncio.run(run())


def test_two_workspaces_can_use_the_same_thread_id():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            first = await one.start(REVIEW, threadId="t")
            history = await one.get("/threads/t/history")
            second = await two.start(LEAD, threadId="t")
            assert (first["status"], second["status"]) == ("waiting", "completed")
            third = await two.start(LEAD, threadId="t")
            assert third["status"] == "completed"
            assert await one.get("/threads/t/history") == history
            assert (await two.get("/threads/t/state"))["checkpointId"] not in [
                saved["checkpointId"] for saved in history
            ]
            assert [run["id"] for run in await one.get("/workflow-runs?threadId=t")] == [first["id"]]
            refused = await two.call("GET", f"/threads/t/state?checkpointId={history[0]['checkpointId']}")
            assert refused.status_code == 404

    asyncio.run(run())


def test_foreign_ids_and_unknown_ids_get_the_same_response():
    """Every route is called with both ids: status, headers and body differ only in the id."""

    async def run() -> None:
        async with two_workspaces(webhooks=WebhookSettings(allow_hosts=["localhost"])) as (one, two):
            object_ids = await _create_objects(one)
            paths = one.app.openapi()["paths"]
            routes = [(path, method) for path in paths if "{" in path for method in paths[path]]
            assert len(routes) > 35
            for path, method in routes:
                if path in OPERATOR_PATHS:
                    continue
                foreign_id = object_ids[path.split("/")[3]]
                unknown_id = foreign_id[:-4] + ("0000" if foreign_id[-4:] != "0000" else "1111")
                options = _options(path, method)
                first = await two.call(method.upper(), path.replace("{id}", foreign_id), **options)
                second = await two.call(method.upper(), path.replace("{id}", unknown_id), **options)
                assert _comparable(first, foreign_id) == _comparable(second, unknown_id), (method, path)
            filters = ("threadId", "parentId", "definitionId", "idempotencyKey", "graph")
            for name in filters:
                assert await two.get(f"/workflow-runs?{name}={object_ids['workflow-runs']}") == []

    asyncio.run(run())


def _options(path: str, method: str) -> dict[str, Any]:
    """Return the parameters and the body that a valid request needs."""
    options: dict[str, Any] = {"params": QUERIES.get(path, {})}
    if path in BODIES and method == "post":
        options["json"] = BODIES[path]
    elif method == "patch":
        options["json"] = {}
    return options


def _comparable(response: httpx.Response, object_id: str) -> tuple[Any, ...]:
    """Return a response without the id, and without the parts that differ for each request."""
    headers = {name: value for name, value in response.headers.items() if name not in _REQUEST_HEADERS}
    body = response.json()
    body.get("error", {}).pop("requestId", None)
    return response.status_code, headers, json.dumps(body).replace(object_id, "ID")


_REQUEST_HEADERS = ("x-request-id", "date", "content-length", "x-ratelimit-remaining", "x-ratelimit-reset")


def test_foreign_and_unknown_ids_in_bodies_get_the_same_response():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            foreign_id = await one.define(LEAD)
            unknown_id = foreign_id[:-4] + ("0000" if foreign_id[-4:] != "0000" else "1111")
            bodies: dict[str, dict[str, Any]] = {
                "/workflow-runs": {},
                "/schedules": {"name": "a", "cron": "* * * * *"},
                "/triggers": {"event": "a"},
            }
            for path, body in bodies.items():
                first, second = [
                    _comparable(
                        await two.call("POST", path, json={**body, "definitionId": definition_id}), definition_id
                    )
                    for definition_id in (foreign_id, unknown_id)
                ]
                assert first == second, path
                assert first[0] == 404, path
            runs = [await two.call("POST", "/workflow-runs", json={"graph": name}) for name in ("lead", "nothing")]
            assert _comparable(runs[0], "lead") == _comparable(runs[1], "nothing")

    asyncio.run(run())


def test_two_workspaces_can_use_the_same_idempotency_key():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            first = await one.start(LEAD, idempotencyKey="k")
            second = await two.start(LEAD, idempotencyKey="k")
            assert first["id"] != second["id"]

    asyncio.run(run())

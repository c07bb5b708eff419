"""What belongs to another workspace is not there: every route with an id answers 404, and lists are empty."""

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
OF_THE_OPERATOR = "/api/v1/workspaces/{id}"


async def _belongings(api: Api) -> dict[str, str]:
    """Something of each kind, by the part of the path that names the kind."""
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
                response = await two.call(method.upper(), path.replace("{id}", identity), **_options(path, method))
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


def test_a_thread_id_that_others_use_names_a_thread_of_ones_own():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            theirs = await one.start(REVIEW, threadId="t")
            history = await one.get("/threads/t/history")
            mine = await two.start(LEAD, threadId="t")
            assert (theirs["status"], mine["status"]) == ("waiting", "completed")
            again = await two.start(LEAD, threadId="t")
            assert again["status"] == "completed"
            assert await one.get("/threads/t/history") == history
            assert (await two.get("/threads/t/state"))["checkpointId"] not in [
                saved["checkpointId"] for saved in history
            ]
            assert [run["id"] for run in await one.get("/workflow-runs?threadId=t")] == [theirs["id"]]
            refused = await two.call("GET", f"/threads/t/state?checkpointId={history[0]['checkpointId']}")
            assert refused.status_code == 404

    asyncio.run(run())


def test_an_id_of_others_is_answered_like_one_that_nobody_has():
    """Every route with an id, asked twice: status, headers and body differ in nothing but the id."""

    async def run() -> None:
        async with two_workspaces(webhooks=WebhookSettings(allow_hosts=["localhost"])) as (one, two):
            belongings = await _belongings(one)
            told = one.app.openapi()["paths"]
            routes = [(path, method) for path in told if "{" in path for method in told[path]]
            assert len(routes) > 35
            for path, method in routes:
                if path == OF_THE_OPERATOR:
                    continue
                theirs = belongings[path.split("/")[3]]
                nobodys = theirs[:-4] + ("0000" if theirs[-4:] != "0000" else "1111")
                options = _options(path, method)
                first = await two.call(method.upper(), path.replace("{id}", theirs), **options)
                second = await two.call(method.upper(), path.replace("{id}", nobodys), **options)
                assert _shown(first, theirs) == _shown(second, nobodys), (method, path)
            filters = ("threadId", "parentId", "definitionId", "idempotencyKey", "graph")
            for name in filters:
                assert await two.get(f"/workflow-runs?{name}={belongings['workflow-runs']}") == []

    asyncio.run(run())


def _options(path: str, method: str) -> dict[str, Any]:
    """Whatever a request needs to be understood."""
    options: dict[str, Any] = {"params": QUERIES.get(path, {})}
    if path in BODIES and method == "post":
        options["json"] = BODIES[path]
    elif method == "patch":
        options["json"] = {}
    return options


def _shown(response: httpx.Response, identity: str) -> tuple[Any, ...]:
    """What a response tells, but for the id and what differs from request to request."""
    headers = {name: value for name, value in response.headers.items() if name not in _OF_ONE_REQUEST}
    body = response.json()
    body.get("error", {}).pop("requestId", None)
    return response.status_code, headers, json.dumps(body).replace(identity, "ID")


_OF_ONE_REQUEST = ("x-request-id", "date", "content-length", "x-ratelimit-remaining", "x-ratelimit-reset")


def test_ids_inside_of_bodies_are_answered_alike_too():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            theirs = await one.define(LEAD)
            nobodys = theirs[:-4] + ("0000" if theirs[-4:] != "0000" else "1111")
            bodies: dict[str, dict[str, Any]] = {
                "/workflow-runs": {},
                "/schedules": {"name": "a", "cron": "* * * * *"},
                "/triggers": {"event": "a"},
            }
            for path, body in bodies.items():
                given = [(identity, {**body, "definitionId": identity}) for identity in (theirs, nobodys)]
                first, second = [_shown(await two.call("POST", path, json=one), name) for name, one in given]
                assert first == second, path
                assert first[0] == 404, path
            runs = [await two.call("POST", "/workflow-runs", json={"graph": name}) for name in ("lead", "nothing")]
            assert _shown(runs[0], "lead") == _shown(runs[1], "nothing")

    asyncio.run(run())

    asyncio.run(run())


def test_the_same_idempotency_key_is_another_one_elsewhere():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            first = await one.start(LEAD, idempotencyKey="k")
            second = await two.start(LEAD, idempotencyKey="k")
            assert first["id"] != second["id"]

    asyncio.run(run())

"""Who may come in, and what they may do there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.server.serving import ADMIN_TOKEN, LEAD, Api, serving, two_workspaces

from statewright.service.access import METRICS, SCOPES

WITHIN = [scope for scope in SCOPES if scope != METRICS]
"""What an owner of a workspace may let others do."""
OPEN = {"/health", "/ready"}


def operations(api: Api) -> list[tuple[str, str, dict[str, Any]]]:
    """Every route of the document."""
    told = api.app.openapi()["paths"]
    return [(method.upper(), path, operation) for path, some in told.items() for method, operation in some.items()]


def concrete(path: str) -> str:
    return path.replace("{id}", "some")


async def status_of(api: Api, method: str, path: str) -> tuple[int, str]:
    response = await api.client.request(method, concrete(path), headers=api.headers)
    code = response.json()["error"]["code"] if response.status_code >= 400 else ""
    return response.status_code, code


def test_no_route_is_open_but_those_of_health():
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            for method, path, operation in operations(api):
                if path == "/metrics":  # open on loopback, if nothing else is set
                    assert (await status_of(api, method, path))[0] == 200
                    continue
                if path in OPEN:
                    assert operation["security"] == []
                    continue
                assert await status_of(api, method, path) == (401, "AUTH_ERROR"), (method, path)

    asyncio.run(run())


def test_every_route_asks_for_its_scope():
    async def run() -> None:
        async with two_workspaces() as (api, _):
            found = [one for one in operations(api) if one[2].get("x-scope") in WITHIN]
            assert len(found) > 40
            for method, path, operation in found:
                scope = operation["x-scope"]
                others = [one for one in WITHIN if one not in (scope, "admin")]
                key = await api.post("/api-keys", {"name": "others", "scopes": others}, 201)
                assert (await status_of(api.as_owner_of(key["key"]), method, path)) == (403, "FORBIDDEN"), (
                    method,
                    path,
                )
                key = await api.post("/api-keys", {"name": "one", "scopes": [scope]}, 201)
                status, _ = await status_of(api.as_owner_of(key["key"]), method, path)
                assert status not in (401, 403), (method, path)

    asyncio.run(run())


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "stw_wrong"},
        {"x-api-key": "x" * 100_000},
        {"authorization": "Bearer"},
        {"authorization": "Bearer stw_wrong"},
        {"authorization": "Basic c3R3Om9uZQ=="},
        {"authorization": ""},
        {"x-admin-token": ADMIN_TOKEN},
        {"x-api-key": "stw_\xff\xfe"},
    ],
)
def test_whoever_has_no_key_is_nobody(headers: dict[str, str]):
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            raw = {name: value.encode("latin-1") for name, value in headers.items()}
            error = await api.get("/workflow-runs", 401, headers=raw)
            assert error["code"] == "AUTH_ERROR"

    asyncio.run(run())


def test_a_key_comes_in_either_header():
    async def run() -> None:
        async with two_workspaces() as (api, _):
            key = api.headers["x-api-key"]
            for headers in ({"x-api-key": key}, {"authorization": f"Bearer {key}"}, {"authorization": f"bearer {key}"}):
                response = await api.client.get("/api/v1/workflow-runs", headers=headers)
                assert response.status_code == 200

    asyncio.run(run())


def test_a_key_is_shown_once_and_ends_when_it_is_revoked():
    async def run() -> None:
        async with two_workspaces() as (api, _):
            made = await api.post("/api-keys", {"name": "mine", "scopes": ["runs:read"]}, 201)
            assert made["key"].startswith(made["prefix"])
            listed = await api.call("GET", "/api-keys")
            assert made["key"] not in listed.text
            assert "digest" not in listed.text
            reader = api.as_owner_of(made["key"])
            await reader.get("/workflow-runs")
            assert (await api.delete(f"/api-keys/{made['id']}", 200))["revokedAt"] is not None
            assert "revoked" in (await reader.get("/workflow-runs", 401))["message"]

    asyncio.run(run())


def test_a_key_gives_nothing_that_it_does_not_have():
    async def run() -> None:
        async with two_workspaces() as (api, _):
            made = await api.post("/api-keys", {"name": "clerk", "scopes": ["keys:manage", "runs:read"]}, 201)
            clerk = api.as_owner_of(made["key"])
            await clerk.post("/api-keys", {"name": "reader", "scopes": ["runs:read"]}, 201)
            await clerk.post("/api-keys", {"name": "all", "scopes": ["admin"]}, 403)
            await clerk.post("/api-keys", {"name": "all"}, 403)
            error = await clerk.post("/api-keys", {"name": "odd", "scopes": ["runs:reed"]}, 400)
            assert "runs:read" in error["message"]

    asyncio.run(run())


def test_workspaces_are_made_by_the_operator():
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            for token in ({}, {"x-admin-token": "wrong"}, {"x-admin-token": "\xff".encode("latin-1")}):
                await api.post("/workspaces", {"slug": "one"}, 401, headers=token)
            operator = {"x-admin-token": ADMIN_TOKEN}
            made = await api.post("/workspaces", {"slug": "one", "startsPerMinute": 3}, 201, headers=operator)
            assert (made["slug"], made["startsPerMinute"], made["apiKey"]["scopes"]) == ("one", 3, ["admin"])
            error = await api.post("/workspaces", {"slug": "one"}, 409, headers=operator)
            assert error["code"] == "CONFLICT"
            await api.post("/workspaces", {"slug": "No Slug"}, 400, headers=operator)
            current = await api.as_owner_of(made["apiKey"]["key"]).get("/workspaces/current")
            assert current["id"] == made["id"]

    asyncio.run(run())


def test_without_a_token_nobody_manages_workspaces():
    async def run() -> None:
        async with serving(auth="keys") as api:
            assert (await api.post("/workspaces", {"slug": "one"}, 403))["code"] == "FORBIDDEN"

    asyncio.run(run())


def test_without_keys_everybody_owns_the_default_workspace():
    async def run() -> None:
        async with serving() as api:
            run = await api.start(LEAD)
            assert run["workspaceId"] == "default"
            assert (await api.get("/workspaces/current"))["slug"] == "default"

    asyncio.run(run())


def test_a_key_has_so_many_requests_in_a_minute():
    async def run() -> None:
        async with two_workspaces() as (api, _):
            body = {"name": "slow", "scopes": ["runs:read"], "requestsPerMinute": 2}
            slow = api.as_owner_of((await api.post("/api-keys", body, 201))["key"])
            first = await slow.call("GET", "/workflow-runs")
            assert (first.headers["x-ratelimit-limit"], first.headers["x-ratelimit-remaining"]) == ("2", "1")
            await slow.get("/workflow-runs")
            refused = await slow.call("GET", "/workflow-runs")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "RATE_LIMIT_ERROR")
            assert 1 <= int(refused.headers["retry-after"]) <= 31
            assert refused.headers["x-ratelimit-remaining"] == "0"
            await api.get("/workflow-runs")

    asyncio.run(run())


def test_a_workspace_starts_so_many_runs_in_a_minute():
    async def run() -> None:
        async with serving() as api:
            workspace = await api.get("/workspaces/current")
            await api.patch(f"/workspaces/{workspace['id']}", {"startsPerMinute": 2})
            identity = await api.define(LEAD)
            for _ in range(2):
                await api.post("/workflow-runs", {"definitionId": identity}, 201)
            error = await api.post("/workflow-runs", {"definitionId": identity}, 429)
            assert error["details"]["retryAfter"] > 0
            await api.patch(f"/workspaces/{workspace['id']}", {"startsPerMinute": None})
            await api.post("/workflow-runs", {"definitionId": identity}, 201)

    asyncio.run(run())

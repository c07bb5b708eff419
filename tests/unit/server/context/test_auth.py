"""Authentication and authorization."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from tests.unit.server.serving import ADMIN_TOKEN, LEAD, Api, serving, two_workspaces

from statewright.service.access import OPERATOR_SCOPES, SCOPES

WORKSPACE_SCOPES = [scope for scope in SCOPES if scope not in OPERATOR_SCOPES]
"""The scopes that the owner of a workspace can give to keys."""
PUBLIC = {"/health", "/live", "/ready", "/api/v1/session"}


def operations(api: Api) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the method, the path and the operation of every route."""
    paths = api.app.openapi()["paths"]
    return [(method.upper(), path, operation) for path, item in paths.items() for method, operation in item.items()]


def fill_path(path: str) -> str:
    """Return a path with ids, and with a wrong parameter for the stream that would not end."""
    filled = re.sub(r"\{\w+\}", "some", path)
    return f"{filled}?lastEventId=wrong" if filled.endswith("/workflow-runs/stream") else filled


async def status_of(api: Api, method: str, path: str) -> tuple[int, str]:
    response = await api.client.request(method, fill_path(path), headers=api.headers)
    code = response.json()["error"]["code"] if response.status_code >= 400 else ""
    return response.status_code, code


def test_only_health_routes_are_public():
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            for method, path, operation in operations(api):
                if path == "/metrics":  # open on loopback by default
                    assert (await status_of(api, method, path))[0] == 200
                    continue
                if path in PUBLIC:
                    assert operation["security"] == []
                    continue
                assert await status_of(api, method, path) == (401, "AUTH_ERROR"), (method, path)

    asyncio.run(run())


def test_every_route_requires_its_scope():
    async def run() -> None:
        async with two_workspaces() as (api, _):
            scoped_operations = [entry for entry in operations(api) if entry[2].get("x-scope") in WORKSPACE_SCOPES]
            assert len(scoped_operations) > 40
            for method, path, operation in scoped_operations:
                scope = operation["x-scope"]
                others = [name for name in WORKSPACE_SCOPES if name not in (scope, "admin")]
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
def test_requests_without_a_valid_key_are_refused(headers: dict[str, str]):
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            raw = {name: value.encode("latin-1") for name, value in headers.items()}
            error = await api.get("/workflow-runs", 401, headers=raw)
            assert error["code"] == "AUTH_ERROR"

    asyncio.run(run())


def test_a_key_is_accepted_in_either_header():
    async def run() -> None:
        async with two_workspaces() as (api, _):
            key = api.headers["x-api-key"]
            for headers in ({"x-api-key": key}, {"authorization": f"Bearer {key}"}, {"authorization": f"bearer {key}"}):
                response = await api.client.get("/api/v1/workflow-runs", headers=headers)
                assert response.status_code == 200

    asyncio.run(run())


def test_a_key_is_shown_once_and_can_be_revoked():
    async def run() -> None:
        async with two_workspaces() as (api, _):
            key = await api.post("/api-keys", {"name": "mine", "scopes": ["runs:read"]}, 201)
            assert key["key"].startswith(key["prefix"])
            listed = await api.call("GET", "/api-keys")
            assert key["key"] not in listed.text
            assert "digest" not in listed.text
            reader = api.as_owner_of(key["key"])
            await reader.get("/workflow-runs")
            assert (await api.delete(f"/api-keys/{key['id']}", 200))["revokedAt"] is not None
            assert "revoked" in (await reader.get("/workflow-runs", 401))["message"]

    asyncio.run(run())


def test_a_key_cannot_grant_scopes_that_it_lacks():
    async def run() -> None:
        async with two_workspaces() as (api, _):
            key = await api.post("/api-keys", {"name": "clerk", "scopes": ["keys:manage", "runs:read"]}, 201)
            clerk = api.as_owner_of(key["key"])
            await clerk.post("/api-keys", {"name": "reader", "scopes": ["runs:read"]}, 201)
            await clerk.post("/api-keys", {"name": "all", "scopes": ["admin"]}, 403)
            await clerk.post("/api-keys", {"name": "all"}, 403)
            error = await clerk.post("/api-keys", {"name": "odd", "scopes": ["runs:reed"]}, 400)
            assert "runs:read" in error["message"]

    asyncio.run(run())


def test_only_the_operator_creates_workspaces():
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            for token in ({}, {"x-admin-token": "wrong"}, {"x-admin-token": "\xff".encode("latin-1")}):
                await api.post("/workspaces", {"slug": "one"}, 401, headers=token)
            operator = {"x-admin-token": ADMIN_TOKEN}
            workspace = await api.post("/workspaces", {"slug": "one", "startsPerMinute": 3}, 201, headers=operator)
            assert (workspace["slug"], workspace["startsPerMinute"], workspace["apiKey"]["scopes"]) == (
                "one",
                3,
                ["admin"],
            )
            error = await api.post("/workspaces", {"slug": "one"}, 409, headers=operator)
            assert error["code"] == "CONFLICT"
            await api.post("/workspaces", {"slug": "No Slug"}, 400, headers=operator)
            current = await api.as_owner_of(workspace["apiKey"]["key"]).get("/workspaces/current")
            assert current["id"] == workspace["id"]

    asyncio.run(run())


def test_without_an_admin_token_workspaces_cannot_be_managed():
    async def run() -> None:
        async with serving(auth="keys") as api:
            assert (await api.post("/workspaces", {"slug": "one"}, 403))["code"] == "FORBIDDEN"

    asyncio.run(run())


def test_without_keys_every_caller_owns_the_default_workspace():
    async def run() -> None:
        async with serving() as api:
            run = await api.start(LEAD)
            assert run["workspaceId"] == "default"
            assert (await api.get("/workspaces/current"))["slug"] == "default"

    asyncio.run(run())


def test_requests_with_a_key_are_rate_limited():
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


def test_started_runs_are_limited_per_minute():
    async def run() -> None:
        async with serving() as api:
            workspace = await api.get("/workspaces/current")
            await api.patch(f"/workspaces/{workspace['id']}", {"startsPerMinute": 2})
            definition_id = await api.define(LEAD)
            for _ in range(2):
                await api.post("/workflow-runs", {"definitionId": definition_id}, 201)
            error = await api.post("/workflow-runs", {"definitionId": definition_id}, 429)
            assert error["details"]["retryAfter"] > 0
            await api.patch(f"/workspaces/{workspace['id']}", {"startsPerMinute": None})
            await api.post("/workflow-runs", {"definitionId": definition_id}, 201)

    asyncio.run(run())

"""Workspaces and keys over HTTP; access to them is tested in `test_auth`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.unit.server.serving import ADMIN_TOKEN, catalog, serving

from statewright.service import Service, SpendingLimits
from statewright.testing import FakeClock

OPERATOR = {"headers": {"x-admin-token": ADMIN_TOKEN}}


def test_workspaces_are_listed_and_limited():
    async def run() -> None:
        async with serving(admin_token=ADMIN_TOKEN) as api:
            await api.get("/workspaces", 401)
            workspace = await api.post(
                "/workspaces", {"slug": "sales", "name": "Sales", "maxRunning": 5}, 201, **OPERATOR
            )
            assert (workspace["name"], workspace["maxRunning"], workspace["retentionDays"]) == ("Sales", 5, None)
            listed = await api.get("/workspaces", **OPERATOR)
            assert [entry["slug"] for entry in listed] == ["default", "sales"]
            path = f"/workspaces/{workspace['id']}"
            response = await api.call("PATCH", path, json={"maxRunning": None, "retentionDays": 30}, **OPERATOR)
            changed = response.json()["data"]
            assert (changed["maxRunning"], changed["retentionDays"], changed["name"]) == (None, 30, "Sales")
            invalid_bodies: list[dict[str, Any]] = [
                {"slug": "other"},
                {"maxRunning": 0},
                {"maxRunning": "5"},
                {"retentionDays": -1},
            ]
            for body in invalid_bodies:
                assert (await api.call("PATCH", path, json=body, **OPERATOR)).status_code == 400
            assert (await api.call("PATCH", "/workspaces/none", json={}, **OPERATOR)).status_code == 404

    asyncio.run(run())


def test_slugs_are_validated():
    async def run() -> None:
        async with serving() as api:
            for slug in ("", "A", "a b", "a/b", "ä", "a" * 64, "a\n", 5, None):
                await api.post("/workspaces", {"slug": slug}, 400)
            for slug in ("a", "0", "-", "a" * 63):
                await api.post("/workspaces", {"slug": slug}, 201)

    asyncio.run(run())


def test_keys_have_scopes_and_an_expiry():
    async def run() -> None:
        async with serving() as api:
            body = {"name": "ci", "scopes": ["runs:read", "runs:read"], "expiresAt": "2999-01-01T00:00:00+01:00"}
            key = await api.post("/api-keys", body, 201)
            assert (key["scopes"], key["expiresAt"]) == (["runs:read"], "2998-12-31T23:00:00Z")
            assert [entry["id"] for entry in await api.get("/api-keys")] == [key["id"]]
            invalid_bodies: list[dict[str, Any]] = [
                {},
                {"name": ""},
                {"name": "a", "scopes": []},
                {"name": "a", "scopes": ["all"]},
                {"name": "a", "scopes": "admin"},
                {"name": "a", "expiresAt": "2000-01-01T00:00:00Z"},
                {"name": "a", "requestsPerMinute": 0},
                {"name": "a", "key": "stw_mine"},
                {"name": "a\u0000"},
            ]
            for invalid in invalid_bodies:
                await api.post("/api-keys", invalid, 400)
            assert len(await api.get("/api-keys")) == 1

    asyncio.run(run())


def test_spending_is_reported_and_limits_the_starts_of_runs():
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    limits = SpendingLimits(requests_per_day=1, cost_per_day=2.5)

    async def run() -> None:
        service = Service(catalog(), clock=FakeClock(noon), spending_limits=limits)
        async with serving(service=service) as api:
            spending = await api.get("/workspaces/current/spending")
            assert spending == {
                "workspaceId": "default",
                "day": "2026-01-31",
                "endsAt": "2026-02-01T00:00:00Z",
                "requests": 0,
                "inputTokens": 0,
                "outputTokens": 0,
                "tokens": 0,
                "costUsd": 0,
                "limits": {"tokensPerDay": None, "costPerDay": 2.5, "requestsPerDay": 1},
                "reached": None,
            }
            start = {"graph": "greeter", "input": {"messages": "hi"}}
            await api.post("/workflow-runs?wait=60", start, 201)
            spending = await api.get("/workspaces/current/spending")
            assert (spending["requests"], spending["reached"]) == (1, "requests_per_day")
            refused = await api.call("POST", "/workflow-runs", json=start)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, str(12 * 3600))
            error = refused.json()["error"]
            assert (error["code"], error["details"]["endsAt"]) == ("SPENDING_LIMIT_REACHED", "2026-02-01T00:00:00Z")
            assert (error["details"]["limit"], error["details"]["used"]) == ("requests_per_day", 1)

    asyncio.run(run())


def test_spending_is_reported_without_limits():
    async def run() -> None:
        async with serving() as api:
            spending = await api.get("/workspaces/current/spending")
            assert (spending["requests"], spending["limits"], spending["reached"]) == (0, None, None)
            day = datetime.fromisoformat(spending["day"]).replace(tzinfo=UTC)
            assert datetime.fromisoformat(spending["endsAt"]) == day + timedelta(days=1)

    asyncio.run(run())

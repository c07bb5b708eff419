"""Settings of a server from the project and the command line."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import DatabaseOptions
from statewright.cli.serve.server import (
    ServerLocation,
    build_server_settings,
    build_service_settings,
    build_spending_limits,
    has_keys,
    prepare_default_workspace,
    resolve_location,
)
from statewright.clock import SystemClock
from statewright.errors import InvalidConfig
from statewright.project import Project, Serving
from statewright.runs import DEFAULT_WORKSPACE, InMemoryLedger
from statewright.service import SpendingLimits
from statewright.service.access import create_key, revoke_key
from statewright.service.access.workspaces import get_workspace


def project(**serving: object) -> Project:
    return Project(Path(), serving=Serving(**serving))  # pyright: ignore[reportArgumentType]


def location_of(
    configured: Project, host: str | None = None, port: int | None = None, database: str | None = None
) -> ServerLocation:
    return resolve_location(configured, DatabaseOptions(database=database), host, port)


def test_the_command_line_overrides_the_project(folder: Path) -> None:
    configured = project(host="::1", port=80, database=folder / "mine.db")
    assert location_of(configured) == ServerLocation(host="::1", port=80, database=folder / "mine.db")
    assert location_of(configured, "127.0.0.1", 0, "other.db") == ServerLocation(
        host="127.0.0.1", port=0, database=Path("other.db")
    )


def test_the_environment_overrides_the_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEWRIGHT_DATABASE", "env.db")
    assert location_of(project(database=folder / "mine.db")).database == Path("env.db")


def test_the_default_location(folder: Path) -> None:
    location = location_of(project())
    assert location == ServerLocation(host="127.0.0.1", port=8123, database=Path(".statewright/runs.db"))
    assert location.is_loopback


def test_a_database_in_memory_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="A server must save its runs"):
        location_of(project(), database="memory:")


def test_limits_of_the_project_apply_to_the_service_and_the_server(folder: Path) -> None:
    configured = project(capacity=7, durability="async", drain=2.0, max_body=99, cors_origins=("https://a.example",))
    limits = build_service_settings(configured)
    assert (limits.capacity, limits.durability, limits.drain) == (7, "async", 2.0)
    server_settings = build_server_settings(configured, location_of(configured), "none")
    assert (server_settings.max_body, server_settings.cors_origins, server_settings.auth) == (
        99,
        ("https://a.example",),
        "none",
    )
    assert build_service_settings(project()).capacity == 100


def test_an_invalid_origin_is_refused(folder: Path) -> None:
    configured = project(cors_origins=("*",))
    with pytest.raises(InvalidConfig, match="cors_origins"):
        build_server_settings(configured, location_of(configured), "keys")


def test_the_retention_of_the_project_applies_to_the_default_workspace() -> None:
    async def retention_of(configured: Project) -> int | None:
        ledger = InMemoryLedger()
        await prepare_default_workspace(ledger, configured)
        return (await get_workspace(ledger, DEFAULT_WORKSPACE)).retention_days

    assert asyncio.run(retention_of(project(retention_days=3))) == 3
    assert asyncio.run(retention_of(project())) is None


def test_only_valid_keys_count() -> None:
    async def main() -> list[bool]:
        ledger, now = InMemoryLedger(), SystemClock().now()
        results = [await has_keys(ledger)]
        past = now - timedelta(days=2)
        await create_key(ledger, "default", "old", ["admin"], now=past, expires_at=now - timedelta(days=1))
        record, _ = await create_key(ledger, "default", "gone", ["runs:read"], now=now)
        await revoke_key(ledger, "default", record.id, now)
        results.append(await has_keys(ledger))
        await create_key(ledger, "default", "good", ["admin"], now=now)
        return [*results, await has_keys(ledger)]

    assert asyncio.run(main()) == [False, False, True]


def test_spending_limits_are_those_of_the_project() -> None:
    limits = {"*": {"tokens_per_day": 1000}, "sales": {"cost_per_day": 2}}
    configured = Project(Path(), spending_limits=limits)
    assert build_spending_limits(configured) == {
        "*": SpendingLimits(tokens_per_day=1000),
        "sales": SpendingLimits(cost_per_day=2),
    }
    assert build_spending_limits(project()) == {}

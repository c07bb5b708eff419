"""A service put together as a project and a command line say."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
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


def place(
    given: Project, host: str | None = None, port: int | None = None, database: str | None = None
) -> ServerLocation:
    return resolve_location(given, host, port, database, None)


def test_the_command_line_counts_before_the_project(folder: Path) -> None:
    given = project(host="::1", port=80, database=folder / "mine.db")
    assert place(given) == ServerLocation(host="::1", port=80, database=folder / "mine.db")
    assert place(given, "127.0.0.1", 0, "other.db") == ServerLocation(
        host="127.0.0.1", port=0, database=Path("other.db")
    )


def test_the_environment_counts_before_the_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEWRIGHT_DATABASE", "env.db")
    assert place(project(database=folder / "mine.db")).database == Path("env.db")


def test_nothing_said_is_this_machine(folder: Path) -> None:
    found = place(project())
    assert found == ServerLocation(host="127.0.0.1", port=8123, database=Path(".statewright/runs.db"))
    assert found.is_loopback


def test_durable_runs_are_not_kept_in_memory(folder: Path) -> None:
    with pytest.raises(UsageError, match="durable runs must be saved"):
        place(project(), database="memory:")


def test_limits_of_the_project_reach_the_service_and_the_server(folder: Path) -> None:
    given = project(capacity=7, durability="async", drain=2.0, max_body=99, cors_origins=("https://a.example",))
    limits = build_service_settings(given)
    assert (limits.capacity, limits.durability, limits.drain) == (7, "async", 2.0)
    offered = build_server_settings(given, place(given), "none")
    assert (offered.max_body, offered.cors_origins, offered.auth) == (99, ("https://a.example",), "none")
    assert build_service_settings(project()).capacity == 100


def test_an_origin_that_is_none_is_refused(folder: Path) -> None:
    given = project(cors_origins=("*",))
    with pytest.raises(InvalidConfig, match="cors_origins"):
        build_server_settings(given, place(given), "keys")


def test_the_default_workspace_keeps_runs_as_long_as_the_project_says() -> None:
    async def kept(given: Project) -> int | None:
        ledger = InMemoryLedger()
        await prepare_default_workspace(ledger, given)
        return (await get_workspace(ledger, DEFAULT_WORKSPACE)).retention_days

    assert asyncio.run(kept(project(retention_days=3))) == 3
    assert asyncio.run(kept(project())) is None


def test_only_keys_that_open_something_count() -> None:
    async def main() -> list[bool]:
        ledger, now = InMemoryLedger(), SystemClock().now()
        found = [await has_keys(ledger)]
        past = now - timedelta(days=2)
        await create_key(ledger, "default", "old", ["admin"], now=past, expires_at=now - timedelta(days=1))
        record, _ = await create_key(ledger, "default", "gone", ["runs:read"], now=now)
        await revoke_key(ledger, "default", record.id, now)
        found.append(await has_keys(ledger))
        await create_key(ledger, "default", "good", ["admin"], now=now)
        return [*found, await has_keys(ledger)]

    assert asyncio.run(main()) == [False, False, True]


def test_spending_limits_are_those_of_the_project() -> None:
    limits = {"*": {"tokens_per_day": 1000}, "sales": {"cost_per_day": 2}}
    given = Project(Path(), spending_limits=limits)
    assert build_spending_limits(given) == {
        "*": SpendingLimits(tokens_per_day=1000),
        "sales": SpendingLimits(cost_per_day=2),
    }
    assert build_spending_limits(project()) == {}

"""Settings of a server from the project and the command line."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from statewright.async_futures import aresolve
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import DatabaseOptions
from statewright.cli.serve.server import (
    ServerLocation,
    apply_queue_limits,
    build_server_settings,
    build_service_settings,
    build_spending_limits,
    has_keys,
    open_service,
    prepare_default_workspace,
    resolve_location,
)
from statewright.clock import SystemClock
from statewright.errors import InvalidConfig
from statewright.futures import resolve
from statewright.observe import Metrics
from statewright.project import Project, QueueSettings, Serving
from statewright.runs import DEFAULT_WORKSPACE, InMemoryLedger, Insert, Queue, Run
from statewright.service import Catalog, ServiceSettings, SpendingLimits
from statewright.service.access import create_key, revoke_key
from statewright.service.access.workspaces import get_workspace
from statewright.service.operations.queues import change_queue


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


def test_queues_of_the_project_apply_to_the_service() -> None:
    queues = {"gpu": QueueSettings(tags=("video", "image")), "mail": QueueSettings(tags=("mail",))}
    configured = replace(project(queues=("gpu",), max_losses=3), queues=queues)
    settings = build_service_settings(configured)
    assert (settings.queues, settings.max_losses) == (("gpu",), 3)
    assert settings.queues_by_tag == {"video": "gpu", "image": "gpu", "mail": "mail"}
    assert (build_service_settings(project()).queues, build_service_settings(project()).max_losses) == (None, 10)


def test_a_queue_has_exactly_the_limits_of_its_table_and_others_keep_theirs() -> None:
    async def limits_after(configured: Project) -> dict[str, tuple[int | None, int | None]]:
        ledger = InMemoryLedger()
        await change_queue(ledger, "gpu", {"max_running": 9, "starts_per_minute": 90})
        await change_queue(ledger, "old", {"max_running": 5})
        await apply_queue_limits(ledger, configured)
        await apply_queue_limits(ledger, configured)
        records = await aresolve(ledger.find(Queue))
        return {queue.id: (queue.max_running, queue.starts_per_minute) for queue in records}

    queues = {"gpu": QueueSettings(max_running=2), "new": QueueSettings(starts_per_minute=60)}
    assert asyncio.run(limits_after(replace(project(), queues=queues))) == {
        "gpu": (2, None),
        "new": (None, 60),
        "old": (5, None),
    }
    assert asyncio.run(limits_after(project())) == {"gpu": (9, 90), "old": (5, None)}


def test_a_service_reports_the_runs_and_workers_of_its_database(folder: Path) -> None:
    configured, metrics = project(), Metrics()
    with open_service(configured, Catalog(), location_of(configured), ServiceSettings(), metrics) as service:
        now = service.clock.now()
        run = Run(id="r", workspace_id="w", graph="g", thread_id="r", created_at=now, updated_at=now, due_at=now)
        resolve(service.context.ledger.write([Insert(run)]))
        text = metrics.render().decode()
        assert service.context.bell is None  # a file has none
    for line in ('runs{status="pending"}', 'queue_depth{queue="default"}'):
        assert f"statewright_{line} 1.0" in text
    for line in ('workers{status="live"}', 'queue_claimed_runs{queue="default"}', 'queue_dead_runs{queue="default"}'):
        assert f"statewright_{line} 0.0" in text


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

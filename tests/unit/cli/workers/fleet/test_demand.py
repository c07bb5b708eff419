"""The demand for workers, read from a ledger: what they could claim, and what they have claimed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import STORAGES, empty_database

from statewright.async_futures import aresolve
from statewright.cli.workers.fleet.demand import read_demand
from statewright.cli.workers.fleet.scaling import Demand
from statewright.runs import InMemoryLedger, Insert, Ledger, Queue, Run, Worker
from statewright.storage.sqlite import SqliteLedger

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=STORAGES)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    match request.param:
        case "memory":
            yield InMemoryLedger()
        case "sqlite":
            with SqliteLedger(tmp_path / "runs.db") as ledger:
                yield ledger
        case _:
            from statewright.storage.postgres import PostgresLedger

            yield PostgresLedger(empty_database())


def due(name: str, seconds: float, **values: Any) -> Run:
    """Return a run that has been due for some seconds."""
    columns = {"workspace_id": "default", "graph": "g", "thread_id": name, **values}
    return Run(id=name, created_at=NOW, updated_at=NOW, due_at=NOW - timedelta(seconds=seconds), **columns)


def claimed(name: str, worker_id: str, **values: Any) -> Run:
    run = due(name, 0, claim=f"claim of {name}", worker_id=worker_id, **values)
    run.due_at = None
    return run


def worker(name: str, seconds: float = 30) -> Worker:
    """Return a worker whose lease ends after some seconds."""
    values: dict[str, Any] = {"place": "here", "pid": 1, "process_started": "", "capacity": 3, "started_at": NOW}
    return Worker(id=name, until=NOW + timedelta(seconds=seconds), **values)


def read(ledger: Ledger, *records: Any, queues: Sequence[str] | None = None, fleet: Sequence[str] = ()) -> Demand:
    async def write_and_read() -> Demand:
        await aresolve(ledger.write([Insert(record) for record in records]))
        return await read_demand(ledger, queues, fleet, NOW)

    return asyncio.run(write_and_read())


def test_without_runs_there_is_no_demand(ledger: Ledger) -> None:
    assert read(ledger) == Demand()


def test_the_oldest_run_of_the_served_queues_counts(ledger: Ledger) -> None:
    runs = [due("a", 10), due("b", 20), due("c", 30, queue="gpu"), due("d", -5)]
    assert read(ledger, *runs) == Demand(oldest=30, depth=3)
    assert read(ledger, queues=["default", "mail"]) == Demand(oldest=20, depth=2)


def test_runs_beyond_the_limit_of_their_queue_do_not_count(ledger: Ledger) -> None:
    gpu = [due(f"gpu{number}", 50, queue="gpu") for number in range(4)]
    records = [Queue(id="gpu", max_running=2), claimed("x", "wrk_1", queue="gpu"), worker("wrk_1"), *gpu, due("a", 10)]
    assert read(ledger, *records) == Demand(oldest=50, depth=2)
    assert read(ledger, claimed("y", "wrk_1", queue="gpu")) == Demand(oldest=10, depth=1)


def test_claims_are_counted_for_the_workers_of_the_fleet(ledger: Ledger) -> None:
    workers = [worker("wrk_1"), worker("wrk_2"), worker("wrk_3")]
    runs = [claimed("a", "wrk_1"), claimed("b", "wrk_1", queue="gpu"), claimed("c", "wrk_2"), claimed("d", "wrk_3")]
    demand = read(ledger, *workers, *runs, fleet=["wrk_1", "wrk_2"])
    assert (demand.claims, demand.claimed, demand.lost) == ({"wrk_1": 2, "wrk_2": 1}, 3, 0)


def test_runs_of_lost_workers_are_counted_if_their_queue_is_served(ledger: Ledger) -> None:
    workers = [worker("wrk_1", -1), worker("wrk_2")]
    runs = [claimed("a", "wrk_1"), claimed("b", "wrk_1", queue="gpu"), claimed("c", "wrk_2"), claimed("d", "gone")]
    assert read(ledger, *workers, *runs).lost == 3
    assert read(ledger, queues=["gpu"]).lost == 1

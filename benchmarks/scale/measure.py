"""Measures the costs of the capacity model on this machine, with real parts: a Postgres server, services, HTTP.

*Processor time, not elapsed time.* The model has queues of its own, so it needs what a part uses, not how long it took
while others used the same cores. The time of the database is that of its processes, the time of a service that of its
own process; both are nearly independent of what else the machine does. Only waits (flush, round trip, bell) are elapsed
times, as medians. A cost that others contain is found by the difference of two measurements: runs of 1 and of 11
supersteps, one run at a time and 32 at once, one listener and nine.

*Small.* The state is a number, nodes are empty, the database is on a local socket. Large states cost more in every
place. The whole takes two or three minutes.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.scale.costs import Costs, Origin
from benchmarks.scale.load import RULES
from benchmarks.scale.measure_processes import measure_bell, measure_requests
from benchmarks.scale.measured_service import FEW, MANY, service_on
from benchmarks.scale.spending import MILLISECONDS, Database, spending

AT_ONCE = 32
"""Concurrent runs."""
BEATS = 50
"""Heartbeats of each kind."""


def measure_costs(database: Database, report: Callable[[str], object] = print) -> tuple[Costs, dict[str, Origin]]:
    """Measure all costs, and report progress in sentences."""
    values: dict[str, float] = {}
    for measure in (_measure_waits, _measure_runs, _measure_claims, _measure_reads, measure_bell, measure_requests):
        began = time.monotonic()
        results = measure(database)
        values.update(results)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in results.items())
        name = measure.__name__.removeprefix("_").removeprefix("measure_")
        report(f"{name} ({time.monotonic() - began:.0f} s): {shown}")
    # The reads of a measured run, by the worker and by the caller that waits for its end, are counted by themselves.
    values["insert_db_cpu"] -= 2 * values["read_db_cpu"]
    source = f"--measure, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {sys.version.split()[0]}"
    values = {name: max(0.0, value) for name, value in values.items()}  # a difference may be lost in the noise
    return Costs(**values), {field.name: Origin("measured", source) for field in fields(Costs)}


# -- waits


def _measure_waits(database: Database) -> dict[str, float]:
    """Time a flush of a page to the disk of the database, and a query that does nothing."""
    import psycopg

    times: list[float] = []
    with tempfile.NamedTemporaryFile(dir=database.folder) as file:
        for _ in range(300):
            os.pwrite(file.fileno(), b"x" * 8192, 0)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    flush = statistics.median(times)
    times.clear()
    with psycopg.connect(database.url, autocommit=True) as connection:
        pg = connection.pgconn
        pg.prepare(b"nothing", b"SELECT 1")
        for _ in range(1000):
            began = time.perf_counter()
            pg.exec_prepared(b"nothing", [])
            times.append(time.perf_counter() - began)
    return {"flush": flush * MILLISECONDS, "round_trip": statistics.median(times) * MILLISECONDS}


# -- runs


async def _run_all(service: Any, graph: str, count: int, at_once: int) -> None:
    from statewright.service import StartRun

    async def client(number: int) -> None:
        for _ in range(number):
            started = await service.start_and_wait("default", StartRun(graph=graph, input={"at": 0.0}), 60)
            assert started.run.status == "completed", started.run

    await asyncio.gather(*(client(count // at_once) for _ in range(at_once)))


def _measure_runs(database: Database) -> dict[str, float]:
    """Run short and long runs, alone and many at once: what a run, a superstep and a transaction cost.

    Runs begin in the process that starts them, so that no claims are counted.
    """
    spent: dict[tuple[int, int], tuple[float, float]] = {}
    growth: dict[int, tuple[float, float]] = {}
    opened = database.open("runs")

    async def measure() -> None:
        service = service_on(opened, capacity=200)
        async with service:
            for supersteps in (FEW, MANY):
                await _run_all(service, f"steps{supersteps}", AT_ONCE, AT_ONCE)  # sessions are opened, plans made
            for supersteps, at_once, count in (
                (FEW, 1, 150), (MANY, 1, 50), (FEW, AT_ONCE, 800), (MANY, AT_ONCE, 192),
            ):  # fmt: skip
                before = _sizes(database, "runs")
                with spending(database) as seen:
                    await _run_all(service, f"steps{supersteps}", count, at_once)
                spent[supersteps, at_once] = seen.per(count)
                after = _sizes(database, "runs")
                growth[supersteps] = (after[0] - before[0]) / count, (after[1] - before[1]) / count

    asyncio.run(measure())
    opened.close()
    steps = MANY - FEW
    superstep_alone = (spent[MANY, 1][1] - spent[FEW, 1][1]) / steps
    own, superstep = ((many - few) / steps for many, few in zip(spent[MANY, AT_ONCE], spent[FEW, AT_ONCE], strict=True))
    # A commit of its own has a whole transaction, and one of many at once has next to none of it.
    run_own, run_database = spent[FEW, AT_ONCE]
    bytes_, log = ((many - few) / steps for many, few in zip(growth[MANY], growth[FEW], strict=True))
    return {
        "superstep_cpu": own,
        "run_cpu": run_own - FEW * own,
        "superstep_db_cpu": superstep,
        "transaction_db_cpu": superstep_alone - superstep,
        # The rest of a run is its insert, the commit of its input, and two reads.
        "insert_db_cpu": run_database - (FEW + 1) * superstep,
        "superstep_bytes": bytes_,
        "run_bytes": growth[FEW][0] - FEW * bytes_,
        "superstep_log_bytes": log,
        "run_log_bytes": growth[FEW][1] - FEW * log,
    }


def _sizes(database: Database, schema: str) -> tuple[float, float]:
    """Return the bytes of all tables of a schema with their indexes, and the position in the log."""
    tables = database.query(
        "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE n.nspname = '{schema}' AND c.relkind = 'r'"
    )
    return float(tables), float(database.query("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))


# -- claims


def _due_runs(count: int, first: int, at: datetime) -> list[Any]:
    from statewright.runs import Insert, Run, RunStatus

    return [
        Insert(
            Run(
                id=f"run_{number:09}",
                workspace_id="default",
                graph="g",
                thread_id=f"run_{number:09}",
                status=RunStatus.PENDING,
                due_at=at,
                created_at=at,
                updated_at=at,
            )
        )
        for number in range(first, first + count)
    ]


def _measure_claims(database: Database) -> dict[str, float]:
    """Claim in vain, and in batches; read what a heartbeat reads, with few and with many claimed runs and workers."""
    from statewright.runs import Condition, Insert, Run, Worker
    from statewright.storage.postgres import PostgresLedger

    now = datetime(2026, 1, 1, tzinfo=UTC)
    opened = database.open("claims", trusts_clocks=True)
    ledger: Any = PostgresLedger(opened)
    claimed = [Condition("claim", "!=", None), Condition("worker_id", "!=", None)]

    def beat() -> None:
        ledger.groups(Run, ["worker_id"], where=claimed)
        ledger.find(Worker)

    for _ in range(20):
        ledger.claim("worker", now, 50)
        beat()
    count = 200
    with spending(database) as empty:
        for _ in range(count):
            ledger.claim("worker", now, 50)
            ledger.next_due()
    empty_own, empty_database = empty.per(count)
    with spending(database) as due:
        for _ in range(count):
            ledger.next_due()
    with spending(database) as beats:
        for _ in range(BEATS):
            beat()
    runs = 5_000
    for first in range(0, runs, 500):
        ledger.write(_due_runs(500, first, now))
    with spending(database) as batches:
        taken = 0
        while taken < runs:
            taken += len(ledger.claim("worker", now, 50))
    with spending(database) as beats_of_runs:
        for _ in range(BEATS):
            beat()
    workers = 200
    ledger.write(
        [
            Insert(
                Worker(
                    id=f"wrk_{number}",
                    place="machine",
                    pid=number,
                    process_started="",
                    capacity=100,
                    until=now,
                    started_at=now,
                )
            )
            for number in range(workers)
        ]
    )
    with spending(database) as beats_of_workers:
        for _ in range(BEATS):
            beat()
    opened.close()
    _, due_database = due.per(count)
    _, beat_database = beats.per(BEATS)
    claim = empty_database - due_database
    return {
        "claim_cpu": empty_own,
        "claim_db_cpu": claim,
        "claimed_run_db_cpu": batches.database / runs - claim / 50,
        "heartbeat_db_cpu": beat_database,
        "heartbeat_run_db_cpu": (beats_of_runs.database / BEATS - beat_database) / runs,
        "heartbeat_worker_db_cpu": (beats_of_workers.database - beats_of_runs.database) / BEATS / workers,
    }


# -- reads


def _measure_reads(database: Database) -> dict[str, float]:
    """Read a run, and the versions of many, as the poll of a server does."""
    from statewright.runs import Condition, Run
    from statewright.storage.postgres import PostgresLedger

    opened = database.open("reads")
    ledger: Any = PostgresLedger(opened)
    followed = RULES.follow_batch
    ledger.write(_due_runs(followed, 0, datetime.now(UTC) + timedelta(days=1)))
    ids = [f"run_{number:09}" for number in range(followed)]
    columns = ("id", "version", "last_event", "status", "claim", "due_at")

    def poll() -> None:
        ledger.groups(Run, columns, where=[Condition("id", "in", ids)])

    for _ in range(20):
        ledger.get(Run, ids[0])
        poll()
    with spending(database) as reads:
        for number in range(800):
            ledger.get(Run, ids[number % followed])
    with spending(database) as polls:
        for _ in range(50):
            poll()
    opened.close()
    _, read_database = reads.per(800)
    own, poll_database = polls.per(50 * followed)
    return {
        "read_db_cpu": read_database,
        "polled_run_cpu": own,
        "polled_run_db_cpu": poll_database - read_database / followed,
    }

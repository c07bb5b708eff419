"""Measures what processes do for each other, and requests; see `measure.py`."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from typing import Any
from uuid import uuid4

from benchmarks.scale.load import RULES
from benchmarks.scale.measured_service import service_on
from benchmarks.scale.served import start
from benchmarks.scale.spending import MILLISECONDS, Database, process_seconds, spending
from benchmarks.served.connection import Connection

CLIENTS = 8


# -- the bell


def measure_bell(database: Database) -> dict[str, float]:
    """Ring with one listener and with nine, and sweep as every process does when the bell rings."""
    opened = [database.open("bell") for _ in range(10)]
    ringer, *listeners = [context.bell for context in opened]
    delays: list[float] = []
    spent: dict[int, tuple[float, float]] = {}
    for count in (1, 9):
        for listener in listeners[: count if count == 1 else None]:
            listener.listen(_ignore)
        spent[count] = _ring(database, ringer, listeners[0], delays if count == 1 else [])
    with_one, with_nine = spent[1], spent[9]
    for database_of_bell in opened:
        database_of_bell.close()
    notified_own, notified = ((many - few) / 8 for many, few in zip(with_nine, with_one, strict=True))
    sweep = asyncio.run(_sweep(database))
    return {
        "bell": statistics.median(delays) * MILLISECONDS,
        # The session that rings listens, too.
        "notify_db_cpu": with_one[1] - 2 * notified,
        "notified_cpu": notified_own,
        "notified_db_cpu": notified,
        "sweep_cpu": sweep[0],
        "sweep_db_cpu": sweep[1],
    }


def _ignore(kind: object) -> None:
    """Do nothing about a notification."""


def _ring(database: Database, ringer: Any, listener: Any, delays: list[float]) -> tuple[float, float]:
    """Ring a hundred times, with pauses in which the bell may ring again at once."""
    from statewright.runs import Ring

    heard = threading.Event()

    def hear(kind: Ring) -> None:
        heard.set()

    end = listener.listen(hear)
    ringer.listen(_ignore)
    time.sleep(0.5)  # until all sessions listen
    count = 60
    with spending(database) as spent:
        for _ in range(count):
            heard.clear()
            began = time.perf_counter()
            ringer.ring(Ring.EVENTS)
            if not heard.wait(10):
                raise RuntimeError("A notification did not arrive within 10 seconds.")
            delays.append(time.perf_counter() - began)
            time.sleep(1.2 * RULES.bell_interval)
    end()
    return spent.per(count)


async def _sweep(database: Database) -> tuple[float, float]:
    """Return the costs of a sweep of a process without due work. Sweeps are counted by their reads, six each."""
    opened = database.open("sweeps")
    service = service_on(opened, works=False)
    async with service:
        await asyncio.sleep(1.0)
        submit, reads = opened.submit_read, 0

        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal reads
            reads += 1
            return submit(*arguments, **options)

        opened.submit_read = counted
        with spending(database) as spent:
            for _ in range(100):
                service.wake_background_tasks()
                await asyncio.sleep(0.03)
        await asyncio.sleep(0.2)
    opened.close()
    return spent.per(reads / 6)


# -- requests


def measure_requests(database: Database) -> dict[str, float]:
    """Start runs over HTTP, at a server that does not advance them and does not sweep."""
    served = start("requests", database.url)

    async def client(count: int) -> None:
        connection = Connection(served.port)
        for _ in range(count):
            body = {"graph": "steps1", "input": {"at": 0.0}, "idempotencyKey": uuid4().hex}  # as our client does
            await connection.post("/api/v1/workflow-runs", body)
        await connection.close()

    async def clients(each: int) -> None:
        await asyncio.gather(*(client(each) for _ in range(CLIENTS)))

    try:
        asyncio.run(clients(20))
        before, each = process_seconds(served.process.pid), 100
        asyncio.run(clients(each))
        spent = process_seconds(served.process.pid) - before
    finally:
        served.close()
    return {"request_cpu": spent * MILLISECONDS / (CLIENTS * each)}

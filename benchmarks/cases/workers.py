"""Runs on Postgres that workers in processes of their own advance: how many a second, and how soon.

The database, the workers and the client share the cores of the machine. The client of the throughput is a service in
the measuring process, which starts runs as fast as it can and does not advance them. The latencies are those of a
server and a worker that hear of each other by the bell, with requests over HTTP.

The backlog consists of due runs of a queue that no worker here serves. They are in the same workspace, of the same
graph, and due before all others, so the only thing that keeps a claim from reading them is that their queue is not
served. Limits and busy threads, which hold single runs back, are in the case `claims`.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import uuid4

from benchmarks.figure import Figure, Rival, Take
from benchmarks.own_postgres import own_database
from benchmarks.requirement import AtMost, Within
from benchmarks.scale.check import start_latencies
from benchmarks.scale.copied_runs import copy_run
from benchmarks.scale.measured_service import SLOW_SECONDS, SOME, service_on
from benchmarks.scale.served import SCHEMA, start
from benchmarks.served.connection import Connection
from benchmarks.served.process import Served

WORKERS = 4
RUNS = 1500
"""Runs of a pass."""
STARTERS = 32
"""Runs that the client starts at once."""
BACKLOG = 200_000
RATE, SECONDS = 10, 3.0
"""Runs a second whose latency is measured, and for how long."""
IN_SEQUENCE = 5
"""Runs on one thread."""
MILLISECONDS = 1e3
PATIENCE = 300.0
"""Seconds in which the runs of a pass must have ended."""


# -- throughput


@cache
def _database(backlog: int) -> Any:
    """Start workers on a database that has a number of due runs which they do not serve, and return it, opened."""
    opened = own_database().open(SCHEMA)
    if backlog:
        run_id = asyncio.run(_start_on_other_queue(opened))
        copy_run(own_database(), SCHEMA, run_id, backlog - 1)
    _started.extend(start("worker", own_database().url) for _ in range(WORKERS))
    return opened


_started: list[Served] = []
"""The processes that were started, which end with this one."""


async def _start_on_other_queue(opened: Any) -> str:
    from statewright.service import StartRun

    async with service_on(opened, works=False) as service:
        request = StartRun(graph=f"steps{SOME}", input={"at": 0.0}, queue="other")
        return (await service.start("default", request)).run.id


def throughput(backlog: int) -> Take:
    """Return a pass that starts runs and waits until the workers have advanced all to their ends."""
    return lambda: asyncio.run(_run_all(_database(backlog))) * MILLISECONDS / RUNS


async def _run_all(opened: Any) -> float:
    """Return the seconds from the start of the first run to the end of the last one."""
    from statewright.async_futures import aresolve
    from statewright.runs import Run, RunStatus, where
    from statewright.service import StartRun

    async with service_on(opened, has_bell=True, works=False) as service:

        async def start_some() -> None:
            for _ in range(RUNS // STARTERS):
                await service.start("default", StartRun(graph=f"steps{SOME}", input={"at": 0.0}))

        async def count_completed() -> int:
            completed = where(workspace_id="default", status=RunStatus.COMPLETED)
            return await aresolve(service.context.ledger.count(Run, completed))

        before, began = await count_completed(), time.perf_counter()
        await asyncio.gather(*(start_some() for _ in range(STARTERS)))
        expected = before + RUNS // STARTERS * STARTERS
        while (completed := await count_completed()) < expected:
            if time.perf_counter() - began > PATIENCE:
                raise RuntimeError(f"{expected - completed} runs have not ended in {PATIENCE:g} seconds.")
            await asyncio.sleep(0.05)
        return time.perf_counter() - began


# -- latency


@cache
def _port() -> int:
    """Start a server and a worker, and return the port of the server once it has advanced a run."""
    server, worker = start("server", own_database().url), start("worker", own_database().url)
    _started.extend((server, worker))
    asyncio.run(_advance_one(server.port))
    return server.port


@cache
def _port_of_worker() -> int:
    """Start a process that answers requests and advances the runs itself, and return its port."""
    process = start("worker", own_database().url)
    _started.append(process)
    asyncio.run(_advance_one(process.port))
    return process.port


async def _advance_one(port: int) -> None:
    connection = Connection(port)
    await connection.post("/api/v1/workflow-runs?wait=60", {"graph": "steps1", "input": {"at": 0.0}})
    await connection.close()


def first_node_latency(port: Callable[[], int]) -> Take:
    """Return a pass that measures the median milliseconds from the request to the end of the first node.

    The node only notes the time.
    """

    def take() -> float:
        latencies = asyncio.run(start_latencies(port(), RATE, SECONDS, seed=1))
        return statistics.median(latencies) * MILLISECONDS

    return take


def one_thread() -> float:
    """Return the seconds until runs on one thread have ended that were started at once and take 0.2 s each."""
    return asyncio.run(_run_on_one_thread(_port()))


async def _run_on_one_thread(port: int) -> float:
    connection, thread_id = Connection(port), uuid4().hex
    body = {"graph": "slow", "input": {"at": 0.0}, "threadId": thread_id, "onBusy": "enqueue"}
    began = time.perf_counter()
    for _ in range(IN_SEQUENCE - 1):
        await connection.post("/api/v1/workflow-runs", body)
    last = (await connection.post("/api/v1/workflow-runs?wait=60", body))["data"]
    duration = time.perf_counter() - began
    await connection.close()
    if last["status"] != "completed":
        raise RuntimeError(f"The last run of the thread is {last['status']}.")
    return duration


def _throughput_figure(name: str, backlog: int, **options: Any) -> Figure:
    return Figure(
        name=f"{WORKERS} workers, runs of {SOME} steps{name}",
        unit="ms a run",
        ours=throughput(backlog),
        is_long=True,
        **options,
    )


FIGURES = (
    _throughput_figure("", 0, limit=AtMost(MILLISECONDS / 300)),
    _throughput_figure(
        f", {BACKLOG // 1000} 000 due in another queue",
        BACKLOG,
        rivals=(Rival(name="no others", take=throughput(0), requirement=Within(1.2)),),
    ),
    Figure(
        name="from POST to the first node on another process",
        unit="ms",
        ours=first_node_latency(_port),
        limit=AtMost(15),
        is_long=True,
    ),
    Figure(
        name="from POST to the first node in the same process",
        unit="ms",
        ours=first_node_latency(_port_of_worker),
        limit=AtMost(15),
        is_long=True,
    ),
    Figure(
        name=f"{IN_SEQUENCE} runs of {SLOW_SECONDS:g} s on one thread",
        unit="s",
        ours=one_thread,
        limit=AtMost(1.15),
        is_long=True,
    ),
)

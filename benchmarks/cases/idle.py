"""The processor time of processes on Postgres that have nothing to do: with followers, and with runs that wait.

The runs wait for a signal. One of them was advanced by a worker, the others are copies of its records.
"""

from __future__ import annotations

import asyncio
import time
from functools import cache

from benchmarks.figure import Figure, Rival, Take
from benchmarks.own_postgres import own_database
from benchmarks.requirement import AtMost, Within
from benchmarks.scale.copied_runs import copy_run, tidy
from benchmarks.scale.served import SCHEMA, start
from benchmarks.scale.spending import process_seconds
from benchmarks.served.connection import Connection, open_stream
from benchmarks.served.process import Served

FOLLOWERS = 1000
AT_ONCE = 50
"""Streams that are opened at once."""
WAITING = 10_000
SETTLING, IDLE = 3.0, 8.0
"""Seconds before a measurement, and of it."""
MILLISECONDS = 1e3


def _wait_in_runs(server: Served, count: int) -> list[str]:
    """Let runs wait, and return their ids. A worker must be running."""
    run_id = asyncio.run(_start_waiting(server.port))
    copy_run(own_database(), SCHEMA, run_id, count - 1)
    return [run_id, *(f"{run_id}-{number}" for number in range(1, count))]


async def _start_waiting(port: int) -> str:
    connection = Connection(port)
    run = (await connection.post("/api/v1/workflow-runs?wait=60", {"graph": "listening", "input": {}}))["data"]
    await connection.close()
    if run["status"] != "waiting":
        raise RuntimeError(f"The run is {run['status']} instead of waiting.")
    return run["id"]


# -- followers


@cache
def _followed() -> tuple[Served, list[str]]:
    """Return a server, and the runs that wait in its database. No worker is left."""
    import resource  # not on Windows

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a stream is an open file, here and in the server
    server, worker = start("server", own_database().url), start("worker", own_database().url)
    ids = _wait_in_runs(server, FOLLOWERS)
    worker.close()
    return server, ids


def followers() -> float:
    """Return the share of a core that a server needs for followers of as many runs, in percent."""
    return asyncio.run(_follow(*_followed()))


async def _follow(server: Served, ids: list[str]) -> float:
    streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    for first in range(0, len(ids), AT_ONCE):
        paths = [f"/api/v1/workflow-runs/{run_id}/stream" for run_id in ids[first : first + AT_ONCE]]
        streams += await asyncio.gather(*(open_stream(server.port, path) for path in paths))
    await asyncio.sleep(SETTLING)
    before = process_seconds(server.process.pid)
    await asyncio.sleep(IDLE)
    percent = (process_seconds(server.process.pid) - before) / IDLE * 100
    for reader, writer in streams:
        if reader.at_eof():
            raise RuntimeError("The server has closed a stream.")
        writer.close()
    return percent


# -- polls


@cache
def _worker(waiting: int) -> Served:
    """Return a worker on a database with waiting runs."""
    server, worker = start("server", own_database().url), start("worker", own_database().url)
    if waiting:
        _wait_in_runs(server, waiting)
    else:
        tidy(own_database())
    server.close()
    return worker


def polls(waiting: int) -> Take:
    """Return a pass over an idle worker: the processor time of it and of its sessions, in milliseconds a second."""

    def take() -> float:
        database, pid = own_database(), _worker(waiting).process.pid
        time.sleep(SETTLING)
        before = process_seconds(pid) + database.processor_seconds()
        time.sleep(IDLE)
        return (process_seconds(pid) + database.processor_seconds() - before) * MILLISECONDS / IDLE

    return take


FIGURES = (
    Figure(
        name=f"{FOLLOWERS} idle followers, processor of the server",
        unit="% of a core",
        ours=followers,
        limit=AtMost(5),
        is_long=True,
    ),
    Figure(
        name="an idle worker and its sessions, 10 000 waiting runs",
        unit="ms a second",
        ours=polls(WAITING),
        rivals=(Rival(name="no runs", take=polls(0), requirement=Within(1.25)),),
        is_long=True,
    ),
)

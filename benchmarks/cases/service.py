"""Durable runs over HTTP: the time of a run, of a signal and of an event, and the cost of runs that wait.

The server has a process of its own, the clients share this one. Ours saves every superstep to a SQLite file before the
next one starts; `langgraph dev` keeps everything in memory.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtLeast, AtMost
from benchmarks.scale.spending import process_seconds
from benchmarks.served.connection import Connection, stream
from benchmarks.served.process import Served, ours, theirs

CLIENTS = 8
RUNS_EACH = 40
MILLISECONDS = 1e3
MICROSECONDS = 1e6
WAITING = 10_000
READERS = 50
SIGNALS = 100
_IDLE = 5.0
"""Seconds for which an idle server is measured."""
_our_server = cache(ours)
_their_server = cache(theirs)

Ask = Callable[[Connection], Awaitable[Any]]


async def _ask_us(connection: Connection) -> None:
    answer = await connection.post("/api/v1/workflow-runs?wait=30", {"graph": "three", "input": {"n": 1}})
    assert answer["data"]["status"] == "completed", answer


async def _ask_them(connection: Connection) -> None:
    answer = await connection.post("/runs/wait", {"assistant_id": "three", "input": {"n": 1}})
    assert answer["log"] == ["enrich", "draft", "send"], answer


async def _run_clients(port: int, ask: Ask) -> list[float]:
    """Return the duration of each request of all clients, in seconds."""
    durations: list[float] = []

    async def client() -> None:
        connection = Connection(port)
        for _ in range(RUNS_EACH):
            started_at = time.perf_counter()
            await ask(connection)
            durations.append(time.perf_counter() - started_at)
        await connection.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return durations


def _mean_duration(server: Callable[[], Served], ask: Ask) -> Take:
    def take() -> float:
        port = server().port
        started_at = time.perf_counter()
        asyncio.run(_run_clients(port, ask))
        return (time.perf_counter() - started_at) / (CLIENTS * RUNS_EACH) * MILLISECONDS

    return take


def _percentile_99(server: Callable[[], Served], ask: Ask) -> Take:
    """Return a pass that measures the 99th percentile, in milliseconds."""

    def take() -> float:
        durations = sorted(asyncio.run(_run_clients(server().port, ask)))
        return durations[int(len(durations) * 0.99) - 1] * MILLISECONDS

    return take


# -- waiting, and resuming after a signal


@cache
def _server_with_waiting_runs() -> Served:
    """Start a separate server with many waiting runs."""
    served = ours()

    async def client(count: int) -> None:
        connection = Connection(served.port)
        for _ in range(count):
            await connection.post("/api/v1/workflow-runs", {"graph": "listening", "input": {}})
        await connection.close()

    async def begin() -> None:
        await asyncio.gather(*(client(WAITING // CLIENTS) for _ in range(CLIENTS)))
        connection = Connection(served.port)
        while (await connection.get("/api/v1/workflow-runs?status=waiting&pageSize=1"))["meta"]["total"] < WAITING:
            await asyncio.sleep(0.1)

    asyncio.run(begin())
    return served


def _megabytes() -> float:
    status = Path(f"/proc/{_server_with_waiting_runs().process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _idle_percent() -> float:
    pid = _server_with_waiting_runs().process.pid
    before = process_seconds(pid)
    time.sleep(_IDLE)
    return (process_seconds(pid) - before) / _IDLE * 100


def _signal_latency() -> float:
    """Return the median milliseconds from the signal to the end of the waiting run, as the client sees it."""
    return asyncio.run(_wake(_our_server().port))


async def _wake(port: int) -> float:
    connection, durations = Connection(port), list[float]()
    for _ in range(SIGNALS):
        run = await connection.post("/api/v1/workflow-runs?wait=10", {"graph": "listening", "input": {}})
        path = f"/api/v1/workflow-runs/{run['data']['id']}/stream"
        events = asyncio.create_task(stream(port, path, 8))
        await asyncio.sleep(0.01)
        started_at = time.perf_counter()
        await connection.post(path.replace("stream", "signals"), {"signalType": "go", "payload": {"n": 1}})
        await events
        durations.append(time.perf_counter() - started_at)
    await connection.close()
    return statistics.median(durations) * MILLISECONDS


# -- following a run


def _delivery_cost() -> float:
    """Return the microseconds per delivery: one run of a hundred steps, followed from start to end by all readers."""
    return asyncio.run(_follow(_our_server().port))


async def _follow(port: int) -> float:
    connection = Connection(port)
    later = {"graph": "long", "input": {}, "after": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))}
    run = (await connection.post("/api/v1/workflow-runs", later))["data"]["id"]
    events = 2 + 2 * 100
    readers = [stream(port, f"/api/v1/workflow-runs/{run}/stream", events) for _ in range(READERS)]
    following = asyncio.gather(*readers)
    while (await connection.get(f"/api/v1/workflow-runs/{run}"))["data"]["status"] == "pending":
        await asyncio.sleep(0.005)
    started_at = time.perf_counter()
    counts = await following
    duration = time.perf_counter() - started_at
    assert min(counts) >= events, counts
    await connection.close()
    return duration / sum(counts) * MICROSECONDS


FIGURES = (
    Figure(
        name="run of three steps over HTTP, 8 clients",
        unit="ms",
        ours=_mean_duration(_our_server, _ask_us),
        rivals=(Rival(name="langgraph dev", take=_mean_duration(_their_server, _ask_them), requirement=AtLeast(10)),),
        limit=AtMost(4),
        is_long=True,
    ),
    Figure(
        name="the same, 99 % are quicker than",
        unit="ms",
        ours=_percentile_99(_our_server, _ask_us),
        limit=AtMost(150),
        is_long=True,
    ),
    Figure(
        name="10 000 waiting runs, memory of the server",
        unit="MB",
        ours=_megabytes,
        limit=AtMost(150),
        is_repeated=False,
        is_long=True,
    ),
    Figure(
        name="10 000 waiting runs, idle processor",
        unit="%",
        ours=_idle_percent,
        limit=AtMost(2),
        is_repeated=False,
        is_long=True,
    ),
    Figure(name="signal to the end of its run", unit="ms", ours=_signal_latency, limit=AtMost(20), is_long=True),
    Figure(name="event to one of 50 readers", unit="us", ours=_delivery_cost, limit=AtMost(50), is_long=True),
)

"""Durable runs over HTTP: from the request to the answer, waiting, woken by signals, followed by many.

The server has a process of its own, the clients share this one. Ours saves every superstep to a SQLite file before the
next one begins; `langgraph dev` keeps everything in memory.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtLeast, AtMost
from benchmarks.served.process import Served, ours, theirs
from benchmarks.served.talk import Talk, stream

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
_HZ = os.sysconf("SC_CLK_TCK")

Ask = Callable[[Talk], Awaitable[Any]]


async def _ask_us(talk: Talk) -> None:
    answer = await talk.post("/api/v1/workflow-runs?wait=30", {"graph": "three", "input": {"n": 1}})
    assert answer["data"]["status"] == "completed", answer


async def _ask_them(talk: Talk) -> None:
    answer = await talk.post("/runs/wait", {"assistant_id": "three", "input": {"n": 1}})
    assert answer["log"] == ["enrich", "draft", "send"], answer


async def _all_at_once(port: int, ask: Ask) -> list[float]:
    """Return the duration of each request of all clients, in seconds."""
    took: list[float] = []

    async def client() -> None:
        talk = Talk(port)
        for _ in range(RUNS_EACH):
            began = time.perf_counter()
            await ask(talk)
            took.append(time.perf_counter() - began)
        await talk.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return took


def _a_run(server: Callable[[], Served], ask: Ask) -> Take:
    def take() -> float:
        port = server().port
        began = time.perf_counter()
        asyncio.run(_all_at_once(port, ask))
        return (time.perf_counter() - began) / (CLIENTS * RUNS_EACH) * MILLISECONDS

    return take


def _slowest(server: Callable[[], Served], ask: Ask) -> Take:
    """Return the 99th percentile."""

    def take() -> float:
        took = sorted(asyncio.run(_all_at_once(server().port, ask)))
        return took[int(len(took) * 0.99) - 1] * MILLISECONDS

    return take


# -- waiting, and resuming after a signal


@cache
def _crowd() -> Served:
    """Start a separate server with many waiting runs."""
    served = ours()

    async def client(count: int) -> None:
        talk = Talk(served.port)
        for _ in range(count):
            await talk.post("/api/v1/workflow-runs", {"graph": "listening", "input": {}})
        await talk.close()

    async def begin() -> None:
        await asyncio.gather(*(client(WAITING // CLIENTS) for _ in range(CLIENTS)))
        talk = Talk(served.port)
        while (await talk.get("/api/v1/workflow-runs?status=waiting&pageSize=1"))["meta"]["total"] < WAITING:
            await asyncio.sleep(0.1)

    asyncio.run(begin())
    return served


def _megabytes() -> float:
    status = Path(f"/proc/{_crowd().process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _idle_percent() -> float:
    pid = _crowd().process.pid
    before = _worked(pid)
    time.sleep(_IDLE)
    return (_worked(pid) - before) / _HZ / _IDLE * 100


def _worked(pid: int) -> int:
    """Return the processor time of a process, in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _woken() -> float:
    """Milliseconds from the signal to the end of the waiting run, as seen by the client (median)."""
    return asyncio.run(_wake(_our_server().port))


async def _wake(port: int) -> float:
    talk, took = Talk(port), list[float]()
    for _ in range(SIGNALS):
        run = await talk.post("/api/v1/workflow-runs?wait=10", {"graph": "listening", "input": {}})
        path = f"/api/v1/workflow-runs/{run['data']['id']}/stream"
        events = asyncio.create_task(stream(port, path, 8))
        await asyncio.sleep(0.01)
        began = time.perf_counter()
        await talk.post(path.replace("stream", "signals"), {"signalType": "go", "payload": {"n": 1}})
        await events
        took.append(time.perf_counter() - began)
    await talk.close()
    return statistics.median(took) * MILLISECONDS


# -- following a run


def _delivery() -> float:
    """Return the microseconds per delivery: one run of a hundred steps, followed from start to end by all readers."""
    return asyncio.run(_follow(_our_server().port))


async def _follow(port: int) -> float:
    talk = Talk(port)
    later = {"graph": "long", "input": {}, "after": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))}
    run = (await talk.post("/api/v1/workflow-runs", later))["data"]["id"]
    events = 2 + 2 * 100
    readers = [stream(port, f"/api/v1/workflow-runs/{run}/stream", events) for _ in range(READERS)]
    following = asyncio.gather(*readers)
    while (await talk.get(f"/api/v1/workflow-runs/{run}"))["data"]["status"] == "pending":
        await asyncio.sleep(0.005)
    began = time.perf_counter()
    counts = await following
    took = time.perf_counter() - began
    assert min(counts) >= events, counts
    await talk.close()
    return took / sum(counts) * MICROSECONDS


FIGURES = (
    Figure(
        name="run of three steps over HTTP, 8 clients",
        unit="ms",
        ours=_a_run(_our_server, _ask_us),
        rivals=(Rival(name="langgraph dev", take=_a_run(_their_server, _ask_them), requirement=AtLeast(10)),),
        limit=AtMost(4),
        is_long=True,
    ),
    Figure(
        name="the same, 99 % are quicker than",
        unit="ms",
        ours=_slowest(_our_server, _ask_us),
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
    Figure(name="signal to the end of its run", unit="ms", ours=_woken, limit=AtMost(20), is_long=True),
    Figure(name="event to one of 50 readers", unit="us", ours=_delivery, limit=AtMost(50), is_long=True),
)

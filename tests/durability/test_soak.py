"""A hundred thousand runs in ten minutes of fake time leave no tasks, OS threads or memory behind.

Runs fail, are retried, time out, wait for timers, events and answers, are cancelled by their control or by asyncio,
hit limits, and call subgraphs; a seeded generator chooses. Each ends completed, failed, cancelled or waiting.
"""

import asyncio
import gc
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.work import FULL

from statewright import (
    START,
    InMemorySaver,
    RetryPolicy,
    RunControl,
    StateGraph,
    TimeoutPolicy,
    append,
    interrupt,
    sleep,
    task,
    wait_for_event,
)
from statewright.errors import NodeTimeoutError, RunCancelled
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS
from statewright.testing import FakeClock

RUNS = 100_000 if FULL else 4_000
BATCH = 1_000 if FULL else 200
TICKS = 6
TICK = 1.0
"""Seconds of each tick: 100 batches of 6 seconds are ten minutes."""
MEGABYTE = 1 << 20


class State(TypedDict, total=False):
    fate: str
    log: Annotated[list[Any], append]


FATES = ("well", "flaky", "hopeless", "slow", "stuck", "asks", "sleeps", "listens", "cancelled", "dropped", "calls")
"""The ways in which runs proceed."""


class Mishap(ConnectionError):
    """The error of failing runs."""


@task
async def call(n: int) -> int:
    return n


def build_app(clock: FakeClock, chance: random.Random, saver: InMemorySaver) -> Any:
    async def act(state: State) -> dict[str, Any]:
        fate = state["fate"]
        if fate == "hopeless" or (fate == "flaky" and chance.random() < 0.5):
            raise Mishap(fate)
        if fate in ("slow", "stuck", "cancelled", "dropped"):
            waiting = asyncio.get_running_loop().create_future()
            seconds = 1.5 if fate == "slow" else 1000.0
            alarm = clock.call_later(seconds, lambda: waiting.done() or waiting.set_result(None))
            try:
                await waiting
            finally:
                alarm.cancel()
        return {"log": [fate]}

    async def ask(state: State) -> dict[str, Any]:
        fate = state["fate"]
        if fate == "asks":
            return {"log": [interrupt("?", timeout=2 if chance.random() < 0.5 else None)]}
        if fate == "sleeps":
            sleep(chance.random() * 4)
        if fate == "listens":
            return {"log": [wait_for_event("go", timeout=3)]}
        if fate == "calls":
            return {"log": [await call(1), await call(2)]}
        return {"log": ["asked nothing"]}

    child = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile()
    graph = StateGraph(State)
    graph.add_node(
        "act",
        act,
        retry_policy=RetryPolicy(initial_interval=0.5, retry_on=(Mishap, NodeTimeoutError)),
        timeout=TimeoutPolicy(run_timeout=1.8),
        max_concurrency=900,
    )
    graph.add_node("ask", child).add_node("beside", lambda s: {"log": ["beside"]}, inline=True)
    graph.add_edge(START, "act").add_edge("act", "ask").add_edge("act", "beside")
    return graph.compile(saver, clock=clock)


async def run_one(app: Any, thread_id: str, fate: str) -> str:
    """Run once, and return how the run ended."""
    control = RunControl() if fate == "cancelled" else None
    running = asyncio.ensure_future(app.ainvoke({"fate": fate}, thread_id=thread_id, control=control))
    if fate in ("cancelled", "dropped"):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if control is not None:
            control.request_cancel()
        else:
            running.cancel()
    try:
        result = await running
    except Mishap:
        return "failed"
    except NodeTimeoutError:
        return "timed out"
    except (RunCancelled, asyncio.CancelledError):
        return "cancelled"
    return "waiting" if "__interrupt__" in result else "completed"


async def batch(app: Any, clock: FakeClock, saver: InMemorySaver, chance: random.Random, ends: Counter[str]) -> None:
    """Make some hundred concurrent runs, and wake the waiting ones."""
    threads = {f"thread-{n}": chance.choice(FATES) for n in range(BATCH)}
    running = asyncio.gather(*(run_one(app, thread, fate) for thread, fate in threads.items()))
    while not running.done():
        for _ in range(20):
            await asyncio.sleep(0)
        clock.advance(TICK / 10)
    ended = dict(zip(threads, await running, strict=True))
    clock.advance(TICKS * TICK)
    for thread, end in ended.items():
        if end == "waiting":
            ended[thread] = await wake(app, thread, threads[thread], chance)
    ends.update(f"{threads[thread]}: {end}" for thread, end in ended.items())
    for thread in threads:
        saver.delete_thread(thread)


async def wake(app: Any, thread: str, fate: str, chance: random.Random) -> str:
    if fate == "listens" and chance.random() < 0.5:
        result = await app.asend_event("go", {"n": 1}, thread_id=thread)
    else:
        result = await app.aresume_due(thread_id=thread)
    return "waiting" if result is None or "__interrupt__" in result else "completed"


def resident() -> int:
    """The resident memory of the process in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc on this system")
def test_a_hundred_thousand_runs_leave_nothing_behind() -> None:
    """A separate process is used because the heap of one that has run other tests may grow for other reasons."""
    command = [sys.executable, "-W", "error", "-c", "from tests.durability.test_soak import soak; soak()"]
    process = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def soak() -> None:
    """Make all runs, and raise AssertionError if something is left behind."""
    clock, chance, saver = FakeClock(), random.Random(20), InMemorySaver()
    app = build_app(clock, chance, saver)
    ends: Counter[str] = Counter()

    async def main() -> int:
        before = 0
        for number in range(RUNS // BATCH):
            await batch(app, clock, saver, chance, ends)
            if number == 9:  # caches, pools and arenas have reached their size
                gc.collect()
                before = resident()
            assert len(asyncio.all_tasks()) == 1
        gc.collect()
        return resident() - before

    threads = threading.active_count()
    grown = asyncio.run(main())

    assert ends.total() == RUNS
    assert clock.monotonic() >= RUNS / BATCH * TICKS * TICK
    by_fate = {fate: {key.split(": ")[1] for key in ends if key.startswith(fate + ":")} for fate in FATES}
    assert by_fate["well"] == by_fate["slow"] == by_fate["calls"] == by_fate["sleeps"] == {"completed"}
    assert by_fate["hopeless"] == {"failed"}
    assert by_fate["flaky"] == {"completed", "failed"}
    assert by_fate["stuck"] == {"timed out"}
    assert by_fate["cancelled"] == by_fate["dropped"] == {"cancelled"}
    assert by_fate["asks"] == {"completed", "waiting"}
    assert by_fate["listens"] == {"completed"}
    remaining = [thread.name for thread in threading.enumerate()][threads:]
    assert set(remaining) <= {"statewright-worker"}  # a few idle workers
    assert len(remaining) <= DEFAULT_THREADS
    assert grown < 5 * MEGABYTE, f"grew by {grown / MEGABYTE:.1f} MB"

"""A run that is dropped leaves its thread free, wherever it is interrupted, and whatever else its process does."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

import pytest
from tests.interruptions import interruptions
from tests.work import FULL

from statewright import START, InMemorySaver, StateGraph
from statewright.runtime.lifecycle import thread_lease
from statewright.storage.sqlite import SqliteSaver

THREAD = {"configurable": {"thread_id": "t"}}
GUARD = 600.0


class State(TypedDict, total=False):
    n: int


def chain(node: Callable[[Any], Any] = lambda state: {"n": 2}) -> Any:
    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_node("b", node)
    return graph.add_edge(START, "a").add_edge("a", "b")


def check_free(app: Any) -> None:
    """The thread can be used at once, and nothing is left of the dropped run."""
    assert app.invoke({"n": 0}, THREAD, on_busy="reject", on_unfinished="discard")["n"] == 2
    assert app.checkpointer.lease("t") is None


@pytest.mark.parametrize("reader", ["stream", "iter"])
def test_a_reader_that_is_interrupted_while_it_closes_a_stream_leaves_the_thread_free(reader: str) -> None:
    app = chain().compile(InMemorySaver())
    parts: list[Any] = []

    def read() -> None:
        parts.clear()
        parts.append(getattr(app, reader)({"n": 0}, THREAD, on_unfinished="discard"))
        next(parts[0])

    def close() -> None:
        parts[0].close()

    for _ in interruptions(close, read):
        parts.clear()  # the interruption may have come before anything was closed
        check_free(app)
    parts.clear()
    check_free(app)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of interrupted finalisers
@pytest.mark.parametrize("is_second", [False, True], ids=["once", "twice"])
def test_a_call_that_is_interrupted_anywhere_leaves_the_thread_free(is_second: bool) -> None:
    interrupted: list[bool] = []

    def node(state: Any) -> Any:
        if is_second and interrupted:
            interrupted.clear()
            raise KeyboardInterrupt  # the clean-up is interrupted next
        return {"n": 2}

    app = chain(node).compile(InMemorySaver())

    def call() -> None:
        with suppress(KeyboardInterrupt):
            app.invoke({"n": 0}, THREAD, on_unfinished="discard")

    for number in interruptions(call, lambda: interrupted.append(True)):
        interrupted.clear()
        if FULL or number % 5 == 0:
            check_free(app)
        else:
            app.checkpointer.delete_thread("t")


def test_a_database_that_is_closed_releases_the_threads_of_dropped_runs_first(tmp_path: Path) -> None:
    for _ in range(20):
        with SqliteSaver(tmp_path / "threads.db") as saver:
            parts = chain().compile(saver).stream({"n": 0}, THREAD, on_unfinished="discard")
            next(parts)
            parts.close()
        with SqliteSaver(tmp_path / "threads.db") as saver:
            assert saver.lease("t") is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # asyncio cannot close the generator
def test_a_run_whose_event_loop_was_closed_does_not_keep_its_thread() -> None:
    app = chain().compile(InMemorySaver())
    loop = asyncio.new_event_loop()
    parts = app.astream({"n": 0}, THREAD)
    loop.run_until_complete(anext(parts))
    loop.close()
    check_free(app)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # asyncio cannot end the waiting run
@pytest.mark.parametrize("others", ["queued", "later"])
def test_a_waiting_run_whose_event_loop_was_closed_does_not_keep_its_place_in_the_queue(others: str) -> None:
    """Neither does it affect the holder, which wakes the next run when it ends."""
    begun, may_end = threading.Event(), threading.Event()

    def node(state: State) -> State:
        begun.set()
        assert may_end.wait(GUARD)
        return {"n": 2}

    app = chain(node).compile(InMemorySaver())
    results: list[Any] = []

    def invoke() -> None:
        results.append(app.invoke({"n": 0}, THREAD, on_busy="enqueue"))

    callers = [threading.Thread(target=invoke) for _ in range(3)]
    callers[0].start()
    assert begun.wait(GUARD)
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(app.ainvoke({"n": 0}, THREAD, on_busy="enqueue"))
    queues = thread_lease._queues
    loop.run_until_complete(_until(lambda: any(len(queue) == 1 for queue in queues.values())))
    if others == "queued":
        for caller in callers[1:]:
            caller.start()
        while not any(len(queue) == 3 for queue in queues.values()):
            threading.Event().wait(0.001)
    loop.close()
    may_end.set()
    if others == "later":
        callers[0].join(GUARD)
        for caller in callers[1:]:
            caller.start()
    for caller in callers:
        caller.join(GUARD)

    assert [result["n"] for result in results] == [2, 2, 2]
    assert not waiting.done()
    assert not queues
    del waiting
    gc.collect()


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@pytest.mark.anyio
async def test_a_run_waits_for_one_that_still_cleans_up_after_its_stream_was_closed() -> None:
    may_end, is_cancelled = asyncio.Event(), asyncio.Event()

    async def node(state: State) -> State:
        if state.get("n") == 1 and not is_cancelled.is_set():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                is_cancelled.set()
                await may_end.wait()
                raise
        return {"n": 2}

    app = chain(node).compile(InMemorySaver())
    parts = app.astream({"n": 0}, THREAD)
    await anext(parts)
    closing = asyncio.create_task(parts.aclose())
    await is_cancelled.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    call = asyncio.create_task(app.ainvoke({"n": 0}, THREAD, on_busy="reject", on_unfinished="discard"))
    await asyncio.sleep(0)
    may_end.set()
    assert (await call)["n"] == 2


FORKING = """
import os, sys
from typing import TypedDict
from statewright import START, StateGraph
from statewright.storage.sqlite import SqliteSaver

class State(TypedDict, total=False):
    n: int

def node(state):
    child = os.fork()
    if child == 0:
        sys.exit()  # leaves the blocks of the run, which belongs to the parent
    os.waitpid(child, 0)
    return {"n": 2}

graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_node("b", node)
app = graph.add_edge(START, "a").add_edge("a", "b").compile(SqliteSaver(sys.argv[1]))
print(app.invoke({"n": 0}, {"configurable": {"thread_id": "t"}}, durability="sync"))
"""


@pytest.mark.skipif(not hasattr(sys.modules["os"], "fork"), reason="the system does not fork")
def test_a_forked_process_does_not_release_the_thread_of_its_parents_run(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKING, str(tmp_path / "threads.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD)
    assert done.stdout.strip() == "{'n': 2}", done.stderr


def test_a_database_that_hangs_does_not_hold_up_the_threads_of_another_one() -> None:
    hangs, open_ = threading.Event(), threading.Event()

    class Hanging(InMemorySaver):
        def renew(self, thread_id: str, hold: Any) -> Any:
            if hold.until is None:
                hangs.set()
                assert open_.wait(GUARD)
            return super().renew(thread_id, hold)

    broken, app = chain().compile(Hanging()), chain().compile(InMemorySaver())
    try:
        for number in range(6):
            parts = broken.stream({"n": 0}, {"configurable": {"thread_id": f"t{number}"}})
            next(parts)
            parts.close()
        assert hangs.wait(GUARD)
        parts = app.stream({"n": 0}, THREAD)
        next(parts)
        parts.close()
        check_free(app)
    finally:
        open_.set()
    assert thread_lease.workers.finish(lambda lane: True, GUARD)
    gc.collect()
    check_free(app)

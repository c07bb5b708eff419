"""Drops streams, iterators, runs, savers and stores while locks are held; run by `test_finalisers.py`.

Every lock that Python code creates is watched. A prepared object is dropped at the moment at which a lock is acquired,
by the thread that now holds the lock: as garbage in a cycle, which is collected at once, or with its last reference.
It is a violation if a finaliser waits, or acquires a lock: any lock, because it may be the held one the next time.

usage: finalisers.py memory|sqlite small|full
"""

from __future__ import annotations

import _thread
import asyncio
import gc
import itertools
import operator
import os
import random
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict

violations: list[str] = []
ready: list[list[Any]] = []
"""Objects that may be dropped now, each in a list of its own."""
_finalising: set[int] = set()
"""Threads that are dropping an object."""
_quiet = threading.local()
dropped = 0
acquired = 0
turn = 0
"""The number of the acquisition of a lock at which the next object is dropped."""
_collector = 0
"""The last thread that has completed a full collection."""
held_while_dropped: set[str] = set()
"""The lines that created the locks that were held when an object was dropped."""


class WatchedLock:
    """A lock that reports its acquisition by a finaliser, and drops an object once it is acquired."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._lock = make()
        frame = sys._getframe(2)
        self._site = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking and _thread.get_ident() in _finalising:
            violations.append("".join(traceback.format_stack(limit=12)))
            raise RuntimeError("a finaliser acquires a lock")  # rather than hang
        acquired = self._lock.acquire(blocking, timeout)
        if acquired and not getattr(_quiet, "is_quiet", False):
            self._count()
        return acquired

    def _count(self) -> None:
        """Count an acquisition, and drop the next object if it is its turn."""
        global acquired
        acquired += 1
        if ready and acquired >= turn:
            held_while_dropped.add(self._site)
            drop(ready.pop())

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)


_lock, _rlock = threading.Lock, threading.RLock
threading.Lock = lambda: WatchedLock(_lock)  # type: ignore[assignment,misc]  # before any other import creates one
threading.RLock = lambda: WatchedLock(_rlock)  # type: ignore[assignment,misc]


def drop(contents: list[Any]) -> None:
    """Drop the objects in a list, and collect all garbage."""
    global dropped
    with finalising():
        contents.clear()
        collect()
    dropped += 1


def collect() -> None:
    """Collect all garbage. `gc.collect` does nothing while another thread collects, so it is repeated."""
    global _collector
    while True:
        _collector = 0
        gc.collect()
        if _collector == _thread.get_ident():
            return
        time.sleep(0.001)


@contextmanager
def finalising() -> Iterator[None]:
    thread = _thread.get_ident()
    _finalising.add(thread)
    try:
        yield
    finally:
        _finalising.discard(thread)


@contextmanager
def quiet() -> Iterator[None]:
    """Drop nothing on this thread during the block."""
    _quiet.is_quiet = True
    try:
        yield
    finally:
        _quiet.is_quiet = False


def _note_collection(phase: str, info: dict[str, int]) -> None:
    global _collector
    if info["generation"] == 2:
        _collector = _thread.get_ident()
    (_finalising.add if phase == "start" else _finalising.discard)(_thread.get_ident())


from statewright import CircuitBreaker, InMemorySaver, InMemoryStore, RateLimit, RunControl, StateGraph  # noqa: E402
from statewright.checkpoint import PrunePolicy  # noqa: E402
from statewright.runtime.concurrency.worker_threads import workers  # noqa: E402
from statewright.runtime.lifecycle import thread_lease  # noqa: E402
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver, SqliteStore  # noqa: E402

KIND, SIZE = [*sys.argv[1:], "memory", "small"][:2]
FOLDER = tempfile.mkdtemp()
_numbers = itertools.count()


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


reached: list[str] = []


class Cycle:
    """An object that refers to itself, so that only the garbage collector can drop it."""

    def __init__(self, *contents: Any) -> None:
        self.me, self.contents = self, contents


def chain() -> StateGraph:
    """Return a graph with three supersteps: of one node, of two concurrent nodes, of one node."""
    graph = StateGraph(State)
    for name in "abcd":
        graph.add_node(name, lambda state, runtime, name=name: _speak(runtime, name))
    graph.set_entry_point("a")
    for source, target in ("ab", "ac", "bd", "cd"):
        graph.add_edge(source, target)
    return graph


def _speak(runtime: Any, name: str) -> State:
    runtime.stream_writer(name)
    return {"log": [name]}


def waiting(is_concurrent: bool) -> StateGraph:
    """Return a graph of coroutine nodes with policies, which wait for ever in their first run and end in the next."""
    graph = StateGraph(State)

    async def wait(state: State) -> State:
        if not state.get("log"):
            reached.append("a node that waits")
            await asyncio.get_running_loop().create_future()
        return {"log": ["waited"]}

    limits: dict[str, Any] = {
        "max_concurrency": 1,
        "rate_limit": RateLimit(limit=1000),
        "circuit_breaker": CircuitBreaker(),
    }
    for name in "ab" if is_concurrent else "a":
        graph.add_node(name, wait, **limits)
        graph.add_edge("__start__", name)
    return graph


class Setup:
    """A saver, a store, and graphs that use them."""

    def __init__(self) -> None:
        if KIND == "memory":
            self.saver: Any = InMemorySaver()
            self.store: Any = InMemoryStore()
        else:
            database = SqliteDatabase(os.path.join(FOLDER, f"{next(_numbers)}.db"))
            self.saver, self.store = SqliteSaver(database), SqliteStore(database)
        self.app = chain().compile(self.saver, store=self.store)
        self.waiting = [waiting(is_concurrent).compile(self.saver) for is_concurrent in (False, True)]


setup = Setup()


# -- the dropped objects: each function returns them, and the threads that must be free afterwards

Dropped = tuple[list[Any], list[tuple[Any, str]]]


def _thread_id() -> str:
    return f"thread {next(_numbers)}"


def stream(count: int, **options: Any) -> Dropped:
    thread = _thread_id()
    parts = setup.app.stream({"log": []}, thread_id=thread, **options)
    for _ in range(count):
        next(parts)
    return [parts], [(setup.app, thread)]


def steps(count: int) -> Dropped:
    thread = _thread_id()
    iterator = setup.app.iter({"log": []}, thread_id=thread)
    for _ in range(count):
        next(iterator)
    return [iterator], [(setup.app, thread)]


def delegating(count: int) -> Dropped:
    """A generator of a user, which closes the stream when it is dropped."""
    thread = _thread_id()

    def parts() -> Iterator[Any]:
        yield from setup.app.stream({"log": []}, thread_id=thread)

    iterator = parts()
    for _ in range(count):
        next(iterator)
    return [iterator], [(setup.app, thread)]


def enqueued() -> Dropped:
    """A stream that has waited for its turn."""
    thread, parts = _thread_id(), list[Any]()
    first = setup.app.stream({"log": []}, thread_id=thread)
    next(first)

    def queue_up() -> None:
        second = setup.app.stream({"log": []}, thread_id=thread, on_busy="enqueue")
        next(second)
        parts.append(second)

    waiter = threading.Thread(target=queue_up)
    waiter.start()
    wait_until(lambda: bool(thread_lease._queues))
    first.close()
    waiter.join()
    return parts, [(setup.app, thread)]


def coroutines(is_concurrent: bool) -> Dropped:
    """A sync stream whose coroutine nodes are running when it is dropped."""
    thread, app = _thread_id(), setup.waiting[is_concurrent]
    parts = app.stream({"log": []}, thread_id=thread, stream_mode=["tasks", "custom"])
    next(parts)
    return [parts], [(app, thread)]


def pending_task(is_concurrent: bool, streams: bool) -> Dropped:
    """A task of an event loop that was closed while the task was waiting."""
    thread, app = _thread_id(), setup.waiting[is_concurrent]
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending"

    async def read() -> None:
        async for _ in app.astream({"log": []}, thread_id=thread, stream_mode="tasks"):
            pass

    task = loop.create_task(read() if streams else app.ainvoke({"log": []}, thread_id=thread))
    reached.clear()
    while len(reached) < 1 + is_concurrent:
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.close()
    return [task, loop], [(app, thread)]


def dropped_async_stream() -> Dropped:
    """An async stream that is dropped while its event loop continues."""
    thread = _thread_id()

    async def read() -> None:
        parts = setup.app.astream({"log": []}, thread_id=thread)
        await anext(parts)
        contents = [Cycle(parts)]
        del parts
        drop(contents)
        del contents
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(read())
    return [], [(setup.app, thread)]


def savers() -> Dropped:
    """A saver and a store with pending writes."""
    own = Setup()
    own.app.invoke({"log": []}, thread_id="own")
    own.store.put(("a",), "b", {"c": 1})
    asyncio.run(own.app.ainvoke({"log": []}, thread_id="other"))
    parts = own.app.stream({"log": []}, thread_id="own")
    next(parts)
    gone.append(weakref.ref(own.saver))
    return [own, parts], []


gone: list[weakref.ref[Any]] = []

ITEMS: list[Callable[[], Dropped]] = [
    *(lambda count=count: stream(count) for count in range(5)),
    *(lambda count=count: stream(count, stream_mode=["custom", "tasks"]) for count in (1, 4, 6)),
    *(lambda mode=mode: stream(2, durability=mode) for mode in ("sync", "exit")),
    *(lambda count=count: steps(count) for count in (1, 2)),
    lambda: delegating(2),
    enqueued,
    *(lambda is_concurrent=is_concurrent: coroutines(is_concurrent) for is_concurrent in (False, True)),
    *(lambda flags=flags: pending_task(*flags) for flags in itertools.product((False, True), repeat=2)),
    dropped_async_stream,
    savers,
]


# -- the concurrent work, which acquires every lock of the engine and of the storage


def operate(number: int) -> None:
    thread, app = f"worker {number}", setup.app
    app.invoke({"log": []}, thread_id=thread)
    for _ in app.stream({"log": []}, thread_id=thread, stream_mode=["custom", "updates"]):
        pass
    asyncio.run(app.ainvoke({"log": []}, thread_id=thread))
    control = RunControl()
    control.request_cancel()
    app.invoke({"log": []}, thread_id=thread, max_concurrency=1)
    app.update_state({"configurable": {"thread_id": thread}}, {"log": ["update"]}, as_node="d")
    assert app.get_state(thread_id=thread).values["log"]
    assert list(app.get_state_history(thread_id=thread, limit=3))
    setup.store.put(("a", thread), "key", {"value": 1})
    assert setup.store.search(("a",), limit=1)
    setup.saver.threads(limit=1)
    setup.saver.prune(PrunePolicy(keep_last=5), thread_id=thread)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for other threads. Hangs are detected by the time limit of the whole process."""
    while not condition():
        time.sleep(0.001)


def check(make: Callable[[], Dropped], number: int, in_cycle: bool) -> None:
    global turn
    with quiet():
        things, threads = make()
    before = dropped
    turn = acquired + _random.randrange(_max_acquired)
    ready.append([Cycle(*things) if in_cycle else things])
    del things
    operate(number)
    while ready:  # no lock was acquired
        drop(ready.pop())
    wait_until(lambda: dropped > before)  # possibly by another thread
    assert not violations, "\n\n".join(violations[:3])
    for app, thread in threads:  # free at once, without waiting for a lease of 60 s
        try:
            assert app.invoke({"log": ["again"]}, thread_id=thread)["log"]
        except Exception as error:
            error.add_note(f"item {number}, in a cycle: {in_cycle}")
            raise


_random = random.Random(15)
_max_acquired = 1
"""Acquisitions of locks during `operate`."""


def main() -> None:
    global _max_acquired
    before = acquired
    operate(0)
    _max_acquired = acquired - before
    gc.collect()
    gc.freeze()  # collections examine only objects that are created from now on
    gc.callbacks.append(_note_collection)
    for repetition in range(1 if SIZE == "small" else 8):
        for number, make in enumerate(ITEMS):
            check(make, number, in_cycle=True)
            check(make, number, in_cycle=False)
        gc.set_threshold(1)  # collects at nearly every allocation
        for number, make in enumerate(ITEMS[:: 4 if SIZE == "small" else 1]):
            check(make, number + repetition, in_cycle=True)
        gc.set_threshold(700, 10, 10)
    wait_until(lambda: workers._handed_over.empty())
    collect()
    wait_until(lambda: all(saver() is None for saver in gone))
    writers = 1 if KIND == "sqlite" else 0
    wait_until(lambda: sum(thread.name == "statewright-sqlite" for thread in threading.enumerate()) <= writers)
    assert not violations, "\n\n".join(violations[:3])
    print("dropped", dropped, "objects while locks of these lines were held:", *sorted(held_while_dropped))


if __name__ == "__main__":
    main()

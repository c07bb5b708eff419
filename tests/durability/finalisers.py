"""Drops streams, iterators, runs, savers and stores while locks are held; run by `test_finalisers.py`.

Every lock that Python code makes is watched. What has been prepared is dropped at the moment at which a lock is taken,
by the thread that now holds it: as garbage in a cycle, which is collected there and then, or by its last reference.
A finaliser that takes a lock (any lock: the next time it is the one that is held), or waits, is a violation.

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
"""What may be dropped now, each in a list of its own."""
_finalising: set[int] = set()
"""Threads that drop something at the moment."""
_quiet = threading.local()
dropped = 0
acquired = 0
turn = 0
"""At which acquisition of a lock what is ready is dropped."""
_collector = 0
"""The thread that has collected all garbage last."""
held_while_dropped: set[str] = set()
"""Where the locks were made that were held when something was dropped."""


class WatchedLock:
    """A lock that reports who takes it in a finaliser, and drops something once it is held."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._lock = make()
        frame = sys._getframe(2)
        self._site = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking and _thread.get_ident() in _finalising:
            violations.append("".join(traceback.format_stack(limit=12)))
            raise RuntimeError("a finaliser takes a lock")  # rather than hang
        acquired = self._lock.acquire(blocking, timeout)
        if acquired and not getattr(_quiet, "is_quiet", False):
            self._count()
        return acquired

    def _count(self) -> None:
        """Drop what is ready when its turn has come."""
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
threading.Lock = lambda: WatchedLock(_lock)  # type: ignore[assignment,misc]  # before anything makes one
threading.RLock = lambda: WatchedLock(_rlock)  # type: ignore[assignment,misc]


def drop(held: list[Any]) -> None:
    """Let go of what a list holds, and collect what is garbage by now."""
    global dropped
    with finalising():
        held.clear()
        collect()
    dropped += 1


def collect() -> None:
    """Collect all garbage. While another thread collects, `gc.collect` returns at once and has done nothing."""
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
    """While the block runs, this thread drops nothing."""
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
    """Something that knows itself, so that only the collector of garbage can drop it."""

    def __init__(self, *held: Any) -> None:
        self.me, self.held = self, held


def chain() -> StateGraph:
    """Three supersteps: a lone node, two beside each other, a lone one."""
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


def waiting(is_beside: bool) -> StateGraph:
    """Coroutine nodes with policies that wait for ever in their first superstep, and end in the next run."""
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
    for name in "ab" if is_beside else "a":
        graph.add_node(name, wait, **limits)
        graph.add_edge("__start__", name)
    return graph


class Place:
    """A saver and a store, and graphs over them."""

    def __init__(self) -> None:
        if KIND == "memory":
            self.saver: Any = InMemorySaver()
            self.store: Any = InMemoryStore()
        else:
            database = SqliteDatabase(os.path.join(FOLDER, f"{next(_numbers)}.db"))
            self.saver, self.store = SqliteSaver(database), SqliteStore(database)
        self.app = chain().compile(self.saver, store=self.store)
        self.waiting = [waiting(is_beside).compile(self.saver) for is_beside in (False, True)]


place = Place()


# -- what is dropped: each function gives the things, and the threads that must be free afterwards

Dropped = tuple[list[Any], list[tuple[Any, str]]]


def _thread_id() -> str:
    return f"thread {next(_numbers)}"


def stream(count: int, **options: Any) -> Dropped:
    thread = _thread_id()
    parts = place.app.stream({"log": []}, thread_id=thread, **options)
    for _ in range(count):
        next(parts)
    return [parts], [(place.app, thread)]


def steps(count: int) -> Dropped:
    thread = _thread_id()
    iterator = place.app.iter({"log": []}, thread_id=thread)
    for _ in range(count):
        next(iterator)
    return [iterator], [(place.app, thread)]


def delegating(count: int) -> Dropped:
    """A generator of the user's own: dropped, it closes ours."""
    thread = _thread_id()

    def parts() -> Iterator[Any]:
        yield from place.app.stream({"log": []}, thread_id=thread)

    iterator = parts()
    for _ in range(count):
        next(iterator)
    return [iterator], [(place.app, thread)]


def enqueued() -> Dropped:
    """A stream that had to wait for its turn."""
    thread, parts = _thread_id(), list[Any]()
    first = place.app.stream({"log": []}, thread_id=thread)
    next(first)

    def queue_up() -> None:
        second = place.app.stream({"log": []}, thread_id=thread, on_busy="enqueue")
        next(second)
        parts.append(second)

    waiter = threading.Thread(target=queue_up)
    waiter.start()
    wait_until(lambda: bool(thread_lease._queues))
    first.close()
    waiter.join()
    return parts, [(place.app, thread)]


def coroutines(is_beside: bool) -> Dropped:
    """A sync stream of coroutine nodes that run when it is dropped."""
    thread, app = _thread_id(), place.waiting[is_beside]
    parts = app.stream({"log": []}, thread_id=thread, stream_mode=["tasks", "custom"])
    next(parts)
    return [parts], [(app, thread)]


def pending_task(is_beside: bool, streams: bool) -> Dropped:
    """Tasks of an event loop that was closed while they waited."""
    thread, app = _thread_id(), place.waiting[is_beside]
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending"

    async def read() -> None:
        async for _ in app.astream({"log": []}, thread_id=thread, stream_mode="tasks"):
            pass

    task = loop.create_task(read() if streams else app.ainvoke({"log": []}, thread_id=thread))
    reached.clear()
    while len(reached) < 1 + is_beside:
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.close()
    return [task, loop], [(app, thread)]


def left_async_stream() -> Dropped:
    """An async stream that its reader has left, on a loop that goes on for a while."""
    thread = _thread_id()

    async def read() -> None:
        parts = place.app.astream({"log": []}, thread_id=thread)
        await anext(parts)
        held = [Cycle(parts)]
        del parts
        drop(held)
        del held
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(read())
    return [], [(place.app, thread)]


def savers() -> Dropped:
    """Savers and stores with something to be written."""
    own = Place()
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
    *(lambda is_beside=is_beside: coroutines(is_beside) for is_beside in (False, True)),
    *(lambda one=one: pending_task(*one) for one in itertools.product((False, True), repeat=2)),
    left_async_stream,
    savers,
]


# -- what goes on meanwhile: together these take every lock of the engine and of the storage


def operate(number: int) -> None:
    thread, app = f"worker {number}", place.app
    app.invoke({"log": []}, thread_id=thread)
    for _ in app.stream({"log": []}, thread_id=thread, stream_mode=["custom", "updates"]):
        pass
    asyncio.run(app.ainvoke({"log": []}, thread_id=thread))
    control = RunControl()
    control.request_cancel()
    app.invoke({"log": []}, thread_id=thread, max_concurrency=1)
    app.update_state({"configurable": {"thread_id": thread}}, {"log": ["by hand"]}, as_node="d")
    assert app.get_state(thread_id=thread).values["log"]
    assert list(app.get_state_history(thread_id=thread, limit=3))
    place.store.put(("a", thread), "key", {"value": 1})
    assert place.store.search(("a",), limit=1)
    place.saver.threads(limit=1)
    place.saver.prune(PrunePolicy(keep_last=5), thread_id=thread)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for other threads; the guard against hangs is the time limit of the whole process."""
    while not condition():
        time.sleep(0.001)


def check(make: Callable[[], Dropped], number: int, in_cycle: bool) -> None:
    global turn
    with quiet():
        things, threads = make()
    before = dropped
    turn = acquired + _random.randrange(_most)
    ready.append([Cycle(*things) if in_cycle else things])
    del things
    operate(number)
    while ready:  # no lock was taken
        drop(ready.pop())
    wait_until(lambda: dropped > before)  # by another thread, maybe
    assert not violations, "\n\n".join(violations[:3])
    for app, thread in threads:  # free at once: neither a lease of 60 s nor a wait for it
        try:
            assert app.invoke({"log": ["again"]}, thread_id=thread)["log"]
        except Exception as error:
            error.add_note(f"item {number}, in a cycle: {in_cycle}")
            raise


_random = random.Random(15)
_most = 1
"""How many locks are taken while `operate` runs."""


def main() -> None:
    global _most
    before = acquired
    operate(0)
    _most = acquired - before
    gc.collect()
    gc.freeze()  # collections look at what is made from here on
    gc.callbacks.append(_note_collection)
    for repetition in range(1 if SIZE == "small" else 8):
        for number, make in enumerate(ITEMS):
            check(make, number, in_cycle=True)
            check(make, number, in_cycle=False)
        gc.set_threshold(1)  # from now on it is collected at every step
        for number, make in enumerate(ITEMS[:: 4 if SIZE == "small" else 1]):
            check(make, number + repetition, in_cycle=True)
        gc.set_threshold(700, 10, 10)
    wait_until(lambda: workers._handed_over.empty())
    collect()
    wait_until(lambda: all(one() is None for one in gone))
    writers = 1 if KIND == "sqlite" else 0
    wait_until(lambda: sum(one.name == "statewright-sqlite" for one in threading.enumerate()) <= writers)
    assert not violations, "\n\n".join(violations[:3])
    print("dropped", dropped, "while these were held:", *sorted(held_while_dropped))


if __name__ == "__main__":
    main()

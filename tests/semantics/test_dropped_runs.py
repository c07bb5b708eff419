"""Runs that are dropped while a write is under way: another run that continues the thread repeats no recorded step.

The saver answers with futures, and its writes arrive later, in the order in which they were sent, as with a database
that has a writing thread. A scheduler decides at which of its calls, or during which wait for a write, a run is
interrupted, and when each write arrives.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from tests.semantics.scheduler import Caller, GatedClock, GatedSaver, Scheduler
from tests.semantics.test_two_callers import THREAD, Call, check_no_interleaving, graph_of, outcome_of
from tests.work import FULL

from statewright import Command, InMemorySaver
from statewright.futures import LightFuture
from statewright.ids import TaskId
from statewright.runtime.lifecycle import thread_lease

SEEDS = range(600) if FULL else [*range(40), 361, 567]  # these two repeated a step when the dropped counted as ended


class SlowWriter:
    """Performs writes in the order in which they were sent, each when the scheduler chooses it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._writes: deque[tuple[Callable[[], Any], LightFuture[Any]]] = deque()

    def send(self, write: Callable[[], Any]) -> GatedFuture:
        reply = GatedFuture(self._scheduler)
        self._writes.append((write, reply))
        return reply

    def perform_writes(self) -> None:
        """Perform writes until no caller is left that could send one."""
        while self._writes or self._scheduler.has_others():
            self._scheduler.stop_here()
            if self._writes:
                write, reply = self._writes.popleft()
                try:
                    result = write()
                except Exception as error:
                    reply.set_exception(error)
                else:
                    reply.set_result(result)


class GatedFuture(LightFuture[Any]):
    """A future for which a caller waits at gates, where it may be interrupted."""

    __slots__ = ("_scheduler",)

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def done(self) -> bool:
        while not self._done:
            self._scheduler.stop_here()
        return True


class SlowSaver:
    """A saver whose writes arrive later."""

    def __init__(self, saver: Any, writer: SlowWriter, scheduler: Scheduler, chance: random.Random) -> None:
        self._chance = chance
        self._saver = saver
        self._writer = writer
        self._scheduler = scheduler
        self.sent: set[TaskId] = set()
        """The tasks of the steps whose results were sent."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._saver, name)
        if name not in GatedSaver.CALLS:
            return method

        def call(*args: Any, **options: Any) -> Any:
            self._scheduler.stop_here()
            if name in ("load", "lease"):
                reply = method(*args, **options)
            else:
                if name == "save_results":
                    self._note_sent({task for task, _, _ in args[2].journal})
                reply = self._writer.send(partial(method, *args, **options))
            self._scheduler.stop_here()
            return reply

        return call

    def _note_sent(self, tasks: set[TaskId]) -> None:
        """Note the tasks of steps, and interrupt some callers while they wait for the write, and in their clean-up."""
        self.sent |= tasks
        caller = threading.current_thread()
        if tasks and isinstance(caller, Caller) and caller.interruptions and self._chance.random() < 0.7:
            first = caller.gates + self._chance.randrange(1, 3)
            caller.interruptions = {first, first + 1}


def read_parts(app: Any, call: Call, count: int) -> None:
    """Read some parts of a run's stream, and drop the rest."""
    input_: Command[Any] | None = Command(resume=call.value) if call.kind == "answer" else None
    parts = app.stream(input_, THREAD, on_busy=call.on_busy, run_id=call.name, durability="async")
    with closing(parts):
        for _ in itertools.islice(parts, count):
            pass


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_dropped_while_it_writes_leaves_no_step_to_be_repeated(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver, repeated, chance, scheduler = InMemorySaver(), list[str](), random.Random(seed), Scheduler(seed, uneven=True)
    writer = SlowWriter(scheduler)
    slow_saver = SlowSaver(saver, writer, scheduler, chance)
    graph = graph_of([], lambda task: repeated.append(task) if task in slow_saver.sent else None)
    outcome_of(Call("first", "input", 1, "reject"), graph.compile(saver))

    def hand_over(job: Callable[[], Any], lane: Any = None) -> None:
        scheduler.start("released", job)

    monkeypatch.setattr(thread_lease.workers, "hand_over", hand_over)
    scheduler.add("writer", writer.perform_writes)
    for number in range(4):
        app = graph.compile(slow_saver, clock=GatedClock(scheduler))
        call = Call(
            f"call{number}",
            chance.choice(["answer", "continue"]) if number else "answer",
            number,
            chance.choice(["reject", "enqueue", "enqueue", "interrupt"]),
        )
        is_stream = chance.random() < 0.4
        perform = partial(read_parts, app, call, chance.randrange(1, 4)) if is_stream else partial(call.perform, app)
        caller = scheduler.add(call.name, perform)
        if number < 3 and not is_stream:
            first = chance.randrange(5, 30)
            caller.interruptions = {first, first + chance.randrange(1, 4)}  # the second one interrupts the clean-up
    scheduler.run()

    app = graph.compile(saver)
    while app.get_state(THREAD).next:
        waits = app.get_state(THREAD).interrupts
        app.invoke(Command(resume=1) if waits else None, THREAD)
    assert not repeated
    check_no_interleaving(app)
    log = app.get_state(THREAD).values["log"]
    assert (len(log), log[0], log[2]) == (3, "in 1", "end")

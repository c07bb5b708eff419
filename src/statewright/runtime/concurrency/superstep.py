"""The concurrent tasks of one superstep, while they run on threads and event loops.

A superstep goes through three states. While it is *open*, tasks may start. It is *ending* once a task has failed or the
caller of the graph ends: no further task starts, and the running ones may finish within the grace period. Then it is
*closed*: the driver takes `outcomes`, and later ones are ignored, because a plain function that could not be stopped
must no longer write. It also closes as soon as the last outcome has arrived, or the run is cancelled.

Outcomes arrive on any thread, so state changes happen under `lock`. Signal handlers and finalisers must not wait for a
lock, since they may have interrupted the thread that holds it. They use `abandon`, which sets `closed` without it; an
outcome that arrives at the same moment may still be stored, and is ignored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import islice

from statewright.checkpoint import Checkpoint, Task, TaskResult
from statewright.errors import NodeCancelledError, RunCancelled
from statewright.graph import ParentCommand
from statewright.runtime.concurrency.result_flusher import ResultFlusher, flusher_for
from statewright.runtime.core.effects import RunTasks
from statewright.runtime.core.loop import budget_exit
from statewright.runtime.core.program import NodeProgram
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.invocation.run import OpenSuperstep, Run
from statewright.runtime.tasks.liveness import calling_superstep


class Superstep:
    """Collects the outcomes of concurrent tasks, in task order, independent of their order of arrival.

    A Command for the parent graph does not count as a failure here: the other tasks continue.
    """

    __slots__ = (
        "_callbacks",
        "_flusher",
        "_on_change",
        "_remaining",
        "checkpoint",
        "closed",
        "ending",
        "failure",
        "lock",
        "nodes",
        "outcomes",
        "run",
        "running_indices",
        "tasks",
    )

    def __init__(self, run: Run, effect: RunTasks, on_change: Callable[[], object]) -> None:
        """`on_change` is called, on any thread, when the superstep starts to end and when it has closed."""
        self.run = run
        self.checkpoint: Checkpoint = effect.checkpoint
        self.tasks: tuple[Task, ...] = effect.tasks
        self.nodes: dict[str, NodeProgram] = run.program.nodes
        self.outcomes: list[Outcome | None] = [None] * len(effect.tasks)
        self.closed = False
        self.ending = False
        """True if no further task may start: a task has failed, or the caller of this graph ends."""
        self.failure: Failure | None = None
        """The first failure."""
        self.running_indices: set[int] = set()
        """The indices of running tasks."""
        self.lock = threading.Lock()
        self._remaining = len(effect.tasks)
        self._on_change = on_change
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._flusher = flusher_for(run, effect.checkpoint)

    def accept(self, index: int, outcome: Outcome) -> None:
        """Accept the outcome of a task. Called from any thread."""
        if type(outcome) is TaskResult:
            outcome.folded = None  # a copy of the state, of use only if no sibling has changed it
        else:
            self._cancel_unstarted(index)
        if self._flusher is not None and type(outcome) is TaskResult:
            outcome = self._flush_soon(self._flusher, outcome)
        with self.lock:
            self.running_indices.discard(index)
            if self.closed:
                return
            if self.ending or (type(outcome) is Failure and not outcome.is_parent_command):
                changed = self._accept_while_ending(index, outcome)
            else:
                self.outcomes[index] = outcome
                self._remaining -= 1
                changed = not self._remaining
            if changed and (not self._remaining or not self.running_indices):
                self._close_after_calls()
        if changed:
            self._notify()

    def accept_results(self, results: Sequence[tuple[int, TaskResult]]) -> None:
        """Accept the results of several tasks, each with its index."""
        with self.lock:
            accepts_together = self._flusher is None and not (self.ending or self.closed)
            if accepts_together:
                for index, result in results:
                    result.folded = None
                    self.outcomes[index] = result
                    self.running_indices.discard(index)
                self._remaining -= len(results)
                if self._remaining:
                    return
                self._close_after_calls()
        if accepts_together:
            self._notify()
        else:
            for index, result in results:
                self.accept(index, result)

    def accept_lone(self, outcome: Outcome | None) -> None:
        """Accept the outcome of a task that ran alone, and whose `@task` calls are still running.

        `outcome` is None if the task was stopped.
        """
        if outcome is None:
            self._cancel_unstarted(0)
            self.end()
        else:
            self.accept(0, outcome)

    def on_call_ended(self) -> None:
        """Record that a call of a `@task` function has ended."""
        with self.lock:
            if self.closed or not self.ending or self.running_indices:
                return
            self._close_after_calls()
            changed = self.closed
        if changed:
            self._notify()

    def _cancel_unstarted(self, index: int) -> None:
        """Cancel `@task` calls of a task that has ended, if they have not started."""
        if self.run.open_calls is not None:
            self.run.open_calls.cancel_unstarted(self.tasks[index])

    def _close_after_calls(self) -> None:
        """Close, unless plain functions started by `@task` calls must be awaited. The caller holds the lock."""
        run = self.run
        if run.open_calls is None or self.closed or run.config.sibling_grace == 0 or run.root.has_lost_thread:
            self._close()
        elif run.open_calls.must_be_awaited(self.tasks, self.outcomes):
            self.ending = True
        else:
            self._close()

    def _accept_while_ending(self, index: int, outcome: Outcome) -> bool:
        """Accept a failure, or an outcome that follows one. Return True if waiting threads must be notified."""
        is_first_failure = not self.ending
        if type(outcome) is not Failure or outcome.is_parent_command or is_first_failure:
            self.outcomes[index] = outcome
        elif not isinstance(outcome.error, RunCancelled | NodeCancelledError):  # a cancelled task has not failed
            outcome.is_secondary = self.failure is not None
            self.outcomes[index] = outcome
        self._remaining -= 1
        if is_first_failure:
            assert type(outcome) is Failure
            self.ending, self.failure = True, outcome
            if not self._should_await_siblings(outcome.error):
                self._close()
        return is_first_failure or not self.running_indices or not self._remaining

    def _should_await_siblings(self, error: BaseException) -> bool:
        """Return whether running siblings of a task that failed with this error get a grace period."""
        if isinstance(error, RunCancelled) or not isinstance(error, Exception | ParentCommand):
            return False
        return self.run.config.sibling_grace != 0 and not budget_exit(self.run, error)

    def _flush_soon(self, flusher: ResultFlusher, result: TaskResult) -> Outcome:
        """Schedule the saving of a result while other tasks run. Return it, or a Failure if scheduling fails."""
        if self._remaining > 1 and not self.closed:
            try:
                flusher.add(result)
            except Exception as error:  # of the clock
                return Failure(result.task, error)
        return result

    def begin(self, index: int) -> bool:
        """Record that a task starts. Return False if it must not start, because the superstep is ending or closed."""
        with self.lock:
            if self.ending or self.closed:
                return False
            self.running_indices.add(index)
            return True

    def begin_next(self, indices: Iterator[int]) -> int | None:
        """Record that the next task of an iterator starts, which threads may share, and return its index.

        Return None if there is none, or if none may start.
        """
        with self.lock:
            index = None if self.ending or self.closed else next(indices, None)
            if index is not None:
                self.running_indices.add(index)
        return index

    def begin_next_of(self, indices: Iterator[int], count: int) -> Sequence[int]:
        """Record that up to `count` further tasks of an iterator start, and return their indices; none if none may."""
        with self.lock:
            if self.ending or self.closed:
                return ()
            begun = tuple(islice(indices, count))
            self.running_indices.update(begun)
        return begun

    def record_stop(self, index: int) -> None:
        """Record that a task was stopped and has no outcome."""
        self._cancel_unstarted(index)
        with self.lock:
            self.running_indices.discard(index)
            if self.closed or not self.ending or self.running_indices:
                return
            self._close_after_calls()
        self._notify()

    def end(self) -> None:
        """Let no further task start, since the caller of this graph ends. Outcomes of running tasks are accepted."""
        with self.lock:
            if self.closed or self.ending:
                return
            self.ending = True
            if not self.running_indices:
                self._close_after_calls()
        self._notify()

    def close(self) -> None:
        """Accept no further outcomes."""
        with self.lock:
            was_closed = self.closed
            self._close()
        if not was_closed:
            self._notify_callbacks()

    def abandon(self) -> None:
        """Do the same as `close`, but without the lock, so that finalisers and signal handlers may call it."""
        was_closed, self.closed = self.closed, True
        self.run.closed_step = max(self.run.closed_step, self.checkpoint.step)
        if self._flusher is not None:
            self._flusher.abandon()
        if not was_closed:
            self._notify_callbacks()

    def close_and_notify(self) -> None:
        """Accept no further outcomes, and wake the driver. Signal handlers may call it."""
        self.abandon()
        self._on_change()

    @contextmanager
    def running(self) -> Generator[None]:
        """During the block, this is the current superstep of its run.

        In a subgraph it also ends or closes together with the superstep of the calling task.
        """
        run, outer = self.run, calling_superstep(self.run)
        run.superstep = self
        try:
            with outer.on_end(partial(self._follow, outer)) if outer is not None else nullcontext():
                yield
        finally:
            run.superstep = run.shipments = None

    def _follow(self, outer: OpenSuperstep) -> None:
        """End or close, since the superstep of the calling task does."""
        if outer.closed:
            self.close_and_notify()
        elif outer.ending:
            self.end()

    @contextmanager
    def on_end(self, callback: Callable[[], object]) -> Generator[None]:
        """During the block, call back when the superstep starts to end and when it closes, or at once if it has."""
        key = object()
        self._callbacks[key] = callback  # without the lock, since the block may end in a finaliser
        try:
            if self.ending or self.closed:
                callback()
            yield
        finally:
            self._callbacks.pop(key, None)

    def _close(self) -> None:
        """Close. The caller holds the lock."""
        self.closed = True
        self.run.closed_step = max(self.run.closed_step, self.checkpoint.step)
        if self._flusher is not None:
            self._flusher.close()

    def _notify(self) -> None:
        try:
            self._notify_callbacks()
        finally:
            self._on_change()

    def _notify_callbacks(self) -> None:
        """Notify waiting tasks, and the supersteps of subgraphs that tasks have called."""
        for callback in self._callbacks.copy().values() if self._callbacks else ():
            with suppress(RuntimeError):  # the event loop to wake is closed, so nothing waits on it
                callback()

    def task_nodes(self) -> list[NodeProgram]:
        """Return the node of each task."""
        nodes = self.nodes
        return [nodes[task.node] for task in self.tasks]

"""The tasks of one superstep while they run, whoever runs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from statewright.checkpoint import Checkpoint, Task, TaskResult
from statewright.errors import NodeCancelledError, RunCancelled
from statewright.graph import ParentCommand
from statewright.runtime.concurrency.result_flusher import ResultFlusher, landing_of
from statewright.runtime.core.effects import RunTasks
from statewright.runtime.core.loop import budget_exit
from statewright.runtime.core.program import NodeProgram
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.invocation.run import OpenSuperstep, Run


class Superstep:
    """Collects outcomes in task order, whatever the order of arrival.

    It closes when the last task has landed. After a failure it starts nothing more, and closes once what is under way
    has landed or the driver has waited for long enough. What arrives later is dropped: a plain function that was left
    running must not write any more. A Command for the parent graph is no failure: it waits for the others.
    """

    __slots__ = (
        "_callbacks",
        "_landing",
        "_left",
        "_on_change",
        "checkpoint",
        "closed",
        "ending",
        "failure",
        "lock",
        "nodes",
        "outcomes",
        "run",
        "tasks",
        "under_way",
    )

    def __init__(self, run: Run, effect: RunTasks, on_change: Callable[[], object]) -> None:
        """`on_change` is called, from any thread, when it has closed, and when it has begun to end."""
        self.run = run
        self.checkpoint: Checkpoint = effect.checkpoint
        self.tasks: tuple[Task, ...] = effect.tasks
        self.nodes: dict[str, NodeProgram] = run.program.nodes
        self.outcomes: list[Outcome | None] = [None] * len(effect.tasks)
        self.closed = False
        self.ending = False
        """True if no further task is started: a task has failed, or the caller of this graph ends."""
        self.failure: Failure | None = None
        """The first failure."""
        self.under_way: set[int] = set()
        """The places of tasks that have begun and have not ended."""
        self.lock = threading.Lock()
        self._left = len(effect.tasks)
        self._on_change = on_change
        self._callbacks: dict[object, Callable[[], object]] = {}
        self._landing = landing_of(run, effect.checkpoint)

    def land(self, place: int, outcome: Outcome) -> None:
        """Accept the outcome of the task at `place`, from any thread."""
        if type(outcome) is not TaskResult:
            self._call_off(place)
        if self._landing is not None and type(outcome) is TaskResult:
            outcome = self._noted(self._landing, outcome)
        with self.lock:
            self.under_way.discard(place)
            if self.closed:
                return
            if self.ending or (type(outcome) is Failure and not outcome.leaves):
                changed = self._take_while_ending(place, outcome)
            else:
                self.outcomes[place] = outcome
                self._left -= 1
                changed = not self._left
            if changed and (not self._left or not self.under_way):
                self._close_after_calls()
        if changed:
            self._tell()

    def land_lone(self, outcome: Outcome | None) -> None:
        """Accept the outcome of a task that ran alone while calls that it has made are still running.

        None stands for one that was stopped.
        """
        if outcome is None:
            self._call_off(0)
            self.end()
        else:
            self.land(0, outcome)

    def call_ended(self) -> None:
        """Record that a call of a `@task` function has ended."""
        with self.lock:
            if self.closed or not self.ending or self.under_way:
                return
            self._close_after_calls()
            changed = self.closed
        if changed:
            self._tell()

    def _call_off(self, place: int) -> None:
        """Begin nothing more of what the task at `place` has called: it is over."""
        if self.run.calls is not None:
            self.run.calls.call_off(self.tasks[place])

    def _close_after_calls(self) -> None:
        """Close, unless plain functions that tasks have called must be awaited. The lock is held."""
        run = self.run
        if run.calls is None or self.closed or run.config.sibling_grace == 0 or run.root.hold_lost:
            self._close()
        elif run.calls.are_waited_for(self.tasks, self.outcomes):
            self.ending = True
        else:
            self._close()

    def _take_while_ending(self, place: int, outcome: Outcome) -> bool:
        """Accept a failure, or an outcome after one. Return whether that changes anything for waiting threads."""
        begins = not self.ending
        if type(outcome) is not Failure or outcome.leaves or begins:
            self.outcomes[place] = outcome
        elif not isinstance(outcome.error, RunCancelled | NodeCancelledError):  # it was stopped, that is no failure
            outcome.came_later = self.failure is not None
            self.outcomes[place] = outcome
        self._left -= 1
        if begins:
            assert type(outcome) is Failure
            self.ending, self.failure = True, outcome
            if not self._may_wait(outcome.error):
                self._close()
        return begins or not self.under_way or not self._left

    def _may_wait(self, error: BaseException) -> bool:
        """True if siblings of a failed task may be awaited."""
        if isinstance(error, RunCancelled) or not isinstance(error, Exception | ParentCommand):
            return False
        return self.run.config.sibling_grace != 0 and not budget_exit(self.run, error)

    def _noted(self, landing: ResultFlusher, result: TaskResult) -> Outcome:
        """The result, to be saved while others still run; the failure of its task if that cannot be arranged."""
        if self._left > 1 and not self.closed:
            try:
                landing.add(result)
            except Exception as error:  # of the clock
                return Failure(result.task, error)
        return result

    def begin(self, place: int) -> bool:
        """Record that the task at `place` begins. Return False if no task may begin any more."""
        with self.lock:
            if self.ending or self.closed:
                return False
            self.under_way.add(place)
            return True

    def leave(self, place: int) -> None:
        """Record that the task at `place` was stopped and has no outcome."""
        self._call_off(place)
        with self.lock:
            self.under_way.discard(place)
            if self.closed or not self.ending or self.under_way:
                return
            self._close_after_calls()
        self._tell()

    def end(self) -> None:
        """Start nothing more: whoever has called this graph ends. What is under way may land."""
        with self.lock:
            if self.closed or self.ending:
                return
            self.ending = True
            if not self.under_way:
                self._close_after_calls()
        self._tell()

    def close(self) -> None:
        """Accept no further outcomes."""
        with self.lock:
            was_closed = self.closed
            self._close()
        if not was_closed:
            self._tell_inside()

    def abandon(self) -> None:
        """Do the same as `close` without a lock, from anywhere. An outcome may arrive meanwhile and is ignored."""
        was_closed, self.closed = self.closed, True
        self.run.closed_step = max(self.run.closed_step, self.checkpoint.step)
        if self._landing is not None:
            self._landing.abandon()
        if not was_closed:
            self._tell_inside()

    def close_and_tell(self) -> None:
        """Accept no further outcomes, and wake the driver, which waits for no task. Signal handlers may call this."""
        self.abandon()
        self._on_change()

    def follow(self, above: OpenSuperstep) -> None:
        """End or close together with the superstep in which this graph was called."""
        if above.closed:
            self.close_and_tell()
        elif above.ending:
            self.end()

    @contextmanager
    def telling(self, callback: Callable[[], object]) -> Generator[None]:
        """While the block runs, call back when it begins to end and when it closes; immediately if it already has."""
        key = object()
        self._callbacks[key] = callback  # without the lock: a block may end in a finaliser
        try:
            if self.ending or self.closed:
                callback()
            yield
        finally:
            self._callbacks.pop(key, None)

    def _close(self) -> None:
        """Close. The lock is held."""
        self.closed = True
        self.run.closed_step = max(self.run.closed_step, self.checkpoint.step)
        if self._landing is not None:
            self._landing.close()

    def _tell(self) -> None:
        try:
            self._tell_inside()
        finally:
            self._on_change()

    def _tell_inside(self) -> None:
        """Notify waiting tasks, and the graphs that tasks have called."""
        for callback in self._callbacks.copy().values() if self._callbacks else ():
            with suppress(RuntimeError):  # the event loop that it would have woken is closed: nobody waits there
                callback()

    def task_nodes(self) -> list[NodeProgram]:
        """The node of each task."""
        nodes = self.nodes
        return [nodes[task.node] for task in self.tasks]

"""Save the results of a long superstep in groups while other tasks of it still run.

After a crash only the tasks that were running are executed again, not those that had ended. Most supersteps are over
before the first group is due, and write none: their commit contains everything. Results that arrive while a group is
being written form the next one.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from statewright.checkpoint import BranchKey, Checkpoint, Pending, TaskResult
from statewright.clock import Timer
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.runtime.concurrency.worker_threads import workers
from statewright.runtime.core.commit import saved_form_of_result
from statewright.runtime.invocation.run import Run

GROUP_EVERY: Final = 0.05
"""Seconds after which a result is written unless the superstep has ended."""


class ResultFlusher:
    """Writes the results of one superstep as tasks end."""

    def __init__(self, run: Run, checkpoint: Checkpoint) -> None:
        self._run = run
        self._checkpoint_id = CheckpointId(checkpoint.id)
        self._lock = threading.Lock()
        self._waiting: list[TaskResult] = []
        self._timer: Timer | None = None
        self._timed = False
        """True if a group is due."""
        self._writing = False
        self._closed = False

    def add(self, result: TaskResult) -> None:
        """Add the result of a task that has ended. Called from any thread."""
        with self._lock:
            self._waiting.append(result)
            if self._timed or self._writing or self._closed:
                return
            self._timed = True
        # Without the lock: a user-defined clock may call back at once.
        timer = self._run.ports.clock.call_later(GROUP_EVERY, self._due)
        with self._lock:
            self._timer = timer
            is_late = self._closed
        if is_late:
            timer.cancel()

    def close(self) -> None:
        """End with the superstep: waiting results are saved with its commit."""
        with self._lock:
            self._closed, timer = True, self._timer
        if timer is not None:
            timer.cancel()

    def abandon(self) -> None:
        """Do the same as `close` without a lock, from anywhere; a group that is being written is completed."""
        self._closed = True

    def _due(self) -> None:
        with self._lock:
            self._timer, self._timed = None, False
            if self._closed or self._writing:
                return
            self._writing = True
        workers.submit(self._write)  # the thread of the clock must not wait for a disk

    def _write(self) -> None:
        """Write groups until no new result has arrived."""
        while (group := self._next_group()) is not None:
            with suppress(Exception):  # the commit of the superstep fails for the same reason, and reports it
                self._save(group)
                self._run.count_as_finished(result.task.id for result in group)

    def _next_group(self) -> list[TaskResult] | None:
        with self._lock:
            group, self._waiting = self._waiting, []
            self._writing = bool(group) and not self._closed
            return group if self._writing else None

    def _save(self, group: list[TaskResult]) -> None:
        run = self._run
        assert run.saver is not None
        assert isinstance(run.line, BranchKey)
        pending = Pending(completed={result.task.id: saved_form_of_result(run.program, result) for result in group})
        resolve(run.saver.save_results(run.line, self._checkpoint_id, pending, hold=run.hold(run.ports.clock.now())))


def flusher_for(run: Run, checkpoint: Checkpoint) -> ResultFlusher | None:
    """Return the flusher of a superstep; None if nothing is saved before the superstep ends."""
    if run.saver is None or run.line is None or run.saves_at_rest:
        return None
    return ResultFlusher(run, checkpoint)

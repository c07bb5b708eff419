"""Save the results of tasks in groups, while other tasks of the same superstep are still running.

So after a crash, only tasks that had not ended are executed again. Most supersteps end before the first group is due,
and then their commit contains all results. Results that arrive while a group is being written form the next group.
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

GROUP_DELAY: Final = 0.05
"""Seconds from the first result of a group until the group is written, unless the superstep ends earlier."""


class ResultFlusher:
    """Writes the results of one superstep as tasks end."""

    def __init__(self, run: Run, checkpoint: Checkpoint) -> None:
        self._run = run
        self._checkpoint_id = CheckpointId(checkpoint.id)
        self._lock = threading.Lock()
        self._unsaved: list[TaskResult] = []
        self._timer: Timer | None = None
        self._is_scheduled = False
        """True while a timer is set, or is about to be set."""
        self._is_writing = False
        self._is_closed = False

    def add(self, result: TaskResult) -> None:
        """Add the result of a task that has ended. Called from any thread."""
        with self._lock:
            self._unsaved.append(result)
            if self._is_scheduled or self._is_writing or self._is_closed:
                return
            self._is_scheduled = True
        # Outside the lock, because a user-defined clock may call back at once.
        timer = self._run.ports.clock.call_later(GROUP_DELAY, self._start_write)
        with self._lock:
            self._timer = timer
            is_closed = self._is_closed
        if is_closed:
            timer.cancel()

    def close(self) -> None:
        """Stop writing groups, because the superstep has ended: its commit saves the other results."""
        with self._lock:
            self._is_closed, timer = True, self._timer
        if timer is not None:
            timer.cancel()

    def abandon(self) -> None:
        """Do the same as `close`, but take no lock, so that finalisers may call this."""
        self._is_closed = True

    def _start_write(self) -> None:
        with self._lock:
            self._timer, self._is_scheduled = None, False
            if self._is_closed or self._is_writing:
                return
            self._is_writing = True
        workers.submit(self._write_groups)  # the clock's own thread, which calls this, must not wait for a disk

    def _write_groups(self) -> None:
        """Write groups until there are no more results."""
        while (group := self._next_group()) is not None:
            with suppress(Exception):  # the commit of the superstep will fail for the same reason, and raise the error
                self._save(group)
                self._run.publish_finished(result.task.id for result in group)

    def _next_group(self) -> list[TaskResult] | None:
        with self._lock:
            group, self._unsaved = self._unsaved, []
            self._is_writing = bool(group) and not self._is_closed
            return group if self._is_writing else None

    def _save(self, group: list[TaskResult]) -> None:
        run = self._run
        assert run.saver is not None
        assert isinstance(run.branch_key, BranchKey)
        pending = Pending(completed={result.task.id: saved_form_of_result(run.program, result) for result in group})
        resolve(
            run.saver.save_results(
                run.branch_key, self._checkpoint_id, pending, hold=run.lease_request(run.ports.clock.now())
            )
        )


def flusher_for(run: Run, checkpoint: Checkpoint) -> ResultFlusher | None:
    """Return the flusher for a superstep; None if the run saves nothing, or only when it stops."""
    if run.saver is None or run.branch_key is None or run.saves_on_exit:
        return None
    return ResultFlusher(run, checkpoint)

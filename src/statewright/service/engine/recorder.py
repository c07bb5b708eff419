"""The checkpointer of one run, which writes each checkpoint and the records of the run in one transaction.

`RunRecorder` wraps the saver of the workspace. `Progress` computes the changes to the ledger that follow from each
commit, and the recorder passes them to the saver as a job of the same transaction. So the records of a run never
disagree with its thread, and a worker that has lost its claim can write neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from statewright.checkpoint import BranchKey, Checkpointer, Commit, LeaseRequest, Pending, SavedCheckpoint
from statewright.clock import iso
from statewright.data.jsonable import as_json
from statewright.errors import RecordConflict
from statewright.events import Event, Log
from statewright.futures import MaybeFuture, is_future
from statewright.ids import CheckpointId
from statewright.runs import Change, Json, Spend
from statewright.runtime import CompiledGraph, Instrument
from statewright.runtime.invocation.outcome import Failure
from statewright.service.context.records import guard_claim
from statewright.service.context.service_context import ServiceContext
from statewright.service.engine.progress import Progress
from statewright.service.following.hub import LiveEvent


class RunRecorder(Instrument):
    """The saver of a workspace, extended to write the records of one run too.

    It is also an instrument of the run. As such, it publishes live events, and receives the exceptions that tasks
    raise, because the thread stores only their text.
    """

    def __init__(
        self,
        context: ServiceContext,
        progress: Progress,
        *,
        on_lost: Callable[[], object] = lambda: None,
        on_spent: Callable[[Spend], object] = lambda _: None,
        expects_new_thread: bool = False,
    ) -> None:
        """Create the checkpointer of a run.

        With `expects_new_thread`, the first load of the thread finds nothing, without asking the database. If that is
        wrong, the commit that creates the thread is refused, before any node runs, and the run loads the thread again.
        """
        self._saver = context.saver_of(progress.run.workspace_id)
        self._ledger = context.ledger
        self._guard = guard_claim(progress.run)
        self._clock = context.clock
        self._publish = context.publish
        self._on_lost = on_lost
        """Called on any thread when a refused write shows that the run was cancelled or belongs to another worker."""
        self._on_spent = on_spent
        """Called on any thread with each `Spend` that was saved."""
        self._expects_new_thread = expects_new_thread
        self._hub = context.hub
        progress.steps.logs = context.logs
        self._lock = threading.Lock()
        self._unconfirmed: list[tuple[Any, Callable[[], None]]] = []
        """Writes in flight while none has been saved, each with a function that undoes its effect on the progress."""
        self.progress = progress

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped saver."""
        return getattr(self._saver, name)

    def graph(self, app: CompiledGraph, **services: Any) -> CompiledGraph:
        """Return the graph with services, and with this recorder as its checkpointer and as an instrument."""
        instruments = (*services.pop("instruments", ()), self)
        recorded = app.with_services(
            checkpointer=cast("Checkpointer", self), clock=self._clock, instruments=instruments, **services
        )
        self.progress.output_of = recorded.program.output
        return recorded

    # -- as a saver

    def load(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str = "main",
        checkpoint_id: CheckpointId | None = None,
    ) -> MaybeFuture[SavedCheckpoint | None]:
        is_own_head = thread_id == self.progress.run.thread_id and not namespace and checkpoint_id is None
        if self._expects_new_thread and is_own_head:
            self._expects_new_thread = False
            return None
        return self._saver.load(thread_id, namespace=namespace, branch=branch, checkpoint_id=checkpoint_id)

    def commit(self, commit: Commit, *, also: Sequence[Any] = ()) -> MaybeFuture[CheckpointId]:
        return self._write(
            lambda: self._changes_of(commit),
            lambda changes: self._saver.commit(commit, also=self._jobs(also, changes)),
        )

    def _changes_of(self, commit: Commit) -> list[Change]:
        """Return the changes that follow from a commit.

        A commit of a subgraph changes no step, but its model calls, its tool calls and the runs that it has started
        are recorded.
        """
        has_entries = commit.log is not None and bool(commit.log.entries)
        is_recorded = not commit.branch_key.namespace or has_entries or self.progress.steps.has_queued
        return self.progress.commit_changes(commit) if is_recorded else []

    def save_results(
        self,
        branch_key: BranchKey,
        checkpoint_id: CheckpointId,
        pending: Pending,
        *,
        hold: LeaseRequest | None = None,
        log: Log | None = None,
        also: Sequence[Any] = (),
    ) -> MaybeFuture[None]:
        now = log.at if log is not None else hold.now if hold is not None else self._clock.now()
        return self._write(
            lambda: self.progress.result_changes(branch_key.namespace, pending, log, now),
            lambda changes: self._saver.save_results(
                branch_key, checkpoint_id, pending, hold=hold, log=log, also=self._jobs(also, changes)
            ),
        )

    def _jobs(self, also: Sequence[Any], changes: Sequence[Change]) -> Sequence[Any]:
        """Return the jobs of a write, including one that refuses the write if the worker has lost its claim."""
        return [*also, self._ledger.job(changes or [self._guard])]

    def _write(self, changes_of: Callable[[], list[Change]], write: Callable[[Sequence[Change]], Any]) -> Any:
        """Write to the saver together with the changes of the run's records, and return the result of the saver.

        Until one write of the attempt is saved, a refused write may be repeated, because the run reloads a thread whose
        head has moved. So the progress is restored, and the next write includes these changes again. Once a write is
        saved, a refusal ends the attempt.
        """
        with self._lock:
            self._undo_refused_writes()
            restore = self.progress.snapshot() if not self.progress.has_written else None
            changes = changes_of()
            try:
                result = write(changes)
            except BaseException as error:
                self._record_failure(error, changes)
                if restore is not None:
                    restore()
                raise
            if restore is not None and is_future(result):
                self._unconfirmed.append((result, restore))
        if is_future(result):
            result.add_done_callback(lambda future: self._conclude_write(_error_of(future), changes))
        else:
            self._conclude_write(None, changes)
        return result

    def _undo_refused_writes(self) -> None:
        """Restore the progress to its state before the first unconfirmed write that was refused.

        This is done before the next write rather than in a callback, because the run may continue before the callback
        is called.
        """
        refused = (restore for write, restore in self._unconfirmed if write.done() and _error_of(write) is not None)
        restore = next(refused, None)
        if restore is not None:
            restore()
            self._unconfirmed.clear()
        elif self.progress.has_written:
            self._unconfirmed.clear()

    def _conclude_write(self, error: BaseException | None, changes: Sequence[Change]) -> None:
        """Publish the changes of a saved write, or record its failure."""
        if error is not None:
            self._record_failure(error, changes)
        elif changes:
            self.progress.has_written = True
            for change in changes:
                if isinstance(change, Spend):
                    self._on_spent(change)
            self._publish(changes)

    def _record_failure(self, error: BaseException, changes: Sequence[Change]) -> None:
        """Record that a write has failed.

        A write without changes is refused only if the claim is lost. In that case the run is stopped at once. The error
        alone might not stop the run, because the node might catch the error or be retried.
        """
        if changes:
            self.progress.was_refused = True
        elif isinstance(error, RecordConflict):
            self._on_lost()

    # -- as an instrument

    def wants_messages(self) -> bool:
        return self._hub.has_listeners(self.progress.run.id)

    def on_message(self, event: Event) -> None:
        self._publish_live("message", as_json(event.data), event)

    def on_custom(self, event: Event) -> None:
        if self.wants_messages():
            self._publish_live("custom", as_json(event.data), event)

    def _publish_live(self, kind: str, payload: Json, event: Event) -> None:
        self._hub.publish([LiveEvent(self.progress.run.id, kind, payload, event.node)])

    def on_task_begun(self, event: Event) -> None:
        steps = self.progress.steps
        begun_at = steps.starts.note(event.task, self._clock) if not event.namespace else None
        if begun_at is not None and self.wants_messages():
            begun = {"stepRunId": steps.step_id_of(event.task), "startedAt": iso(begun_at)}
            self._publish_live("begun", begun, event)

    # Not `on_task_finished`, which is called after the commit: the events of all tasks would be kept until then.
    def on_task_ended(self, event: Event) -> None:
        if type(event.data) is Failure:
            self.progress.steps.note_failure(event, event.data.error)
        elif not event.namespace:
            self.progress.steps.note_end(event.task, self._clock)

    def on_attempt_failed(self, event: Event) -> None:
        self.progress.steps.note_failure(event, event.data[0])


def _error_of(future: Any) -> BaseException | None:
    try:
        future.result()
    except BaseException as error:
        return error
    return None

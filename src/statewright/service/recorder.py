"""The saver of one run: what it saves becomes part of the run's records in the same transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from statewright.checkpoint import BranchKey, Checkpointer, Commit, LeaseRequest, Pending
from statewright.clock import Clock
from statewright.errors import RecordConflict
from statewright.events import Event, Log
from statewright.futures import MaybeFuture, is_future
from statewright.ids import CheckpointId
from statewright.runs import Change, Json, Ledger, Spend
from statewright.runtime import CompiledGraph, Instrument
from statewright.runtime.core.effects import Failure
from statewright.service.hub import Hub, LiveEvent
from statewright.service.plain import as_json
from statewright.service.progress import Progress, ProgressSnapshot
from statewright.service.records import guard_claim
from statewright.service.step_records import LogSource

Publish = Callable[[Sequence[Change]], object]
"""Called with changes once they are saved, on whichever thread has saved them."""


class RunRecorder(Instrument):
    """Saves where the saver does, and writes the records of a run with it.

    As an instrument it hears the errors of tasks, of which the thread keeps only the text.
    """

    def __init__(
        self,
        saver: Checkpointer,
        ledger: Ledger,
        progress: Progress,
        clock: Clock,
        hub: Hub,
        publish: Publish,
        logs: LogSource | None = None,
        *,
        on_lost: Callable[[], object] = lambda: None,
        on_spent: Callable[[Spend], object] = lambda _: None,
    ) -> None:
        self._saver = saver
        self._ledger = ledger
        self._guard = guard_claim(progress.run)
        self._clock = clock
        self._publish = publish
        self._on_lost = on_lost
        """Called when a write shows that the run belongs to another worker by now, on any thread."""
        self._on_spent = on_spent
        """Called with what a saved write adds to the spending of the day, on any thread."""
        self._hub = hub
        self._is_heard = hub.is_heard
        progress.steps.logs = logs
        self._lock = threading.Lock()
        self._unconfirmed: list[tuple[Any, ProgressSnapshot]] = []
        """The writes made before the run has saved anything, each with the progress before it."""
        self.progress = progress

    def __getattr__(self, name: str) -> Any:
        """Everything else is what the saver does."""
        return getattr(self._saver, name)

    def graph(self, app: CompiledGraph, **parts: Any) -> CompiledGraph:
        """A graph whose runs save here."""
        instruments = (*parts.pop("instruments", ()), self)
        mine = app.with_services(
            checkpointer=cast("Checkpointer", self), clock=self._clock, instruments=instruments, **parts
        )
        self.progress.output_of = mine.program.output
        return mine

    # -- as a saver

    def commit(self, commit: Commit, *, also: Sequence[Any] = ()) -> MaybeFuture[CheckpointId]:
        return self._write(
            lambda: self._changes_of(commit),
            lambda changes: self._saver.commit(commit, also=self._jobs(also, changes)),
        )

    def _changes_of(self, commit: Commit) -> list[Change]:
        """Return what a commit changes. Nested calls move no step; their calls of models and tools are kept, and the
        runs that they have started."""
        tells = not commit.line.namespace or _tells(commit.log) or self.progress.steps.has_added
        return self.progress.committed(commit) if tells else []

    def save_results(
        self,
        line: BranchKey,
        checkpoint_id: CheckpointId,
        pending: Pending,
        *,
        hold: LeaseRequest | None = None,
        log: Log | None = None,
        also: Sequence[Any] = (),
    ) -> MaybeFuture[None]:
        now = log.at if log is not None else hold.now if hold is not None else self._clock.now()
        return self._write(
            lambda: self.progress.landed(line.namespace, pending, log, now),
            lambda changes: self._saver.save_results(
                line, checkpoint_id, pending, hold=hold, log=log, also=self._jobs(also, changes)
            ),
        )

    def _jobs(self, also: Sequence[Any], changes: Sequence[Change]) -> Sequence[Any]:
        """Return the jobs of a write, which is refused if the worker has lost its claim on the run."""
        return [*also, self._ledger.job(changes or [self._guard])]

    def _write(self, changes_of: Callable[[], list[Change]], write: Callable[[Sequence[Change]], Any]) -> Any:
        """Write with the changes of the run's records, and return the answer of the saver.

        As long as the run has saved nothing, a refused write may be tried again: the thread has moved, and the run
        reloads it. The progress is then restored, so that the next write includes these changes. Once something is
        saved, a refusal ends the attempt.
        """
        with self._lock:
            self._undo_refused_writes()
            before = self.progress.snapshot() if not self.progress.has_written else None
            changes = changes_of()
            try:
                answer = write(changes)
            except BaseException as error:
                self._note_failure(error, changes)
                if before is not None:
                    self.progress.restore(before)
                raise
            if before is not None and is_future(answer):
                self._unconfirmed.append((answer, before))
        return self._publish_when_saved(answer, changes)

    def _undo_refused_writes(self) -> None:
        """Restore the progress before the first unconfirmed write that was refused.

        Done before the next write and not in a callback: the run may receive the refusal before callbacks run.
        """
        refused = next(
            (before for answer, before in self._unconfirmed if answer.done() and _error_of(answer) is not None), None
        )
        if refused is not None:
            self.progress.restore(refused)
            self._unconfirmed.clear()
        elif self.progress.has_written:
            self._unconfirmed.clear()

    def _publish_when_saved(self, answer: Any, changes: Sequence[Change]) -> Any:
        """Publish the changes once they are saved; return the answer."""
        if is_future(answer):
            answer.add_done_callback(lambda done: self._saved(done, changes))
        else:
            self._saved(None, changes)
        return answer

    def _saved(self, done: Any, changes: Sequence[Change]) -> None:
        error = _error_of(done) if done is not None else None
        if error is not None:
            self._note_failure(error, changes)
        elif changes:
            self.progress.has_written = True
            for change in changes:
                if isinstance(change, Spend):
                    self._on_spent(change)
            self._publish(changes)

    def _note_failure(self, error: BaseException, changes: Sequence[Change]) -> None:
        """Note that a write has failed. One without changes is refused only where the run belongs to another worker.

        Then the run stops at once. The write may be that of a step: its node could catch the error, or be retried.
        """
        if changes:
            self.progress.was_refused = True
        elif isinstance(error, RecordConflict):
            self._on_lost()

    # -- as an instrument

    def wants_messages(self) -> bool:
        return self._is_heard(self.progress.run.id)

    def on_message(self, event: Event) -> None:
        self._show("message", as_json(event.data), event)

    def on_custom(self, event: Event) -> None:
        if self.wants_messages():
            self._show("custom", as_json(event.data), event)

    def _show(self, kind: str, payload: Json, event: Event) -> None:
        self._hub.publish([LiveEvent(self.progress.run.id, kind, payload, event.node)])

    def on_task_finished(self, event: Event) -> None:
        if type(event.data) is Failure and not event.namespace and event.task_id is not None:
            self.progress.steps.failures[event.task_id] = event.data.error

    def on_attempt_failed(self, event: Event) -> None:
        if not event.namespace and event.task_id is not None:
            self.progress.steps.failures[event.task_id] = event.data[0]


def _error_of(done: Any) -> BaseException | None:
    try:
        done.result()
    except BaseException as error:
        return error
    return None


def _tells(log: Log | None) -> bool:
    return log is not None and bool(log.entries)

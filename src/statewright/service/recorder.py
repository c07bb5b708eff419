"""The saver of one run: what it saves becomes part of the run's records in the same transaction."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

from statewright.checkpoint import Checkpointer, Commit, Hold, Line, Pending
from statewright.clock import Clock
from statewright.events import Event, Log
from statewright.ids import CheckpointId
from statewright.promise import Answered, comes_later
from statewright.runs import Advance, Change, Json, Ledger
from statewright.runtime import CompiledGraph, Instrument
from statewright.runtime.effects import Failure
from statewright.service.hub import Hub, LiveEvent
from statewright.service.plain import as_json
from statewright.service.progress import LogSource, Progress


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
        logs: LogSource | None = None,
    ) -> None:
        self._saver = saver
        self._ledger = ledger
        self._clock = clock
        self._publish = hub.publish
        self._is_heard = hub.is_heard
        progress.logs = logs
        self._lock = threading.Lock()
        self.progress = progress

    def __getattr__(self, name: str) -> Any:
        """Everything else is what the saver does."""
        return getattr(self._saver, name)

    def graph(self, app: CompiledGraph, **parts: Any) -> CompiledGraph:
        """A graph whose runs save here."""
        instruments = (*parts.pop("instruments", ()), self)
        mine = app.surrounded_by(
            checkpointer=cast("Checkpointer", self), clock=self._clock, instruments=instruments, **parts
        )
        self.progress.output_of = mine.program.output
        return mine

    # -- as a saver

    def commit(self, commit: Commit, *, also: Sequence[Any] = ()) -> Answered[CheckpointId]:
        # What nested calls save moves no step of the run; only calls of models and tools in them are told.
        if commit.line.namespace and not _tells(commit.log):
            return self._saver.commit(commit, also=also)
        with self._lock:
            changes = self.progress.committed(commit)
            answer = self._saver.commit(commit, also=[*also, self._ledger.job(changes)] if changes else also)
        return self._told(answer, changes)

    def save_results(
        self,
        line: Line,
        checkpoint_id: CheckpointId,
        pending: Pending,
        *,
        hold: Hold | None = None,
        log: Log | None = None,
        also: Sequence[Any] = (),
    ) -> Answered[None]:
        now = log.at if log is not None else hold.now if hold is not None else self._clock.now()
        with self._lock:
            changes = self.progress.landed(line.namespace, pending, log, now)
            jobs = [*also, self._ledger.job(changes)] if changes else also
            answer = self._saver.save_results(line, checkpoint_id, pending, hold=hold, log=log, also=jobs)
        return self._told(answer, changes)

    def _told(self, answer: Any, changes: Sequence[Change]) -> Any:
        """The answer, whose events are published once they are saved."""
        advance = changes[0] if changes else None
        if not isinstance(advance, Advance) or not advance.events:
            return answer
        if comes_later(answer):
            answer.add_done_callback(lambda _: self._publish(advance.written))
        else:
            self._publish(advance.written)
        return answer

    # -- as an instrument

    def wants_messages(self) -> bool:
        return self._is_heard(self.progress.run.id)

    def on_message(self, event: Event) -> None:
        self._show("message", as_json(event.data), event)

    def on_custom(self, event: Event) -> None:
        if self.wants_messages():
            self._show("custom", as_json(event.data), event)

    def _show(self, kind: str, payload: Json, event: Event) -> None:
        self._publish([LiveEvent(self.progress.run.id, kind, payload, event.node)])

    def on_task_finished(self, event: Event) -> None:
        if type(event.data) is Failure and not event.namespace and event.task_id is not None:
            self.progress.failures[event.task_id] = event.data.error

    def on_attempt_failed(self, event: Event) -> None:
        if not event.namespace and event.task_id is not None:
            self.progress.failures[event.task_id] = event.data[0]


def _tells(log: Log | None) -> bool:
    return log is not None and bool(log.entries)

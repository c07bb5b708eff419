"""The progress of a run: converts the commits of its graph to changes of its records, without I/O.

This is the only place where checkpoints become steps, waits and events. The results of a superstep complete steps, the
tasks of its frontier begin steps, its interrupts become waits, and the entry `run_finished` of its log has the outcome
of the run. The recorder writes the resulting changes in the transaction that saves the superstep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal

from pydantic_core import to_json

from statewright.checkpoint import Commit, Pending, step_id
from statewright.clock import iso
from statewright.data.jsonable import as_json
from statewright.errors import SpendingLimitReached
from statewright.events import Log
from statewright.graph import START, Graph
from statewright.runs import (
    Advance,
    Approval,
    Change,
    Condition,
    DailySpending,
    Delete,
    Json,
    Plus,
    Run,
    RunStatus,
    Spend,
    StepRun,
    StepStatus,
    UpdateAll,
    Wait,
    Where,
    where,
)
from statewright.service.access.spending import SpendingLimits
from statewright.service.context.records import release_values
from statewright.service.engine.changeset import ChangeSet, Redact, error_json, without_secrets
from statewright.service.engine.completion import Ending, completion_changes
from statewright.service.engine.step_records import StepRecords
from statewright.service.engine.waits import (
    Arrivals,
    approval_of,
    inbox_changes,
    next_due,
    refusal_events,
    wake_change_if_signalled,
)

Stopping = Literal["pause", "release", "limit", "timeout", "lost"]
"""The reason why a run is stopped from outside: to pause it, to release it to another worker, because its workspace
has reached a daily spending limit, because its deadline has passed, or because it may be what ends its workers."""
SPENDING_LIMIT: Final = "spending_limit"
"""The `reason` in the events of a run that is paused until its workspace may spend again."""
OnEnd = Callable[[Run, Ending, datetime], Sequence[Change]]
"""Returns further changes for the transaction in which a run ends."""


class _NoGraph:
    """A placeholder for a graph that is not available or not needed."""

    nodes: Mapping[str, Any] = {}


NO_GRAPH: Final[Any] = _NoGraph()


class Progress:
    """The state of a run and its records, as known to its worker."""

    def __init__(
        self,
        run: Run,
        graph: Graph,
        *,
        steps: Iterable[StepRun] = (),
        waits: Iterable[Wait] = (),
        arrivals: Arrivals | None = None,
    ) -> None:
        self.run = run
        """The record, with the changes written since it was read."""
        self.claim = run.claim
        """The claim of the attempt, which guards its writes."""
        self.stopping: Stopping | None = None
        self.reached_limit: SpendingLimitReached | None = None
        """The error for the spending limit that stops the run until the next day."""
        self.spending_limits: SpendingLimits | None = None
        """The daily limits of the workspace. If it has any, each write also returns the current spending."""
        self.spent: DailySpending | None = None
        """The last known spending of the workspace."""
        self.is_cancelled = False
        """True if the worker cancelled the run to stop it, rather than letting its superstep finish."""
        self.steps = StepRecords(run, graph, steps, waits)
        self._arrivals = arrivals
        self.has_begun = False
        """True once the changes of the attempt's first write were returned, even if that write is not saved yet."""
        self._guard: Where | None = None
        """Conditions on the run that guard a write instead of the claim."""
        self.has_written = False
        """True once a write of the attempt was saved."""
        self.was_refused = False
        """True if a write of the attempt was refused."""
        self._version = run.version if run.status is RunStatus.WAITING else None
        """The version of the run that the first write requires; None for any version.

        A signal that arrives after the inbox was read changes the version. The write is refused then, so that the
        signal is not lost.
        """
        self.values: Mapping[str, Any] = {}
        """The state at the start of the attempt, which becomes the output if nothing is left to execute."""
        self.redact: Redact | None = None
        self.max_output = 10_000_000
        """Maximum size of the output, in bytes of JSON."""
        self.on_end: OnEnd | None = None

    @property
    def has_settled(self) -> bool:
        """True if the changes returned so far release the run, for example because it has ended, waits or is paused."""
        return self.claim is not None and self.run.claim is None

    # -- undoing refused writes

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores the current progress. It is called if a later write is refused."""
        run, has_begun, arrivals, version = self.run, self.has_begun, self._arrivals, self._version
        restore_steps = self.steps.snapshot()

        def restore() -> None:
            self.run, self.has_begun, self._arrivals, self._version = run, has_begun, arrivals, version
            restore_steps()

        return restore

    # -- the changes of one write

    def commit_changes(self, commit: Commit) -> list[Change]:
        """Return the changes that follow from a commit."""
        changeset, log, now = ChangeSet(), commit.log, commit.created_at
        entries, namespace = log.entries if log is not None else (), commit.branch_key.namespace
        self.steps.record_entries(changeset, entries, now, namespace)
        self.steps.take_queued(changeset, {result.task.id for result in commit.results})
        if not commit.branch_key.namespace:
            self._begin_attempt(changeset, now, has_input=commit.source == "input")
            for result in commit.results:
                self.steps.complete(changeset, result.task, now)
            if self.run.losses and commit.results:
                changeset.values["losses"] = 0
            if log is not None and any(entry[0] == "run_finished" for entry in log.entries):
                self._end(changeset, log, now, commit.checkpoint.values)
            else:
                halts = (
                    self.stopping is not None or self._hits_breakpoint(commit) or self._reaches_limit(changeset, now)
                )
                self.steps.start(changeset, commit.checkpoint.frontier, commit.checkpoint.step + 1, now, halts=halts)
        return self._changes(changeset, now)

    def result_changes(self, namespace: str, pending: Pending, log: Log | None, now: datetime) -> list[Change]:
        """Return the changes that follow from results, interrupts and failures saved within a superstep."""
        changeset = ChangeSet()
        self.steps.record_entries(changeset, log.entries if log is not None else (), now, namespace)
        self.steps.take_queued(changeset, {*pending.completed, *map(step_id, pending.journal)})
        if not namespace:
            self._begin_attempt(changeset, now)
            for result in pending.completed.values():
                self.steps.complete(changeset, result.task, now)
            open_ids = _open_question_ids(log)
            for task, questions in pending.interrupts.items():
                self.steps.record_waits(changeset, task, [item for item in questions if item.id in open_ids], now)
            for task, due in pending.retries.items():
                self.steps.retry(changeset, task, pending.attempts.get(task, 1), due, now)
            for task, text in pending.errors.items():
                self.steps.fail(changeset, task, text, now)
            if log is not None and any(entry[0] == "run_finished" for entry in log.entries):
                self._end(changeset, log, now, self.values)
        elif pending.errors or pending.retries:
            self.steps.record_inner_failures(changeset, namespace, pending)
        return self._changes(changeset, now)

    def failure_changes(self, error: BaseException, now: datetime, *, guard: Where | None = None) -> list[Change]:
        """Return the changes that fail a run whose outcome was not saved. The default guard is the claim."""
        changeset = ChangeSet()
        self._guard = guard
        self._begin_attempt(changeset, now)
        errors = {"timeout": _timeout_error, "lost": _lost_error}
        record = errors[self.stopping](self.run) if self.stopping in errors else error_json(error)
        self._finish(changeset, Ending.failed(record), now)
        return self._changes(changeset, now)

    def postpone_changes(self, until: datetime, now: datetime) -> list[Change]:
        """Return the changes that release the run. Workers may claim it again from `until` on."""
        return self._changes(ChangeSet(values=release_values(until)), now)

    def next_day_changes(self, limit: SpendingLimitReached, now: datetime, *, pauses: bool) -> list[Change]:
        """Return the changes that postpone a run until its workspace may spend again.

        If `pauses` is True, the run also gets the status PAUSED. The event is recorded once, however often the run is
        postponed.
        """
        changeset = ChangeSet()
        self._pause_until_next_day(changeset, limit)
        if not pauses:
            del changeset.values["status"]
        if self.run.error is not None and self.run.error.get("code") == limit.code:  # it was postponed before
            changeset.events.clear()
        return self._changes(changeset, now)

    def _changes(self, changeset: ChangeSet, now: datetime) -> list[Change]:
        """Return the changes of one write, with its guard; an empty list if the change set is empty."""
        if not (changeset.values or changeset.events or changeset.changes or changeset.final_changes):
            return []
        values = {name: value for name, value in changeset.values.items() if not isinstance(value, Plus)}
        self.run = replace(self.run, **values)
        guard = list(self._guard) if self._guard is not None else [Condition("claim", "=", self.claim)]
        if self._guard is None and self._version is not None:
            guard.append(Condition("version", "=", self._version))
            self._version = None
        advance = Advance(self.run.id, now, changeset.values, changeset.events, guard)
        changes = [advance, *changeset.changes, *changeset.final_changes]
        if changeset.spent is not None or self.spending_limits is not None:
            changes.append(Spend(changeset.spent or DailySpending.of(self.run.workspace_id, now)))
        return without_secrets(changes, self.redact) if self.redact is not None else changes

    def _hits_breakpoint(self, commit: Commit) -> bool:
        """Return True if a breakpoint stops the run before its next superstep."""
        before: Sequence[str] = self.run.settings.get("interruptBefore") or ()
        after: Sequence[str] = self.run.settings.get("interruptAfter") or ()
        due = {task.node for task in commit.checkpoint.frontier}
        done = {result.task.node for result in commit.results} - {START}
        return bool(due.intersection(before) or done.intersection(after) or "*" in before or (done and "*" in after))

    def _reaches_limit(self, changeset: ChangeSet, now: datetime) -> bool:
        """Return True if the workspace reaches its daily limit with this write, judging by its last known spending."""
        if self.spending_limits is None:
            return False
        total = DailySpending.of(self.run.workspace_id, now)
        for spent in (self.spent, changeset.spent):
            if spent is not None and spent.day == total.day:
                total = total.plus(spent)
        return self.spending_limits.find_reached(total, now) is not None

    # -- the first write of an attempt

    def _begin_attempt(self, changeset: ChangeSet, now: datetime, *, has_input: bool = False) -> None:
        """If this is the first write of the attempt, record that the run is running and has received its answers."""
        if self.has_begun:
            return
        self.has_begun, run = True, self.run
        if has_input and not run.begun:
            changeset.values["begun"] = True
        if run.status is not RunStatus.RUNNING:
            changeset.values["status"] = RunStatus.RUNNING
            self.run = replace(run, status=RunStatus.RUNNING)
        # A spending limit has paused the run: a run that was paused on request has another status once it is resumed.
        if run.status is RunStatus.PAUSED:
            changeset.add_event("WORKFLOW_RESUMED", {"reason": SPENDING_LIMIT})
        if run.error is not None:  # the error of the spending limit that has postponed the run
            changeset.values["error"] = None
        if run.started_at is None:
            changeset.values["started_at"] = now
            changeset.add_event("WORKFLOW_STARTED", {"graph": run.graph, "source": run.source})
        arrivals, self._arrivals = self._arrivals, None
        if arrivals is not None:
            self._record_answers(changeset, arrivals, now)
        if self.stopping is None:
            self.steps.begin_due(changeset, now)

    def _record_answers(self, changeset: ChangeSet, arrivals: Arrivals, now: datetime) -> None:
        """Record the answers and timeouts that end waits."""
        recorded: set[str] = set()
        for wait in arrivals.ended:
            self.steps.waits.pop(wait.interrupt_id, None)
            signal = arrivals.signals.get(wait.id)
            step = self.steps.step_of(wait)
            if signal is None:
                self._record_timeout(changeset, wait, step, now)
            elif signal.id not in recorded:
                recorded.add(signal.id)
                sender = {"byKey": signal.sent_by_key} if signal.sent_by_key is not None else {}
                received = {"signalType": signal.type, "signalId": signal.key, **sender}
                changeset.add_event("SIGNAL_RECEIVED", received, step)
        changeset.events.extend(refusal_events(arrivals))
        changeset.changes.extend(inbox_changes(arrivals))
        changeset.add_event("WORKFLOW_RESUMED", {"reason": "signal" if arrivals.signals else "timer"})
        changeset.changes.append(Delete(Wait, [Condition("id", "in", [wait.id for wait in arrivals.ended])]))
        self.steps.wake(changeset)

    def _record_timeout(self, changeset: ChangeSet, wait: Wait, step: StepRun | None, now: datetime) -> None:
        changeset.add_event("TIMER_FIRED", {"dueAt": iso(wait.due_at or now)}, step)
        approval = approval_of(wait)
        if approval is not None:
            changeset.add_event("APPROVAL_EXPIRED", {"approvalId": approval.id}, step)
            undecided = where(id=approval.id, decision=None)
            changeset.changes.append(UpdateAll(Approval, undecided, {"decision": "expired", "decided_at": now}))

    # -- the end

    def _end(self, changeset: ChangeSet, log: Log, now: datetime, values: Mapping[str, Any]) -> None:
        """Interpret the outcome of the run, as recorded in its log."""
        outcome: Any = next(entry[4] for entry in log.entries if entry[0] == "run_finished")
        status: str = outcome["status"]
        if status == "completed":
            self._complete_run(changeset, as_json(self.output_of(values)), now)
        elif self.stopping == "timeout":
            self._finish(changeset, Ending.failed(_timeout_error(self.run)), now)
        elif status == "paused" or (status == "waiting" and self.stopping == "pause"):
            self._pause(changeset)
        elif status == "waiting":
            self._wait(changeset, now)
        elif self.is_cancelled or (status == "cancelled" and "error" not in outcome):
            # A cancellation without an error means that the process is ending. Another worker will continue the run.
            changeset.values.update(release_values(now))
        elif outcome.get("drained") and self.stopping == "pause":
            self._pause(changeset)
        elif outcome.get("drained") and self.stopping == "limit" and self.reached_limit is not None:
            self._pause_until_next_day(changeset, self.reached_limit)
        elif outcome.get("drained") and self.stopping == "release":
            changeset.values.update(release_values(now))
        elif status == "cancelled":
            # A node has cancelled the run. (A cancellation from outside removes the claim, so it is not seen here.)
            self._finish(changeset, Ending.cancelled(str(outcome["error"])), now)
        else:  # even if the run is being stopped, because a failed step is executed again only on request
            self._finish(changeset, Ending.failed(self.steps.error_of(outcome.get("error", status))), now)

    def output_of(self, values: Mapping[str, Any]) -> Any:
        """Return the output fields of a state. The recorder replaces this method, because it knows the program."""
        return dict(values)

    def _complete_run(self, changeset: ChangeSet, output: Json, now: datetime) -> None:
        size, ending = len(to_json(output)), Ending.completed(output)
        if size > self.max_output:
            message = f"The output has {size} bytes as JSON; at most {self.max_output} are stored. Reduce it."
            ending = Ending.failed({"message": message, "code": "OUTPUT_TOO_LARGE"})
        self._finish(changeset, ending, now)

    def _pause(self, changeset: ChangeSet) -> None:
        changeset.values.update(release_values(None), status=RunStatus.PAUSED)
        changeset.add_event("WORKFLOW_PAUSED", {"reason": "paused"})

    def _pause_until_next_day(self, changeset: ChangeSet, limit: SpendingLimitReached) -> None:
        deadline = self.run.deadline_at
        due = min(limit.ends_at, deadline) if deadline is not None else limit.ends_at
        changeset.values.update(release_values(due), status=RunStatus.PAUSED, error=error_json(limit))
        changeset.add_event(
            "WORKFLOW_PAUSED", {"reason": SPENDING_LIMIT, "limit": limit.limit, "until": iso(limit.ends_at)}
        )

    def _wait(self, changeset: ChangeSet, now: datetime) -> None:
        waits = list(self.steps.waits.values())
        due = next_due(waits, self.run.deadline_at)
        changeset.values.update(release_values(due), status=RunStatus.WAITING)
        changeset.add_event("WORKFLOW_PAUSED", {"reason": _wait_reason(waits)})
        # Signals that have arrived since the start of the attempt are not processed yet.
        changeset.final_changes.append(wake_change_if_signalled(self.run.id, now))

    def _finish(self, changeset: ChangeSet, ending: Ending, now: datetime) -> None:
        changeset.values.update(ending.values(now))
        if ending.status is not RunStatus.FAILED:
            self.steps.clear_progress(changeset)
        changeset.add_event(ending.event, ending.payload)
        if self.run.losses:
            changeset.values["losses"] = self.run.losses if self.stopping == "lost" else 0
        if ending.status is not RunStatus.COMPLETED:
            step_error = {"message": "The step was stopped because the run has ended.", "code": "STOPPED"}
            unfinished = [StepStatus.RUNNING, StepStatus.WAITING]
            conditions = [Condition("run_id", "=", self.run.id), Condition("status", "in", unfinished)]
            step_status = StepStatus.FAILED if ending.status is RunStatus.FAILED else StepStatus.CANCELLED
            values = {"status": step_status, "error": step_error, "completed_at": now}
            changeset.final_changes.append(UpdateAll(StepRun, conditions, values))
        if self.steps.waits or ending.status is not RunStatus.COMPLETED:
            decision = {"decision": "expired" if self.stopping == "timeout" else "cancelled", "decided_at": now}
            changeset.final_changes.append(Delete(Wait, where(run_id=self.run.id)))
            changeset.final_changes.append(UpdateAll(Approval, where(run_id=self.run.id, decision=None), decision))
        ended = replace(self.run, **ending.values(now))
        changeset.final_changes.extend(completion_changes(ended, ending, now))
        if self.on_end is not None:
            changeset.final_changes.extend(self.on_end(ended, ending, now))


def _open_question_ids(log: Log | None) -> frozenset[str]:
    """Return the ids of the questions that are open. A write may also contain questions that were answered."""
    groups = [entry[4] for entry in log.entries if entry[0] == "interrupted"] if log is not None else []
    return frozenset(question["id"] for questions in groups for question in questions)


def _wait_reason(waits: Sequence[Wait]) -> str:
    """Return why a run waits: `approval`, `external_event`, `question` or `timer`."""
    if any(approval_of(wait) is not None for wait in waits):
        return "approval"
    kinds = {wait.kind for wait in waits}
    return "external_event" if "event" in kinds else "question" if "question" in kinds else "timer"


def _lost_error(run: Run) -> dict[str, Json]:
    message = (
        f"{run.losses} workers were lost while they advanced this run, so it was set aside. Look for what ends their "
        f"processes, such as a lack of memory or a crash of native code, and retry the run."
    )
    return {"message": message, "code": "WORKER_LOST"}


def _timeout_error(run: Run) -> dict[str, Json]:
    deadline = f", {iso(run.deadline_at)}" if run.deadline_at is not None else ""
    return {"message": f"The run did not finish before its deadline{deadline}.", "code": "RUN_TIMEOUT"}

"""The progress of a run: turns the commits of its graph into changes of its records. Pure.

This is the one place where checkpoints become steps, waits and events. The results of a superstep are completed steps,
its frontier are steps that begin, its interrupts are waits, and the end of its log is the outcome of the run. The
recorder writes the resulting changes in the transaction of the superstep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any, Final, Literal, cast

from pydantic_core import to_json

from statewright.checkpoint import Commit, Pending, step_id
from statewright.errors import SpendingLimitReached
from statewright.events import Log
from statewright.graph import START, Graph
from statewright.jsonable import as_json
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
from statewright.service.context.jsonable import error_json, iso
from statewright.service.engine.changeset import ChangeSet, Redact, without_secrets
from statewright.service.engine.completion import Ending, completion_changes
from statewright.service.engine.step_records import StepRecords, StepsSnapshot
from statewright.service.engine.waits import (
    Arrived,
    approval_of,
    due_again,
    ignored_events,
    next_due,
    taken_changes,
)

Stopping = Literal["pause", "release", "limit", "timeout"]
"""Why a run is being stopped, if it is not its own doing: to pause it, to let another worker have it, because its
workspace has used up its day, or because its time is over."""


SPENDING_LIMIT: Final = "spending_limit"
"""The reason of a pause until the workspace may spend again."""
OnEnd = Callable[[Run, Ending, datetime], Sequence[Change]]


class _NoGraph:
    """Stands for a graph that is not available, or not needed."""

    nodes: Mapping[str, Any] = {}


NO_GRAPH: Final[Any] = _NoGraph()


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """A copy of the progress of a run; see `Progress.restore`."""

    run: Run
    is_open: bool
    arrived: Arrived | None
    version: int | None
    steps: StepsSnapshot


class Progress:
    """The state of a run as known to its worker."""

    def __init__(
        self,
        run: Run,
        graph: Graph,
        *,
        steps: Iterable[StepRun] = (),
        waits: Iterable[Wait] = (),
        arrived: Arrived | None = None,
    ) -> None:
        self.run = run
        """The record, with the changes written since it was read."""
        self.token = run.claim
        self.stopping: Stopping | None = None
        self.limit: SpendingLimitReached | None = None
        """The spending limit that stops the run until the next day."""
        self.limits: SpendingLimits | None = None
        """The daily limits of its workspace. If there are any, each write reads the current spending."""
        self.spent: DailySpending | None = None
        """The last known spending of the workspace."""
        self.is_cancelled = False
        """True if the worker cancelled the run to stop it, rather than letting its superstep finish."""
        self.steps = StepRecords(run, graph, steps, waits)
        self._arrived = arrived
        self.is_open = False
        """True once the first write was prepared."""
        self._guard: Where | None = None
        self.has_written = False
        """True once a write was saved."""
        self.was_refused = False
        """True if a write was refused."""
        self._version = run.version if run.status is RunStatus.WAITING else None
        """The version that the first write expects, so that signals since the inbox was read are not lost."""
        self.values: Mapping[str, Any] = {}
        """The state at the start of the attempt: the output if nothing is left to do."""
        self.redact: Redact | None = None
        self.max_output = 10_000_000
        """Limit of the size of the output as JSON, in bytes."""
        self.on_end: OnEnd | None = None
        """Returns further changes for the transaction in which the run ends."""

    @property
    def rests(self) -> bool:
        """True if what was to be written says how the run came to rest."""
        return self.token is not None and self.run.claim is None

    # -- undoing refused writes

    def snapshot(self) -> ProgressSnapshot:
        """Return the current progress, for `restore`."""
        return ProgressSnapshot(self.run, self.is_open, self._arrived, self._version, self.steps.snapshot())

    def restore(self, snapshot: ProgressSnapshot) -> None:
        """Return to a snapshot, because the writes since then were not saved."""
        self.run, self.is_open = snapshot.run, snapshot.is_open
        self._arrived, self._version = snapshot.arrived, snapshot.version
        self.steps.restore(snapshot.steps)

    # -- what was written

    def commit_changes(self, commit: Commit) -> list[Change]:
        """Return the changes that follow from a commit."""
        changeset, log, now = ChangeSet(), commit.log, commit.created_at
        self.steps.note(changeset, log.entries if log is not None else (), now)
        self.steps.take_added(changeset, {result.task.id for result in commit.results})
        if not commit.line.namespace:
            self._open(changeset, now, begins=commit.source == "input")
            for result in commit.results:
                self.steps.complete(changeset, result.task, now)
            if log is not None and any(entry[0] == "run_finished" for entry in log.entries):
                self._end(changeset, log, now, commit.checkpoint.values)
            else:
                halts = self.stopping is not None or self._breaks(commit) or self._uses_up_day(changeset, now)
                self.steps.start(changeset, commit.checkpoint.frontier, commit.checkpoint.step + 1, now, halts=halts)
        return self._changes(changeset, now)

    def result_changes(self, namespace: str, pending: Pending, log: Log | None, now: datetime) -> list[Change]:
        """Return the changes that follow from results, interrupts and failures saved within a superstep."""
        changeset = ChangeSet()
        self.steps.note(changeset, log.entries if log is not None else (), now)
        self.steps.take_added(changeset, {*pending.completed, *map(step_id, pending.journal)})
        if not namespace:
            self._open(changeset, now)
            for result in pending.completed.values():
                self.steps.complete(changeset, result.task, now)
            still_open = _open_questions(log)
            for task, questions in pending.interrupts.items():
                self.steps.ask(changeset, task, [question for question in questions if question.id in still_open], now)
            for task, due in pending.retries.items():
                self.steps.retry(changeset, task, pending.attempts.get(task, 1), due, now)
            for task, text in pending.errors.items():
                self.steps.fail(changeset, task, text, now)
            if log is not None and any(entry[0] == "run_finished" for entry in log.entries):
                self._end(changeset, log, now, self.values)
        return self._changes(changeset, now)

    def failed(self, error: BaseException, now: datetime, *, guard: Where | None = None) -> list[Change]:
        """Return the changes that fail a run which could not save its outcome, guarded by its claim or by `guard`."""
        changeset = ChangeSet()
        self._guard = guard
        self._open(changeset, now)
        self._end_as(changeset, Ending.failed(self._error(error)), now)
        return self._changes(changeset, now)

    def postpone(self, until: datetime | None, now: datetime) -> list[Change]:
        """Return the changes that release the run until an instant."""
        changeset = ChangeSet(values={"claim": None, "worker_id": None, "due_at": until})
        return self._changes(changeset, now)

    def postpone_to_next_day(self, limit: SpendingLimitReached, now: datetime, *, pauses: bool) -> list[Change]:
        """Return the changes that postpone a run until its workspace may spend again. A running one is paused.

        The event is recorded once, however often the run is postponed.
        """
        changeset = ChangeSet()
        self._rest_till_next_day(changeset, limit)
        if not pauses:
            changeset.values.pop("status")
        if _code_of(self.run.error) == limit.code:
            changeset.events.clear()
        return self._changes(changeset, now)

    def _changes(self, changeset: ChangeSet, now: datetime) -> list[Change]:
        """Return the changes of one write; none if nothing was recorded."""
        if not (changeset.values or changeset.events or changeset.changes or changeset.ends):
            return []
        self.run = replace(self.run, **{k: v for k, v in changeset.values.items() if not isinstance(v, Plus)})
        guard = list(self._guard) if self._guard is not None else [Condition("claim", "=", self.token)]
        if self._guard is None and self._version is not None:
            guard.append(Condition("version", "=", self._version))
            self._version = None
        advance = Advance(self.run.id, now, changeset.values, changeset.events, guard)
        changes = [advance, *changeset.changes, *changeset.ends]
        if changeset.spent is not None or self.limits is not None:
            changes.append(Spend(changeset.spent or DailySpending.of(self.run.workspace_id, now)))
        return without_secrets(changes, self.redact) if self.redact is not None else changes

    def _breaks(self, commit: Commit) -> bool:
        """Return whether the run is set to interrupt before its next superstep."""
        before: Sequence[str] = self.run.settings.get("interruptBefore") or ()
        after: Sequence[str] = self.run.settings.get("interruptAfter") or ()
        due = {task.node for task in commit.checkpoint.frontier}
        done = {result.task.node for result in commit.results} - {START}
        return bool(due.intersection(before) or done.intersection(after) or "*" in before or (done and "*" in after))

    def _uses_up_day(self, changeset: ChangeSet, now: datetime) -> bool:
        """Return whether the workspace has reached its daily limit, as far as is known before the write."""
        if self.limits is None:
            return False
        today = DailySpending.of(self.run.workspace_id, now)
        parts = [part for part in (self.spent, changeset.spent) if part is not None and part.day == today.day]
        return self.limits.reached(reduce(DailySpending.plus, parts, today), now) is not None

    # -- beginning

    def _open(self, changeset: ChangeSet, now: datetime, *, begins: bool = False) -> None:
        """Add to the first write of an attempt that the run is running, and has received its answers."""
        if self.is_open:
            return
        self.is_open, run = True, self.run
        if begins and not run.begun:
            changeset.values["begun"] = True
        if run.status is not RunStatus.RUNNING:
            changeset.values["status"] = RunStatus.RUNNING
            self.run = replace(run, status=RunStatus.RUNNING)
        if run.status is RunStatus.PAUSED:  # not by request: a new day has begun
            changeset.add_event("WORKFLOW_RESUMED", {"reason": SPENDING_LIMIT})
        if run.error is not None:  # why it was put off
            changeset.values["error"] = None
        if run.started_at is None:
            changeset.values["started_at"] = now
            changeset.add_event("WORKFLOW_STARTED", {"graph": run.graph, "source": run.source})
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            self._take(changeset, arrived, now)
        if self.stopping is None:
            self.steps.begin_due(changeset, now)

    def _take(self, changeset: ChangeSet, arrived: Arrived, now: datetime) -> None:
        """Record the answers that have arrived while the run waited."""
        recorded: set[str] = set()
        for wait in arrived.ended:
            self.steps.waits.pop(wait.interrupt_id, None)
            signal = arrived.signals.get(wait.id)
            step = self.steps.step_of(wait)
            if signal is None:
                self._lapse(changeset, wait, step, now)
            elif signal.id not in recorded:
                recorded.add(signal.id)
                changeset.add_event("SIGNAL_RECEIVED", {"signalType": signal.type, "signalId": signal.key}, step)
        changeset.events.extend(ignored_events(arrived))
        changeset.changes.extend(taken_changes(arrived))
        changeset.add_event("WORKFLOW_RESUMED", {"reason": _reason(arrived)})
        changeset.changes.append(Delete(Wait, [Condition("id", "in", [wait.id for wait in arrived.ended])]))
        self.steps.wake(changeset)

    def _lapse(self, changeset: ChangeSet, wait: Wait, step: StepRun | None, now: datetime) -> None:
        changeset.add_event("TIMER_FIRED", {"dueAt": iso(wait.due_at or now)}, step)
        approval = approval_of(wait)
        if approval is not None:
            changeset.add_event("APPROVAL_EXPIRED", {"approvalId": approval.id}, step)
            undecided = where(id=approval.id, decision=None)
            changeset.changes.append(UpdateAll(Approval, undecided, {"decision": "expired", "decided_at": now}))

    # -- the end

    def _end(self, changeset: ChangeSet, log: Log, now: datetime, values: Mapping[str, Any]) -> None:
        """Interpret the outcome of the run, as recorded in its log."""
        rest: Any = next(entry[4] for entry in log.entries if entry[0] == "run_finished")
        status: str = rest["status"]
        if status == "completed":
            self._complete_run(changeset, as_json(self.output_of(values)), now)
        elif self.stopping == "timeout":
            self._end_as(changeset, Ending.failed(_out_of_time(self.run)), now)
        elif status == "paused" or (status == "waiting" and self.stopping == "pause"):
            self._pause(changeset)
        elif status == "waiting":
            self._wait(changeset, now)
        elif self.is_cancelled or (status == "cancelled" and "error" not in rest):
            # Without an error the process is ending. In both cases other workers resume the run.
            changeset.values.update(claim=None, worker_id=None, due_at=now)
        elif rest.get("drained") and self.stopping == "pause":
            self._pause(changeset)
        elif rest.get("drained") and self.stopping == "limit" and self.limit is not None:
            self._rest_till_next_day(changeset, self.limit)
        elif rest.get("drained") and self.stopping == "release":
            changeset.values.update(claim=None, worker_id=None, due_at=now)
        elif (
            status == "cancelled"
        ):  # by a node: a cancellation from outside removes the claim, so this write would be refused
            self._end_as(changeset, Ending.cancelled(str(rest["error"])), now)
        else:  # also while it is being stopped: a step that has failed is tried again on request only
            self._end_as(changeset, Ending.failed(self.steps.error_of(rest.get("error", status))), now)

    def output_of(self, values: Mapping[str, Any]) -> Any:
        """Return the output fields of a state; replaced by the recorder, which knows the program."""
        return dict(values)

    def _complete_run(self, changeset: ChangeSet, output: Json, now: datetime) -> None:
        size = len(to_json(output))
        if size <= self.max_output:
            self._end_as(changeset, Ending.completed(output), now)
            return
        limit = f"The result has {size} bytes as JSON; at most {self.max_output} are stored."
        message = f"{limit} Reduce the output of the graph."
        self._end_as(changeset, Ending.failed({"message": message, "code": "OUTPUT_TOO_LARGE"}), now)

    def _pause(self, changeset: ChangeSet) -> None:
        changeset.values.update(status=RunStatus.PAUSED, claim=None, worker_id=None, due_at=None)
        changeset.add_event("WORKFLOW_PAUSED", {"reason": "paused"})

    def _rest_till_next_day(self, changeset: ChangeSet, limit: SpendingLimitReached) -> None:
        deadline = self.run.deadline_at
        due = min(limit.ends_at, deadline) if deadline is not None else limit.ends_at
        changeset.values.update(
            status=RunStatus.PAUSED, claim=None, worker_id=None, due_at=due, error=error_json(limit)
        )
        changeset.add_event(
            "WORKFLOW_PAUSED", {"reason": SPENDING_LIMIT, "limit": limit.limit, "until": iso(limit.ends_at)}
        )

    def _wait(self, changeset: ChangeSet, now: datetime) -> None:
        waits = list(self.steps.waits.values())
        due = next_due(waits, self.run.deadline_at)
        changeset.values.update(status=RunStatus.WAITING, claim=None, worker_id=None, due_at=due)
        changeset.add_event("WORKFLOW_PAUSED", {"reason": _reason_to_wait(waits)})
        # Signals that arrived while the run was at work have not been handled: they make it due at once.
        changeset.ends.extend(due_again(self.run.id, now))

    def _end_as(self, changeset: ChangeSet, ending: Ending, now: datetime) -> None:
        changeset.values.update(ending.values(now))
        changeset.add_event(ending.event, ending.payload)
        if ending.status is not RunStatus.COMPLETED:
            stopped = {"message": "The step was stopped because the run has ended.", "code": "STOPPED"}
            unfinished = [StepStatus.RUNNING, StepStatus.WAITING]
            conditions = [Condition("run_id", "=", self.run.id), Condition("status", "in", unfinished)]
            end = StepStatus.FAILED if ending.status is RunStatus.FAILED else StepStatus.CANCELLED
            values = {"status": end, "error": stopped, "completed_at": now}
            changeset.ends.append(UpdateAll(StepRun, conditions, values))
        if self.steps.waits or ending.status is not RunStatus.COMPLETED:
            gone = {"decision": "expired" if self.stopping == "timeout" else "cancelled", "decided_at": now}
            changeset.ends.append(Delete(Wait, where(run_id=self.run.id)))
            changeset.ends.append(UpdateAll(Approval, where(run_id=self.run.id, decision=None), gone))
        ended = replace(self.run, **ending.values(now))
        changeset.ends.extend(completion_changes(ended, ending, now))
        if self.on_end is not None:
            changeset.ends.extend(self.on_end(ended, ending, now))

    def _error(self, error: BaseException) -> dict[str, Json]:
        if self.stopping == "timeout":
            return _out_of_time(self.run)
        return error_json(error)


def _open_questions(log: Log | None) -> frozenset[str]:
    """Return the ids of the interrupts that the run waits for; a write may also hold ones that were answered."""
    groups = [entry[4] for entry in log.entries if entry[0] == "interrupted"] if log is not None else []
    return frozenset(question["id"] for questions in groups for question in questions)


def _code_of(error: Json) -> Any:
    return cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None


def _reason(arrived: Arrived) -> str:
    return "timer" if not arrived.signals else "signal"


def _reason_to_wait(waits: Sequence[Wait]) -> str:
    """Return the reason of a pause: approval, external_event, question or timer."""
    if any(approval_of(wait) is not None for wait in waits):
        return "approval"
    kinds = {wait.kind for wait in waits}
    return "external_event" if "event" in kinds else "question" if "question" in kinds else "timer"


def _out_of_time(run: Run) -> dict[str, Json]:
    until = iso(run.deadline_at) if run.deadline_at is not None else "its deadline"
    return {"message": f"The run did not finish before its deadline, {until}.", "code": "RUN_TIMEOUT"}

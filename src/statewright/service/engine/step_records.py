"""The records of the steps of a run: their status, retries, waits, model calls and logs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from statewright.checkpoint import Interrupt, Pending, Task
from statewright.clock import Clock, iso
from statewright.data.jsonable import as_json
from statewright.events import Entry, Event
from statewright.graph import START, Graph
from statewright.ids import digest
from statewright.runs import (
    Approval,
    Change,
    Delete,
    Insert,
    Json,
    ModelCall,
    NewEvent,
    Plus,
    Run,
    StepLog,
    StepRun,
    StepStatus,
    Update,
    Wait,
    where,
)
from statewright.service.context.namespaces import node_in, segments_of, task_id_in
from statewright.service.context.service_context import LogSource
from statewright.service.engine.changeset import ChangeSet, error_from_text, error_json
from statewright.service.engine.completion import Ending
from statewright.service.engine.task_starts import TaskStarts
from statewright.service.engine.waits import approval_of, next_due, wait_id, wait_of

_STEP_TYPE: Final = "step_type"
"""The key in the metadata of a node that holds the type of its step."""
_AGENT_IN: Final = "agent_in"
"""The key in the metadata of a node that calls agents, for the key of the agent's name in the argument of its task."""


@dataclass(frozen=True, slots=True, eq=False)
class _QueuedChanges:
    """Changes to write in the transaction that saves the first result of a task."""

    task_ids: Sequence[str]
    """Ids of the task and its enclosing tasks, the innermost first; empty if the next transaction, whatever it saves,
    should include the changes."""
    changes: Sequence[Change]


class _InnerFailure(NamedTuple):
    """A failed attempt at a task in a subgraph."""

    node: str
    superstep: int
    attempt: int
    error: BaseException


@dataclass(slots=True)
class _Progress:
    """The progress of the current superstep, as the record of the run shows it in lists.

    It is written only if there is more to say than the name of the current step: the superstep has several tasks, or an
    attempt has failed. So a run of single steps writes nothing for it.
    """

    superstep: int
    total: int
    """The number of its tasks."""
    done: int
    is_recorded: bool
    """True if the record of the run has a progress, so that it must be replaced."""

    @classmethod
    def of(cls, steps: Iterable[StepRun], *, is_recorded: bool) -> Self:
        """Return the progress of the newest superstep of a run that is continued."""
        last, total, done = -1, 0, 0
        for step in steps:
            if step.status is StepStatus.SKIPPED or step.superstep < last:
                continue
            if step.superstep > last:
                last, total, done = step.superstep, 0, 0
            total += 1
            done += step.status is StepStatus.COMPLETED
        return cls(last, total, done, is_recorded)

    def begin(self, changeset: ChangeSet, superstep: int, total: int) -> None:
        """Begin a superstep with a number of tasks, unless it has begun already."""
        if superstep != self.superstep:
            self.superstep, self.total, self.done = superstep, total, 0
            self.record(changeset)

    def complete(self, changeset: ChangeSet, superstep: int) -> None:
        """Count a task that has completed."""
        if superstep == self.superstep:
            self.done += 1
            self.record(changeset)

    def record(self, changeset: ChangeSet, **failure: Any) -> None:
        """Write the progress, with what is known about a failed attempt, or remove it if there is nothing to say."""
        counts = {"done": self.done, "total": self.total} if self.total > 1 else {}
        progress = {**counts, **failure}
        if progress or self.is_recorded:
            changeset.values["progress"] = progress or None
            self.is_recorded = bool(progress)


class StepRecords:
    """The steps of a run and their waits, as known to the worker.

    Most methods add changes and events of steps to the change set of a write.
    """

    def __init__(self, run: Run, graph: Graph, steps: Iterable[StepRun], waits: Iterable[Wait]) -> None:
        self._run = run
        self.logs: LogSource | None = None
        self.failures: dict[str, BaseException] = {}
        """Exceptions of failed tasks, by task id. The thread stores only their text, but a step stores more."""
        self._inner_failures: dict[str, _InnerFailure] = {}
        """Failures of tasks in subgraphs that are not recorded yet, by task id."""
        self._ends: dict[int, tuple[str, datetime]] = {}
        """The ends of tasks that are not recorded yet, each with the origin of the task, by its position."""
        self.starts = TaskStarts()
        """The starts of tasks that are not recorded yet."""
        self.waits = {wait.interrupt_id: wait for wait in waits}
        """Open waits, by interrupt id."""
        self.answered_ids: Collection[str] = ()
        """Ids of interrupts whose answers arrived before the run was retried but have not been processed."""
        self._types = {name: _type_of(node) for name, node in graph.nodes.items()}
        """Types of steps, by node."""
        self._agent_keys = {
            name: node.metadata[_AGENT_IN] for name, node in graph.nodes.items() if _AGENT_IN in node.metadata
        }
        """By node that calls agents: the key of the agent's name in the argument of its task."""
        self._steps = {step.task_id: step for step in steps}
        """Steps by task id."""
        self._reports: dict[str, dict[str, Json]] = {}
        """The reports of tasks about their steps, by task id: `output`, `skipped` (names of steps)."""
        self._retry_times: dict[str, datetime] = {}
        """The times at which failed tasks are retried, by task id."""
        self._progress = _Progress.of(self._steps.values(), is_recorded=run.progress is not None)
        self._max_attempts = {
            name: max(policy.max_attempts for policy in node.retry_policy)
            for name, node in graph.nodes.items()
            if node.retry_policy
        }
        """The maximum number of attempts, by node."""
        self._caller_id: str | None = None
        """The step that has called the subgraph whose entries are being recorded."""
        self._with_inner = {step.id for step in self._steps.values()}
        """The ids of steps that have called a subgraph, or may have: those of an earlier attempt at the run."""
        self._call_count = self._log_count = 0
        self._queued: list[_QueuedChanges] = []
        self._queue_lock = threading.Lock()

    # -- changes queued by tasks

    def queue(self, task_ids: Sequence[str], changes: Sequence[Change]) -> None:
        """Queue changes for the transaction that saves the first result of a task. Thread-safe.

        `task_ids` are those of the task and its enclosing tasks, the innermost first. If none of them has a step, the
        changes go into the next transaction.
        """
        has_step = any(task_id in self._steps for task_id in task_ids)
        with self._queue_lock:
            self._queued.append(_QueuedChanges(task_ids if has_step else (), changes))

    @property
    def has_queued(self) -> bool:
        """True if any changes are queued."""
        return bool(self._queued)

    def take_queued(self, changeset: ChangeSet, saved: AbstractSet[str]) -> None:
        """Move queued changes to a change set: the changes of saved tasks, and changes that wait for no task."""
        with self._queue_lock:
            ready = [entry for entry in self._queued if not entry.task_ids or not saved.isdisjoint(entry.task_ids)]
            self._queued = [entry for entry in self._queued if entry not in ready]
        for entry in ready:
            changeset.final_changes.extend(entry.changes)

    # -- undoing refused writes

    def snapshot(self) -> Callable[[], None]:
        """Return a function that restores the current records, but keeps changes that are queued until it is called."""
        with self._queue_lock:
            queued = tuple(self._queued)
        waits, retry_times, progress = dict(self.waits), dict(self._retry_times), replace(self._progress)
        starts = self.starts.copy()
        steps = {task_id: replace(step) for task_id, step in self._steps.items()}
        reports = {task_id: dict(report) for task_id, report in self._reports.items()}

        def restore() -> None:
            self.waits, self._retry_times, self._steps, self._reports = waits, retry_times, steps, reports
            self._progress, self.starts = progress, starts
            with self._queue_lock:
                later = [entry for entry in self._queued if entry not in queued]
                self._queued = [*queued, *later]

        return restore

    def clear_progress(self, changeset: ChangeSet) -> None:
        """Remove the progress from the record of the run, because it does not advance any more."""
        self._progress.begin(changeset, -1, 0)

    # -- what happens in tasks

    def step_id_of(self, task: Task) -> str:
        """Return the id of the step of a task of this run."""
        return self._steps[task.id].id

    def note_end(self, task: Task, clock: Clock) -> None:
        """Note when a task of a superstep with several has ended, since they are saved together later. Thread-safe.

        A lone task is saved at once, so that the time of its commit is good enough.
        """
        if self._progress.total > 1:
            self._ends[task.position] = task.origin, clock.now()

    def _end_of(self, task: Task, now: datetime) -> datetime:
        """Return when a task has ended that is saved now."""
        origin, ended_at = self._ends.pop(task.position, (None, now)) if self._ends else (None, now)
        return min(ended_at, now) if origin == task.origin else now

    def note_failure(self, event: Event, error: BaseException) -> None:
        """Note the exception of a failed task until its failure is recorded. Thread-safe."""
        if event.task_id is None:
            return
        if event.namespace:
            self._inner_failures[event.task_id] = _InnerFailure(event.node or "", event.step, event.attempt, error)
        else:
            self.failures[event.task_id] = error

    def record_inner_failures(self, changeset: ChangeSet, namespace: str, pending: Pending) -> None:
        """Record the failed attempts at the tasks of a subgraph. Its other steps have no events."""
        step = self._caller_of(namespace)
        segments = segments_of(namespace)
        for task_id in {**pending.errors, **pending.retries}:
            failure = self._inner_failures.pop(task_id, None)
            if failure is None or step is None:
                continue
            due = pending.retries.get(task_id)
            payload = {
                "path": [step.name, *map(node_in, segments[1:]), failure.node],
                "taskId": task_id,
                "parentId": task_id_in(segments[-1]) if len(segments) > 1 else None,
                "superstep": failure.superstep,
                "attempt": failure.attempt,
                "error": error_json(failure.error),
                "retryAt": iso(due) if due is not None else None,
            }
            changeset.add_event("SUBGRAPH_STEP_FAILED", payload, step)

    # -- queries

    def is_backing_off(self, now: datetime) -> bool:
        """Return True if all running steps have failed and are waiting to be retried."""
        running = [step for step in self._steps.values() if step.status is StepStatus.RUNNING]
        return bool(running) and all(self._retry_times.get(step.task_id, now) > now for step in running)

    def error_of(self, text: str) -> dict[str, Json]:
        """Return the error that ended the run as JSON, given its text. It names the step that raised it if known."""
        for task_id, error in reversed(self.failures.items()):
            if text == f"{type(error).__name__}: {error}":
                step = self._steps.get(task_id)
                return error_json(error, step=step.name if step is not None else None)
        return error_from_text(text)

    def step_of(self, wait: Wait) -> StepRun | None:
        """Return the step that a wait belongs to; None if that step is not among these records."""
        return next((step for step in self._steps.values() if step.id == wait.step_id), None)

    # -- the life of a step

    def begin_due(self, changeset: ChangeSet, now: datetime) -> None:
        """Begin the pending steps, because the run continues."""
        for step in self._steps.values():
            self._begin_if_due(changeset, step, now)

    def _begin_if_due(self, changeset: ChangeSet, step: StepRun, now: datetime) -> None:
        """Begin a step if it is pending. A step is created as pending when the run is about to stop before it."""
        if step.status is StepStatus.PENDING:
            _change(changeset, step, status=StepStatus.RUNNING, started_at=now)
            changeset.add_event("STEP_STARTED", {"stepType": step.type}, step)

    def wake(self, changeset: ChangeSet) -> None:
        """Set waiting steps whose waits have ended to running."""
        waiting = {wait.step_id for wait in self.waits.values()}
        for step in self._steps.values():
            if step.status is StepStatus.WAITING and step.id not in waiting:
                _change(changeset, step, status=StepStatus.RUNNING, wait_until=None)

    def start(
        self,
        changeset: ChangeSet,
        tasks: Sequence[Task],
        superstep: int,
        now: datetime,
        *,
        halts: bool,
        done: Collection[str] = (),
    ) -> None:
        """Create a step for each task that has none, except for tasks whose ids are in `done`.

        The steps are running, or pending if the run `halts` before them.
        """
        self._progress.begin(changeset, superstep, len(tasks))
        new_ids: list[str] = []
        for position, task in enumerate(tasks):
            if task.id in self._steps or task.id in done:
                continue
            step = self._new_step(task, superstep, position, now, halts=halts)
            changeset.changes.append(Insert(step))
            new_ids.append(task.id)
            if not halts:
                agent = self._agent_of(task) if task.node in self._agent_keys else {}
                changeset.add_event("STEP_STARTED", {"stepType": step.type, **agent}, step)
            changeset.values["current_step"] = task.node
        self.starts.expect(new_ids if len(tasks) > 1 and not halts else ())

    def _agent_of(self, task: Task) -> dict[str, Json]:
        """Return the name of the agent that a task will call as a part of an event; an empty map if it has none."""
        arg: Any = task.arg
        agent: Any = arg.get(self._agent_keys[task.node]) if isinstance(arg, Mapping) else None  # pyright: ignore
        return {"agent": agent} if isinstance(agent, str) else {}

    def _new_step(self, task: Task, superstep: int, position: int, now: datetime, *, halts: bool) -> StepRun:
        step = self._steps[task.id] = StepRun(
            id=digest("step", self._run.id, task.id),
            run_id=self._run.id,
            task_id=task.id,
            name=task.node,
            type=self._types.get(task.node, "node"),
            status=StepStatus.PENDING if halts else StepStatus.RUNNING,
            superstep=superstep,
            position=position,
            started_at=None if halts else now,
        )
        return step

    def complete(self, changeset: ChangeSet, task: Task, now: datetime) -> None:
        """Complete the step of a task, unless it is completed already. Also record the steps that it has skipped."""
        step = self._steps.get(task.id)
        if task.node == START or step is None or step.status is StepStatus.COMPLETED:
            return
        begun = self._end_attempt(changeset, step, now)
        self.take_queued(changeset, {task.id})
        report = self._reports.pop(task.id, {})
        output, ended_at = report.get("output"), self._end_of(task, now)
        _change(changeset, step, status=StepStatus.COMPLETED, completed_at=ended_at, output=output, error=None, **begun)
        self._progress.complete(changeset, step.superstep)
        seconds = (ended_at - step.started_at).total_seconds() if step.started_at is not None else 0
        # Tells readers of traces whether they have to look for inner steps, which have no records.
        inner = {"hasInnerSteps": True} if step.id in self._with_inner else {}
        changeset.add_event("STEP_COMPLETED", {"durationMs": round(seconds * 1000), **inner}, step)
        for name in report.get("skipped", ()):
            self._skip(changeset, str(name), step, now)

    def _skip(self, changeset: ChangeSet, name: str, by: StepRun, now: datetime) -> None:
        skipped_id = digest("skipped", self._run.id, by.task_id, name)
        skipped = StepRun(
            id=skipped_id,
            run_id=self._run.id,
            task_id=skipped_id,
            name=name,
            type=self._types.get(name, "node"),
            status=StepStatus.SKIPPED,
            superstep=by.superstep,
            position=by.position,
            completed_at=now,
        )
        changeset.changes.append(Insert(skipped))
        changeset.add_event("STEP_SKIPPED", {"by": by.name}, skipped)

    def retry(self, changeset: ChangeSet, task_id: str, failed: int, due: datetime, now: datetime) -> None:
        """Record that attempt number `failed` of a task has failed, and that the next attempt is due at `due`."""
        step = self._steps.get(task_id)
        if step is None:
            return
        begun = self._end_attempt(changeset, step, now)
        self._retry_times[task_id] = due
        error = self._error_of_task(task_id)
        _change(changeset, step, attempt=failed + 1, error=error, **begun)
        most = self._max_attempts.get(step.name)
        self._progress.record(
            changeset, step=step.name, failedAttempt=failed, maxAttempts=most, retryAt=iso(due), error=error
        )
        changeset.add_event("STEP_FAILED", {"attempt": failed, "error": error}, step)
        changeset.add_event("STEP_RETRY_SCHEDULED", {"attempt": step.attempt, "at": iso(due)}, step)

    def fail(self, changeset: ChangeSet, task_id: str, text: str, now: datetime) -> None:
        """Fail the step of a task, with the text of its error."""
        step = self._steps.get(task_id)
        if step is None:
            return
        begun = self._end_attempt(changeset, step, now)
        error = self._error_of_task(task_id) or error_from_text(text)
        _change(changeset, step, status=StepStatus.FAILED, error=error, completed_at=now, **begun)
        if step.attempt > 1:
            most = self._max_attempts.get(step.name)
            self._progress.record(changeset, step=step.name, failedAttempt=step.attempt, maxAttempts=most)
        changeset.add_event("STEP_FAILED", {"attempt": step.attempt, "error": error}, step)

    def _end_attempt(self, changeset: ChangeSet, step: StepRun, now: datetime) -> dict[str, datetime]:
        """Record the end of an attempt at a step: its log lines, and its beginning unless that is recorded already.

        Return the time of its beginning, if it is to be recorded, as a value for the change of the step that follows.
        """
        self._begin_if_due(changeset, step, now)
        self._record_lines(changeset, step, now)
        begun_at = self.starts.take(step.task_id)
        return {"started_at": min(begun_at, now)} if begun_at is not None else {}

    def _record_lines(self, changeset: ChangeSet, step: StepRun, now: datetime) -> None:
        """Record what was logged and printed during an attempt."""
        lines = self.logs.take(step.task_id) if self.logs is not None else ()
        if not lines:
            return
        self._log_count += 1
        log = StepLog(
            id=f"{digest('log', self._run.id, self._run.claim)}{self._log_count:x}",
            run_id=self._run.id,
            step_id=step.id,
            step_name=step.name,
            attempt=step.attempt,
            number=self._log_count,
            lines=list(lines),
            created_at=now,
        )
        changeset.changes.append(Insert(log))

    def _error_of_task(self, task_id: str) -> dict[str, Json] | None:
        error = self.failures.get(task_id)
        return error_json(error) if error is not None else None

    def record_waits(self, changeset: ChangeSet, task_id: str, questions: Sequence[Interrupt], now: datetime) -> None:
        """Record a wait for each question of a task that has no wait yet."""
        step = self._steps.get(task_id)
        new = [question for question in questions if question.id not in self.waits]
        if step is None or not new:
            return
        begun = self._end_attempt(changeset, step, now)
        self.take_queued(changeset, {task_id})
        for question in new:
            wait = self.waits[question.id] = wait_of(self._run, step, question, now)
            changeset.changes.append(Insert(wait))
            self._announce_wait(changeset, wait, step)
        due = next_due((wait for wait in self.waits.values() if wait.step_id == step.id), None)
        event = next((question.event for question in new if question.event is not None), None)
        _change(changeset, step, status=StepStatus.WAITING, wait_until=due, signal_type=event, **begun)

    def _announce_wait(self, changeset: ChangeSet, wait: Wait, step: StepRun) -> None:
        due = iso(wait.due_at) if wait.due_at is not None else None
        changeset.add_event(
            "STEP_WAITING", {"waitId": wait.id, "kind": wait.kind, "signalType": wait.event, "until": due}, step
        )
        if due is not None:
            changeset.add_event("TIMER_SCHEDULED", {"dueAt": due}, step)
        approval = approval_of(wait)
        # A retried run requests its approvals again, unless they were decided before: a decision is final.
        if approval is not None and wait.interrupt_id not in self.answered_ids:
            changeset.changes += [Delete(Approval, where(id=approval.id)), Insert(approval)]
            request = {"approvalId": approval.id, "prompt": approval.prompt, "contentKey": approval.content_key}
            changeset.add_event("APPROVAL_REQUESTED", request, step)
            changeset.changes.append(Ending.announcement(self._run, "approval.requested", request, wait.created_at))

    # -- entries of the log

    def record_entries(
        self, changeset: ChangeSet, entries: Iterable[Entry], now: datetime, namespace: str = ""
    ) -> None:
        """Record model calls, tool calls, changed questions, and what tasks report about their steps.

        The entries of a subgraph, whose namespace is given, belong to the step that has called it.
        """
        caller = self._caller_of(namespace) if namespace else None
        self._caller_id = caller.id if caller is not None else None
        if caller is not None:
            self._with_inner.add(caller.id)
        for kind, _, node, task_id, data in entries:
            if kind == "model_called":
                self._record_model_call(changeset, node, task_id, data, now)
            elif kind == "tool_called":
                changeset.events.append(NewEvent("TOOL_CALLED", as_json(data), self._step_id(task_id)))
            elif kind == "question_changed":
                self._record_changed_question(changeset, task_id, data)
            elif kind == "step_reported" and task_id is not None:
                self._record_report(changeset, task_id, data)

    def _record_changed_question(self, changeset: ChangeSet, task_id: str | None, data: Mapping[str, Any]) -> None:
        step = self._steps.get(task_id) if task_id is not None else None
        questions = {"asked": as_json(data["before"]), "asksNow": as_json(data["now"])}
        changeset.add_event("QUESTION_CHANGED", {"waitId": wait_id(self._run.id, data["id"]), **questions}, step)

    def _record_report(self, changeset: ChangeSet, task_id: str, data: Mapping[str, Any]) -> None:
        event = data.get("event")
        if event is not None:
            step = self._steps.get(task_id)
            changeset.add_event(event["type"], as_json(event.get("payload") or {}), step)
        report = {key: value for key, value in data.items() if key != "event"}
        if report:
            self._reports.setdefault(task_id, {}).update(as_json(report))

    def _record_model_call(
        self, changeset: ChangeSet, node: str | None, task_id: str | None, data: Mapping[str, Any], now: datetime
    ) -> None:
        self._call_count += 1
        step_id = self._step_id(task_id)
        call = ModelCall(
            id=f"{digest('call', self._run.id, self._run.claim)}{self._call_count:x}",
            run_id=self._run.id,
            workspace_id=self._run.workspace_id,
            step_id=step_id,
            step_name=node,
            model=str(data.get("model") or ""),
            input_tokens=int(data.get("input_tokens") or 0),
            output_tokens=int(data.get("output_tokens") or 0),
            cost=float(data.get("cost") or 0.0),
            details=as_json(data),
            created_at=now,
        )
        changeset.changes.append(Insert(call))
        changeset.spend(call)
        changeset.values["total_cost"] = Plus(changeset.values.get("total_cost", Plus(0.0)).amount + call.cost)
        payload = {
            "stepName": node,
            "model": call.model,
            "inputTokens": call.input_tokens,
            "outputTokens": call.output_tokens,
            "costUsd": call.cost,
        }
        changeset.events.append(NewEvent("LLM_CALL_COMPLETED", payload, step_id))

    def _step_id(self, task_id: str | None) -> str | None:
        step = self._steps.get(task_id) if task_id is not None else None
        return step.id if step is not None else self._caller_id

    def _caller_of(self, namespace: str) -> StepRun | None:
        """Return the step that has called the subgraph with a namespace, directly or through others."""
        segment = segments_of(namespace)[0]
        by_task = (self._steps[part] for part in segment.split(":") if part in self._steps)
        # The namespace of a subgraph that keeps its state has no task.
        by_name = (s for s in self._steps.values() if s.name == segment and s.status is StepStatus.RUNNING)
        return next(by_task, None) or next(by_name, None)


def _change(changeset: ChangeSet, step: StepRun, **values: Any) -> None:
    """Set columns of a step, and add the change to a change set."""
    for name, value in values.items():
        setattr(step, name, value)
    changeset.changes.append(Update(StepRun, step.id, values))


def _type_of(node: Any) -> str:
    return node.metadata.get(_STEP_TYPE) or ("subgraph" if node.is_subgraph else "node")

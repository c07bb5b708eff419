"""What the writes of a run mean for its records: pure, and the one place where commits become steps and events.

Each superstep that a run saves is read here. Its results are steps that have completed, its frontier are steps that
begin, its interrupts are waits, and the end of its log says how the run came to rest. What comes of it are changes of
the ledger, which the recorder gives along with the superstep.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, Protocol

from pydantic_core import to_json

from statewright.checkpoint import Commit, Interrupt, Pending, Task
from statewright.events import Entry, Log
from statewright.graph import START, Graph
from statewright.ids import digest
from statewright.runs import (
    Advance,
    Announce,
    Approval,
    Change,
    Condition,
    Delete,
    Insert,
    Json,
    ModelCall,
    NewEvent,
    Plus,
    Run,
    RunStatus,
    StepLog,
    StepRun,
    StepStatus,
    Update,
    UpdateAll,
    Wait,
    Where,
    where,
)
from statewright.service.endings import Ending, ended_changes
from statewright.service.plain import as_json, error_from_text, error_json, iso
from statewright.service.questions import (
    Arrived,
    approval_of,
    due_again,
    ignored_events,
    next_due,
    taken_changes,
    wait_of,
)

Stopping = Literal["pause", "release", "timeout"]
"""Why a run is being stopped, if it is not its own doing: to pause it, to let another worker have it, or because its
time is over."""


class LogSource(Protocol):
    """What has captured the lines that tasks log and print."""

    def take(self, task_id: str) -> Sequence[Mapping[str, Json]]:
        """The lines of a task since they were taken last, the oldest first."""
        ...


OnEnd = Callable[[Run, Ending, datetime], Sequence[Change]]
_KIND: Final = "step_type"
"""The entry of a node's metadata that says what type of step it is."""


@dataclass(slots=True)
class Moves:
    """What one write does to the records of a run."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[NewEvent] = field(default_factory=list[NewEvent])
    changes: list[Change] = field(default_factory=list[Change])
    ends: list[Change] = field(default_factory=list[Change])
    """Changes that must come after that of the run itself."""

    def tell(self, kind: str, payload: Mapping[str, Json], step: StepRun | None = None) -> None:
        named = {"stepName": step.name, **payload} if step is not None else payload
        self.events.append(NewEvent(kind, named, step.id if step is not None else None))


class _NoGraph:
    """In place of a graph that is not there, or not needed."""

    nodes: Mapping[str, Any] = {}


NO_GRAPH: Final[Any] = _NoGraph()


class Progress:
    """Where a run stands, as far as its worker knows."""

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
        """The record with what was written since."""
        self.token = run.claim
        self.stopping: Stopping | None = None
        self.failures: dict[str, BaseException] = {}
        """The errors of tasks that have failed, by task: records say more of them than the thread does."""
        self._types = {name: _type_of(node) for name, node in graph.nodes.items()}
        self._steps = {step.task_id: step for step in steps}
        self._waits = {wait.interrupt_id: wait for wait in waits}
        self._arrived = arrived
        self._reported: dict[str, dict[str, Json]] = {}
        self._retries: dict[str, datetime] = {}
        """When failed tasks are tried again."""
        self._calls = 0
        self.is_open = False
        """Whether anything was to be written yet."""
        self._guard: Where | None = None
        self.has_written = False
        """Whether anything was written."""
        self.was_refused = False
        """Whether something could not be written."""
        self._version = run.version if run.status is RunStatus.WAITING else None
        """What the first write expects: what has come since the inbox was read must not be lost."""
        self.logs: LogSource | None = None
        self._log_parts = 0
        self._more: dict[str, list[Change]] = {}
        self._adding = threading.Lock()
        self.redact: Callable[[Any], Any] | None = None
        """Takes secrets out of JSON."""
        self.max_output = 10_000_000
        """Bytes of JSON that the result may have."""
        self.on_end: OnEnd | None = None
        """What else happens in the instant in which the run ends."""

    def add(self, task_id: str, changes: Sequence[Change]) -> None:
        """Make changes with the write that keeps what a task has done. Called from any thread."""
        with self._adding:
            self._more.setdefault(task_id if task_id in self._steps else "", []).extend(changes)

    def _take_more(self, moves: Moves, task_id: str) -> None:
        """What goes with a task that has ended or waits, and what nobody knows the task of."""
        with self._adding:
            for whose in (task_id, ""):
                moves.ends.extend(self._more.pop(whose, ()))

    def is_backing_off(self, now: datetime) -> bool:
        """Whether nothing is done but waiting until failed steps are tried again."""
        at_work = [step for step in self._steps.values() if step.status is StepStatus.RUNNING]
        return bool(at_work) and all(self._retries.get(step.task_id, now) > now for step in at_work)

    @property
    def rests(self) -> bool:
        """Whether what was to be written says how the run came to rest."""
        return self.token is not None and self.run.claim is None

    # -- what was written

    def committed(self, commit: Commit) -> list[Change]:
        """What a commit of the run means."""
        moves, log, now = Moves(), commit.log, commit.created_at
        self._note(moves, log.entries if log is not None else (), now)
        if not commit.line.namespace:
            self._open(moves, now, begins=commit.source == "input")
            for result in commit.results:
                self._complete(moves, result.task, now)
            if log is not None and any(entry[0] == "run_finished" for entry in log.entries):
                self._end(moves, log, now, commit.checkpoint.values)
            else:
                halts = self.stopping is not None or self._breaks(commit)
                self._start(moves, commit.checkpoint.frontier, commit.checkpoint.step + 1, now, halts=halts)
        return self._changes(moves, now)

    def landed(self, namespace: str, pending: Pending, log: Log | None, now: datetime) -> list[Change]:
        """What results, questions and failures mean that were saved between two supersteps."""
        moves = Moves()
        self._note(moves, log.entries if log is not None else (), now)
        if not namespace:
            self._open(moves, now)
            for result in pending.landed.values():
                self._complete(moves, result.task, now)
            still_open = _open_questions(log)
            for task, questions in pending.interrupts.items():
                self._ask(moves, task, [one for one in questions if one.id in still_open], now)
            for task, due in pending.retries.items():
                self._retry(moves, task, pending.attempts.get(task, 1), due, now)
            for task, text in pending.errors.items():
                self._fail(moves, task, text, now)
            if log is not None and any(entry[0] == "run_finished" for entry in log.entries):
                self._end(moves, log, now, {})
        return self._changes(moves, now)

    def failed(self, error: BaseException, now: datetime, *, guard: Where | None = None) -> list[Change]:
        """The end of a run that could not save how it ended; `guard` is what is expected of it instead of the claim."""
        moves = Moves()
        self._guard = guard
        self._open(moves, now)
        self._end_as(moves, Ending.failed(self._error(error)), now)
        return self._changes(moves, now)

    def put_off(self, until: datetime | None, now: datetime) -> list[Change]:
        """Let another worker have the run, or this one later."""
        moves = Moves(values={"claim": None, "worker_id": None, "due_at": until})
        return self._changes(moves, now)

    def _changes(self, moves: Moves, now: datetime) -> list[Change]:
        """The changes that belong together; none if nothing happened that a record tells."""
        if not (moves.values or moves.events or moves.changes or moves.ends):
            return []
        self.run = replace(self.run, **{k: v for k, v in moves.values.items() if not isinstance(v, Plus)})
        guard = list(self._guard) if self._guard is not None else [Condition("claim", "=", self.token)]
        if self._guard is None and self._version is not None:
            guard.append(Condition("version", "=", self._version))
            self._version = None
        advance = Advance(self.run.id, now, moves.values, moves.events, guard)
        return self._redacted([advance, *moves.changes, *moves.ends])

    def _redacted(self, changes: list[Change]) -> list[Change]:
        """The changes without secrets in what is told: events, errors, messages to webhooks. Work itself is kept."""
        if self.redact is None:
            return changes
        for change in changes:
            match change:
                case Advance():
                    change.events = [one._replace(payload=self.redact(one.payload)) for one in change.events]
                    change.values = self._without_secrets(change.values)
                case Update(values=values):
                    change.values = self._without_secrets(values)
                case Announce():
                    told = {name: change.data[name] for name in ("output",) if name in change.data}
                    change.data = {**self.redact(change.data), **told}
                case _:
                    pass
        return changes

    def _without_secrets(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        assert self.redact is not None
        return {**values, "error": self.redact(values["error"])} if values.get("error") is not None else values

    # -- beginning

    def _open(self, moves: Moves, now: datetime, *, begins: bool = False) -> None:
        """The first write of a worker: the run is at work, and has what it waited for."""
        if self.is_open:
            return
        self.is_open, run = True, self.run
        if begins and not run.begun:
            moves.values["begun"] = True
        if run.status is not RunStatus.RUNNING:
            moves.values["status"] = RunStatus.RUNNING
            self.run = replace(run, status=RunStatus.RUNNING)
        if run.started_at is None:
            moves.values["started_at"] = now
            moves.tell("WORKFLOW_STARTED", {"graph": run.graph, "source": run.source})
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            self._take(moves, arrived, now)
        for step in self._steps.values():
            if step.status is StepStatus.PENDING and self.stopping is None:
                self._begin(moves, step, now)

    def _begin(self, moves: Moves, step: StepRun, now: datetime) -> None:
        """A step that was due when the run was stopped."""
        step.status, step.started_at = StepStatus.RUNNING, now
        moves.changes.append(Update(StepRun, step.id, {"status": step.status, "started_at": now}))
        moves.tell("STEP_STARTED", {"stepType": step.type}, step)

    def _take(self, moves: Moves, arrived: Arrived, now: datetime) -> None:
        """Note what has come for the run while it waited."""
        told: set[str] = set()
        for wait in arrived.ended:
            self._waits.pop(wait.interrupt_id, None)
            signal = arrived.signals.get(wait.id)
            step = self._step_of(wait)
            if signal is None:
                self._lapse(moves, wait, step, now)
            elif signal.id not in told:
                told.add(signal.id)
                moves.tell("SIGNAL_RECEIVED", {"signalType": signal.type, "signalId": signal.key}, step)
        moves.events.extend(ignored_events(arrived))
        moves.changes.extend(taken_changes(arrived))
        moves.tell("WORKFLOW_RESUMED", {"reason": _reason(arrived)})
        moves.changes.append(Delete(Wait, [Condition("id", "in", [wait.id for wait in arrived.ended])]))
        still = {wait.step_id for wait in self._waits.values()}
        awake = [one for one in self._steps.values() if one.status is StepStatus.WAITING and one.id not in still]
        for step in awake:
            step.status = StepStatus.RUNNING
            moves.changes.append(Update(StepRun, step.id, {"status": step.status, "wait_until": None}))

    def _lapse(self, moves: Moves, wait: Wait, step: StepRun | None, now: datetime) -> None:
        moves.tell("TIMER_FIRED", {"dueAt": iso(wait.due_at or now)}, step)
        approval = approval_of(wait)
        if approval is not None:
            moves.tell("APPROVAL_EXPIRED", {"approvalId": approval.id}, step)
            undecided = where(id=approval.id, decision=None)
            moves.changes.append(UpdateAll(Approval, undecided, {"decision": "expired", "decided_at": now}))

    def _step_of(self, wait: Wait) -> StepRun | None:
        return next((step for step in self._steps.values() if step.id == wait.step_id), None)

    # -- steps

    def _breaks(self, commit: Commit) -> bool:
        """Whether the run was told to stop before its next superstep."""
        before: Sequence[str] = self.run.settings.get("interruptBefore") or ()
        after: Sequence[str] = self.run.settings.get("interruptAfter") or ()
        due = {task.node for task in commit.checkpoint.frontier}
        done = {result.task.node for result in commit.results} - {START}
        return bool(due.intersection(before) or done.intersection(after) or "*" in before or (done and "*" in after))

    def _start(self, moves: Moves, tasks: Sequence[Task], superstep: int, now: datetime, *, halts: bool) -> None:
        for position, task in enumerate(tasks):
            if task.id in self._steps:
                continue
            step = self._new_step(task, superstep, position, now, halts=halts)
            moves.changes.append(Insert(step))
            if not halts:
                moves.tell("STEP_STARTED", {"stepType": step.type}, step)
            moves.values["current_step"] = task.node

    def _new_step(self, task: Task, superstep: int, position: int, now: datetime, *, halts: bool) -> StepRun:
        step = self._steps[task.id] = StepRun(
            id=digest("step", self.run.id, task.id),
            run_id=self.run.id,
            task_id=task.id,
            name=task.node,
            type=self._types.get(task.node, "node"),
            status=StepStatus.PENDING if halts else StepStatus.RUNNING,
            superstep=superstep,
            position=position,
            started_at=None if halts else now,
        )
        return step

    def _complete(self, moves: Moves, task: Task, now: datetime) -> None:
        step = self._steps.get(task.id)
        if task.node == START or step is None or step.status is StepStatus.COMPLETED:
            return
        self._keep_logs(moves, step, now)
        self._take_more(moves, task.id)
        told = self._reported.pop(task.id, {})
        step.status, step.completed_at, step.output = StepStatus.COMPLETED, now, told.get("output")
        values = {"status": step.status, "completed_at": now, "output": step.output, "error": None}
        moves.changes.append(Update(StepRun, step.id, values))
        took = (now - step.started_at).total_seconds() * 1000 if step.started_at is not None else 0
        moves.tell("STEP_COMPLETED", {"durationMs": round(took)}, step)
        for name in told.get("skipped", ()):
            self._skip(moves, str(name), step, now)

    def _skip(self, moves: Moves, name: str, by: StepRun, now: datetime) -> None:
        identity = digest("skipped", self.run.id, by.task_id, name)
        skipped = StepRun(
            id=identity,
            run_id=self.run.id,
            task_id=identity,
            name=name,
            type=self._types.get(name, "node"),
            status=StepStatus.SKIPPED,
            superstep=by.superstep,
            position=by.position,
            completed_at=now,
        )
        moves.changes.append(Insert(skipped))
        moves.tell("STEP_SKIPPED", {"by": by.name}, skipped)

    def _retry(self, moves: Moves, task_id: str, failed: int, due: datetime, now: datetime) -> None:
        step = self._steps.get(task_id)
        if step is None:
            return
        self._keep_logs(moves, step, now)
        self._retries[task_id] = due
        error = self._told_of(task_id)
        step.attempt, step.error = failed + 1, error
        moves.changes.append(Update(StepRun, step.id, {"attempt": step.attempt, "error": error}))
        moves.tell("STEP_FAILED", {"attempt": failed, "error": error}, step)
        moves.tell("STEP_RETRY_SCHEDULED", {"attempt": step.attempt, "at": iso(due)}, step)

    def _fail(self, moves: Moves, task_id: str, text: str, now: datetime) -> None:
        step = self._steps.get(task_id)
        if step is None:
            return
        self._keep_logs(moves, step, now)
        error = self._told_of(task_id) or error_from_text(text)
        step.status, step.error, step.completed_at = StepStatus.FAILED, error, now
        moves.changes.append(Update(StepRun, step.id, {"status": step.status, "error": error, "completed_at": now}))
        moves.tell("STEP_FAILED", {"attempt": step.attempt, "error": error}, step)

    def _keep_logs(self, moves: Moves, step: StepRun, now: datetime) -> None:
        """What an attempt at a step has logged and printed."""
        lines = self.logs.take(step.task_id) if self.logs is not None else ()
        if not lines:
            return
        self._log_parts += 1
        kept = StepLog(
            id=f"{digest('log', self.run.id, self.token)}{self._log_parts:x}",
            run_id=self.run.id,
            step_id=step.id,
            step_name=step.name,
            attempt=step.attempt,
            number=self._log_parts,
            lines=list(lines),
            created_at=now,
        )
        moves.changes.append(Insert(kept))

    def _told_of(self, task_id: str) -> dict[str, Json] | None:
        error = self.failures.get(task_id)
        return error_json(error) if error is not None else None

    def _ask(self, moves: Moves, task_id: str, questions: Sequence[Interrupt], now: datetime) -> None:
        """A task waits: what it waits for is in the ledger too, once."""
        step = self._steps.get(task_id)
        asked = [one for one in questions if one.id not in self._waits]
        if step is None or not asked:
            return
        self._keep_logs(moves, step, now)
        self._take_more(moves, task_id)
        for question in asked:
            wait = self._waits[question.id] = wait_of(self.run, step, question, now)
            moves.changes.append(Insert(wait))
            self._announce_wait(moves, wait, step)
        due = next_due((wait for wait in self._waits.values() if wait.step_id == step.id), None)
        event = next((one.event for one in asked if one.event is not None), None)
        step.status = StepStatus.WAITING
        values = {"status": step.status, "wait_until": due, "signal_type": event}
        moves.changes.append(Update(StepRun, step.id, values))

    def _announce_wait(self, moves: Moves, wait: Wait, step: StepRun) -> None:
        due = iso(wait.due_at) if wait.due_at is not None else None
        moves.tell("STEP_WAITING", {"waitId": wait.id, "kind": wait.kind, "signalType": wait.event, "until": due}, step)
        if due is not None:
            moves.tell("TIMER_SCHEDULED", {"dueAt": due}, step)
        approval = approval_of(wait)
        if approval is not None:
            # A run that failed beside it, and is tried again, asks once more.
            moves.changes += [Delete(Approval, where(id=approval.id)), Insert(approval)]
            told = {"approvalId": approval.id, "prompt": approval.prompt, "contentKey": approval.content_key}
            moves.tell("APPROVAL_REQUESTED", told, step)
            moves.changes.append(Ending.announced(self.run, "approval.requested", told, wait.created_at))

    # -- the end

    def _end(self, moves: Moves, log: Log, now: datetime, values: Mapping[str, Any]) -> None:
        """How the run came to rest, as its log says."""
        told: Any = next(entry[4] for entry in log.entries if entry[0] == "run_finished")
        status: str = told["status"]
        if status == "completed":
            self._complete_run(moves, as_json(self.output_of(values)), now)
        elif self.stopping == "release":
            moves.values.update(claim=None, worker_id=None, due_at=now)
        elif self.stopping == "timeout":
            self._end_as(moves, Ending.failed(_out_of_time(self.run)), now)
        elif self.stopping == "pause" or status == "paused":
            self._pause(moves)
        elif status == "waiting":
            self._wait(moves, now)
        else:
            self._end_as(moves, Ending.failed(self._error_of_end(told.get("error", status))), now)

    def output_of(self, values: Mapping[str, Any]) -> Any:
        """What the graph shows of its last state; set by the recorder, which knows the program."""
        return dict(values)

    def _complete_run(self, moves: Moves, output: Json, now: datetime) -> None:
        size = len(to_json(output))
        if size <= self.max_output:
            self._end_as(moves, Ending.completed(output), now)
            return
        told = f"The result has {size} bytes as JSON, and {self.max_output} are kept. Let the graph show less of it."
        self._end_as(moves, Ending.failed({"message": told, "code": "OUTPUT_TOO_LARGE"}), now)

    def _pause(self, moves: Moves) -> None:
        moves.values.update(status=RunStatus.PAUSED, claim=None, worker_id=None, due_at=None)
        moves.tell("WORKFLOW_PAUSED", {"reason": "paused"})

    def _wait(self, moves: Moves, now: datetime) -> None:
        waits = list(self._waits.values())
        due = next_due(waits, self.run.deadline_at)
        moves.values.update(status=RunStatus.WAITING, claim=None, worker_id=None, due_at=due)
        moves.tell("WORKFLOW_PAUSED", {"reason": _reason_to_wait(waits)})
        # What came while the run was at work has not been looked at: then it is due at once.
        moves.ends.extend(due_again(self.run.id, now))

    def _end_as(self, moves: Moves, ending: Ending, now: datetime) -> None:
        moves.values.update(ending.values(now))
        moves.tell(ending.event, ending.payload)
        if ending.status is RunStatus.FAILED:
            stopped = {"message": "It was stopped because the run has failed.", "code": "STOPPED"}
            unfinished = [StepStatus.RUNNING, StepStatus.WAITING]
            conditions = [Condition("run_id", "=", self.run.id), Condition("status", "in", unfinished)]
            values = {"status": StepStatus.FAILED, "error": stopped, "completed_at": now}
            moves.ends.append(UpdateAll(StepRun, conditions, values))
        if self._waits:
            gone = {"decision": "expired" if self.stopping == "timeout" else "cancelled", "decided_at": now}
            moves.ends.append(Delete(Wait, where(run_id=self.run.id)))
            moves.ends.append(UpdateAll(Approval, where(run_id=self.run.id, decision=None), gone))
        ended = replace(self.run, **ending.values(now))
        moves.ends.extend(ended_changes(ended, ending, now))
        if self.on_end is not None:
            moves.ends.extend(self.on_end(ended, ending, now))

    def _error_of_end(self, text: str) -> dict[str, Json]:
        """What is known of the error that ended the run: that of the task which failed last, if it is that one."""
        for task_id, error in reversed(self.failures.items()):
            if text == f"{type(error).__name__}: {error}":
                step = self._steps.get(task_id)
                return error_json(error, step=step.name if step is not None else None)
        return error_from_text(text)

    def _error(self, error: BaseException) -> dict[str, Json]:
        if self.stopping == "timeout":
            return _out_of_time(self.run)
        return error_json(error)

    # -- what tasks have noted

    def _note(self, moves: Moves, entries: Iterable[Entry], now: datetime) -> None:
        for kind, _, node, task_id, data in entries:
            if kind == "model_called":
                self._note_model_call(moves, node, task_id, data, now)
            elif kind == "tool_called":
                moves.events.append(NewEvent("TOOL_CALLED", as_json(data), self._step_id(task_id)))
            elif kind == "step_reported" and task_id is not None:
                self._note_report(moves, task_id, data)

    def _note_report(self, moves: Moves, task_id: str, data: Mapping[str, Any]) -> None:
        event = data.get("event")
        if event is not None:
            step = self._steps.get(task_id)
            moves.tell(event["type"], as_json(event.get("payload") or {}), step)
        told = {key: value for key, value in data.items() if key != "event"}
        if told:
            self._reported.setdefault(task_id, {}).update(as_json(told))

    def _note_model_call(
        self, moves: Moves, node: str | None, task_id: str | None, data: Mapping[str, Any], now: datetime
    ) -> None:
        self._calls += 1
        step_id = self._step_id(task_id)
        call = ModelCall(
            id=f"{digest('call', self.run.id, self.token)}{self._calls:x}",
            run_id=self.run.id,
            workspace_id=self.run.workspace_id,
            step_id=step_id,
            step_name=node,
            model=str(data.get("model") or ""),
            input_tokens=int(data.get("input_tokens") or 0),
            output_tokens=int(data.get("output_tokens") or 0),
            cost=float(data.get("cost") or 0.0),
            details=as_json(data),
            created_at=now,
        )
        moves.changes.append(Insert(call))
        moves.values["total_cost"] = Plus(moves.values.get("total_cost", Plus(0.0)).amount + call.cost)
        told = {
            "stepName": node,
            "model": call.model,
            "inputTokens": call.input_tokens,
            "outputTokens": call.output_tokens,
            "costUsd": call.cost,
        }
        moves.events.append(NewEvent("LLM_CALL_COMPLETED", told, step_id))

    def _step_id(self, task_id: str | None) -> str | None:
        step = self._steps.get(task_id) if task_id is not None else None
        return step.id if step is not None else None


def _open_questions(log: Log | None) -> frozenset[str]:
    """What a run that comes to rest waits for: questions that were answered may be asked along with them."""
    told = [entry[4] for entry in log.entries if entry[0] == "interrupted"] if log is not None else []
    return frozenset(one["id"] for questions in told for one in questions)


def _type_of(node: Any) -> str:
    return node.metadata.get(_KIND) or ("subgraph" if node.is_subgraph else "node")


def _reason(arrived: Arrived) -> str:
    return "timer" if not arrived.signals else "signal"


def _reason_to_wait(waits: Sequence[Wait]) -> str:
    """What a run waits for, in one word."""
    if any(approval_of(wait) is not None for wait in waits):
        return "approval"
    kinds = {wait.kind for wait in waits}
    return "external_event" if "event" in kinds else "question" if "question" in kinds else "timer"


def _out_of_time(run: Run) -> dict[str, Json]:
    until = iso(run.deadline_at) if run.deadline_at is not None else "its deadline"
    return {"message": f"The run had time until {until}, and was not through.", "code": "RUN_TIMEOUT"}

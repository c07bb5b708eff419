"""Recording of real runs, so that a later version of the graph can replay them.

    with record(app, "refund.replay") as recorded:
        recorded.invoke({"order": 7}, thread_id="t")
        recorded.invoke(Command(resume="yes"), thread_id="t")

`record` is a context manager because a recording is seldom a single call: a run is interrupted and resumed, a thread
continues, a test awaits coroutines. The block receives a copy of the graph with the same methods (`ainvoke`, `stream`,
`batch`, `iter`, `send_event`, `update_state`), so a test uses `recorded` in place of `app`. The file is written
atomically when the block ends without an error; a block that raises leaves an existing file unchanged. Use
`pytest.raises` inside the block to record a run that fails.

The recorder listens to events like an instrument, including the events of subgraphs, and does not affect the run: if a
value cannot be recorded, the error is raised at the end of the block, not in a node. If nodes are deterministic and
calls start in the same order, recording the same calls twice gives identical files, because `stable_ids` replaces
random ids. Only one thing depends on timing: which concurrent tasks had completed when one of them failed, or when the
run was cancelled.

A run has at most one open superstep, whose tasks are recorded as they finish. When the superstep is completed, the new
state is recorded as a difference from the previous state. If the run stops within the superstep (because of a failure,
an interrupt or a cancellation), outcomes that had no effect are removed, because a task may finish after its run has
stopped waiting for it. A checkpoint that was not saved by a recorded run is recorded when a run that depends on it
starts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, cast

from statewright.channels import MISSING, difference
from statewright.checkpoint import NO_ARG, BranchKey, Checkpoint, Pending, SavedCheckpoint, Task, TaskResult
from statewright.errors import InternalError, InvalidConfig
from statewright.events import Event, EventKind
from statewright.futures import resolve
from statewright.graph import START
from statewright.ids import CheckpointId
from statewright.runtime import CompiledGraph
from statewright.runtime.core.commit import saved_form, saved_form_of_result
from statewright.runtime.invocation.outcome import Failure, Outcome, Pause, RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.scope import current_scope
from statewright.serde.serde import Serde
from statewright.testing.replay.file import replay_serde, write_recording
from statewright.testing.replay.forms import (
    checkpoint_to_record,
    end_to_record,
    input_to_record,
    outcome_to_record,
    plain_deferred,
    plain_joins,
    plain_tasks,
)
from statewright.testing.replay.records import (
    RecordedOutcome,
    RecordedRun,
    RecordedState,
    RecordedStep,
    RecordedTask,
    Recording,
)
from statewright.testing.replay.stable_ids import StableIds

OUTCOME_TIMEOUT = 1.0
"""Seconds to wait for the outcome of a task that another thread is about to report."""


@contextmanager
def record(app: CompiledGraph, file: str | os.PathLike[str], *, serde: Serde | None = None) -> Generator[CompiledGraph]:
    """Record the runs of a graph in a `with` block; the file is written when the block ends without an error.

    Values are stored as in checkpoints, so they may have the types that the state declares. For other types, pass a
    `serde` that knows them. It must not be the serde of a saver, because the classes of the recording are registered
    with it. Raises SerdeError for values that cannot be stored, and InvalidConfig if no run was recorded.
    """
    recorder = Recorder(replay_serde(app, serde))
    recorded = copy(app)
    # The listeners of a graph are set when it is compiled. The copy gets more listeners, and `app` stays as it is.
    recorded._listeners = (*app._listeners, *recorder.listeners)  # pyright: ignore[reportPrivateUsage]
    yield recorded
    recorder.write(Path(file))


class _OpenRun:
    """A run that is being recorded."""

    def __init__(self, run: Run, record: RecordedRun) -> None:
        self.run = run
        self.record = record
        self.values: dict[str, Any] = {}
        """The last recorded state."""
        self.step: RecordedStep | None = None
        """The current superstep; None between supersteps."""
        self.tasks: dict[str, RecordedTask] = {}
        """The tasks of the current superstep, by task id."""
        self.outcomes: dict[str, Outcome] = {}
        """The outcomes of the tasks that have finished in the current superstep, by task id."""
        self.spends_alone = True
        """True if no other run uses the same budget concurrently, so that what is spent can be attributed to tasks."""
        spent = run.spending_if_counted
        self.tokens, self.cost = (spent.tokens, spent.cost) if spent is not None else (0, 0.0)
        """The tokens and costs that had been spent from the budget when the current superstep started."""
        self.was_over_budget = False
        """True if the budget had been exceeded when the previous superstep started."""


class Recorder:
    """Creates a recording from the events of runs. Events may be emitted on any thread."""

    def __init__(self, serde: Serde) -> None:
        self._serde = serde
        self._ids = StableIds()
        self._calls: list[RecordedRun] = []
        self._runs: dict[tuple[str, str], _OpenRun] = {}
        """Runs by run id and namespace."""
        self._tasks: dict[str, tuple[_OpenRun, RecordedTask]] = {}
        """The tasks of all current supersteps, with their runs, by task id."""
        self._uncertain_branches: set[BranchKey] = set()
        """Branches on which a run was abandoned, so their heads may be newer than the last recorded commit."""
        self._error: Exception | None = None
        """The first exception of a listener."""
        self._changed = threading.Condition(threading.RLock())
        """Notified when the outcome of a task is recorded. Its lock protects all attributes."""

    @property
    def listeners(self) -> list[tuple[EventKind, Callable[[Event], None]]]:
        """The listeners for an `EventEmitter`."""
        methods: dict[EventKind, Callable[[_OpenRun, Event], None]] = {
            "input_applied": self._input_applied,
            "superstep_started": self._superstep_started,
            "task_finished": self._task_finished,
            "superstep_finished": self._superstep_finished,
            "committed": self._committed,
            "run_finished": self._run_finished,
        }
        listeners: list[tuple[EventKind, Callable[[Event], None]]] = [
            (kind, self._keep_errors(self._with_open_run(method))) for kind, method in methods.items()
        ]
        return [("run_started", self._keep_errors(self._run_started)), *listeners]

    def _keep_errors(self, listen: Callable[[Event], None]) -> Callable[[Event], None]:
        """Return a listener that keeps its exceptions for `write`, because they must not fail the run."""

        def listen_safely(event: Event) -> None:
            with self._changed:
                if self._error is not None:
                    return  # nothing will be written
                try:
                    listen(event)
                except Exception as error:
                    self._error = error

        return listen_safely

    def _with_open_run(self, listen: Callable[[_OpenRun, Event], None]) -> Callable[[Event], None]:
        """Return a listener that calls `listen` with the run of the event, and ignores runs that are not recorded."""

        def listen_to_run(event: Event) -> None:
            open_run = self._runs.get((event.run_id, event.namespace))
            if open_run is not None:
                listen(open_run, event)

        return listen_to_run

    def write(self, path: Path) -> None:
        """Write the recording. Raises the first exception that a listener raised, if there was one."""
        with self._changed:
            if self._error is not None:
                raise self._error
            calls = [call for call in self._calls if call.has_started]
            if not calls:
                raise InvalidConfig(f"No run was recorded in {path}. Call the graph that record() yields.")
            for call in calls:
                call.normalize()
            write_recording(path, Recording(calls), self._ids, self._serde)

    def _snapshot(self, value: Any, path: str) -> Any:
        """Return a copy of a value, as it will be read from the file. Raises SerdeError if it cannot be stored."""
        return self._serde.decode(self._serde.encode(value, path))

    # -- runs

    def _run_started(self, event: Event) -> None:
        scope = current_scope()
        assert scope is not None
        run = scope.run
        caller = self._tasks.get(_caller_of(run)) if run.nested else None
        if run.nested and caller is None:
            return  # the caller's superstep has ended, so the result of this subgraph is not used
        earlier = self._runs.get((event.run_id, event.namespace))
        if earlier is not None and earlier.record.end is None and earlier.record.steps:
            self._abandon(earlier)
        number = caller[0].record.number if caller is not None else 1 + len(self._calls)
        self._ids.add_run(run.run_id, number)
        record = self._new_record(run, number, event.data)
        open_run = self._runs[event.run_id, event.namespace] = _OpenRun(run, record)
        open_run.spends_alone = caller is None or (caller[0].spends_alone and len(caller[0].tasks) == 1)
        self._record_existing(open_run)
        (caller[1].calls if caller is not None else self._calls).append(record)

    def _new_record(self, run: Run, number: int, value: Any) -> RecordedRun:
        settings = run.settings
        return RecordedRun(
            number=number,
            graph=run.program.graph.name,
            version=run.program.graph.version,
            namespace=self._ids.replace_in_text(run.namespace),
            input=self._snapshot(input_to_record(run, value), "input"),
            thread_id=settings.thread_id,
            branch=settings.branch,
            checkpoint_id=settings.checkpoint_id,
            saves=run.saver is not None,
            saves_on_exit=run.saves_on_exit,
            recursion_limit=settings.recursion_limit,
            breaks_before=sorted(run.config.breaks_before),
            breaks_after=sorted(run.config.breaks_after),
            on_unfinished=run.config.on_unfinished,
            budget=run.config.budget,
            keeps_calls=run.config.keeps_calls,
            parent_task=_caller_of(run) if run.nested else None,
        )

    def _record_existing(self, open_run: _OpenRun) -> None:
        """Record the checkpoints that the run depends on and that no recorded run has saved."""
        run, record = open_run.run, open_run.record
        self._ids.add_task(Task(START, NO_ARG, run.origin(run.run_id, -1), 0))
        head = self._load(run, None)
        if head is None:
            return
        named_id = run.settings.checkpoint_id
        if named_id is not None and not run.nested and named_id not in self._ids:
            self._record_checkpoint(open_run, self._load(run, named_id), "named")
        assert run.branch_key is not None
        # If a recorded run saved the head, the head already has a stable id, and the replay of that run saves it again.
        if head.id not in self._ids or run.branch_key in self._uncertain_branches:
            self._uncertain_branches.discard(run.branch_key)
            self._record_checkpoint(open_run, head, "head")
        record.head = head.id

    def _load(self, run: Run, checkpoint_id: str | None) -> SavedCheckpoint | None:
        if run.saver is None or run.branch_key is None:
            return None
        thread_id, namespace, branch = run.branch_key
        named_id = CheckpointId(checkpoint_id) if checkpoint_id is not None else None
        return resolve(run.saver.load(thread_id, namespace=namespace, branch=branch, checkpoint_id=named_id))

    def _record_checkpoint(self, open_run: _OpenRun, saved: SavedCheckpoint | None, role: str) -> None:
        """Record an existing checkpoint and its ids. `role` is `head`, or `named` if the call names the checkpoint."""
        if saved is None:
            return
        checkpoint = saved.checkpoint
        path = (open_run.record.number, self._ids.replace_in_text(open_run.run.namespace), role)
        self._ids.add_existing(checkpoint.id, *path)
        for index, task in enumerate((*checkpoint.frontier, *(deferred.task for deferred in checkpoint.deferred))):
            self._ids.add_existing(task.origin, *path, index)
        self._add_task_ids(open_run.run, checkpoint)
        for task_id, questions in saved.pending.interrupts.items():
            for question in questions:
                self._ids.add_interrupt(question.id, task_id)
        open_run.record.existing_checkpoints.append(checkpoint_to_record(saved, self._serde))

    def _run_finished(self, open_run: _OpenRun, event: Event) -> None:
        if open_run.step is not None:
            self._close_step(open_run, _effective_tasks(open_run, event.data, self._load(open_run.run, None)))
        open_run.record.end = end_to_record(open_run.run, event.data)

    def _abandon(self, open_run: _OpenRun) -> None:
        """Close a run that will not emit any more events."""
        if open_run.run.branch_key is not None:
            self._uncertain_branches.add(open_run.run.branch_key)
        if open_run.step is not None:
            open_run.record.steps.remove(open_run.step)
            self._close_step(open_run, {})

    # -- supersteps

    def _committed(self, open_run: _OpenRun, event: Event) -> None:
        self._add_commit_ids(open_run, event.data.checkpoint)

    def _input_applied(self, open_run: _OpenRun, event: Event) -> None:
        self._add_commit_ids(open_run, event.data)
        state = self._state(open_run, event.data)
        open_run.record.steps.append(RecordedStep(event.data.step, [], state, is_input=True))

    def _superstep_started(self, open_run: _OpenRun, event: Event) -> None:
        tasks: tuple[Task, ...] = event.data
        path = f"superstep {event.step}"
        saved = saved_form(open_run.run.program, Checkpoint("", event.step, {}, tasks)).frontier
        records = [RecordedTask(task.node, self._snapshot(task.arg, f"{path}, {task.node}"), task.id) for task in saved]
        is_over_budget = open_run.run.spending_if_counted is not None and open_run.run.spending_if_counted.is_over
        # When a budget is exceeded, the next superstep runs its fallback node; the supersteps after it are ordinary.
        runs_fallback = is_over_budget and not open_run.was_over_budget
        open_run.was_over_budget = is_over_budget
        open_run.step = RecordedStep(event.step, records, out_of_budget=runs_fallback)
        open_run.record.steps.append(open_run.step)
        for task, record in zip(tasks, records, strict=True):
            self._ids.add_task(task)
            open_run.tasks[task.id] = record
            self._tasks[task.id] = (open_run, record)

    def _task_finished(self, open_run: _OpenRun, event: Event) -> None:
        outcome: Outcome = event.data
        task = open_run.tasks.get(outcome.task.id)
        if task is None:
            return  # the superstep has ended without this task, so the outcome has no effect
        task.attempts = event.attempt
        task.journal = self._journal(open_run.run, outcome.task)
        path = f"superstep {open_run.step.number if open_run.step else 0}, {task.node}"
        task.outcome = self._snapshot(self._recorded_outcome(open_run.run, outcome), path)
        open_run.outcomes[task.id] = outcome
        self._changed.notify_all()

    def _recorded_outcome(self, run: Run, outcome: Outcome) -> RecordedOutcome:
        if isinstance(outcome, Pause):
            for question in outcome.interrupts:
                self._ids.add_interrupt(question.id, outcome.task.id)
        return outcome_to_record(
            saved_form_of_result(run.program, outcome) if isinstance(outcome, TaskResult) else outcome
        )

    def _journal(self, run: Run, task: Task) -> list[list[Any]]:
        """Return the saved results of a task's steps and of its calls of @task functions, as `RecordedTask.journal`."""
        entries = [
            [task_id.removeprefix(task.id), name, ordinal, arguments, value]
            for (task_id, name, ordinal), (arguments, value) in list(run.journal.items())
            if task_id.partition(":")[0] == task.id
        ]
        return self._snapshot(sorted(entries, key=lambda entry: entry[:3]), f"journal of {task.node}")

    def _superstep_finished(self, open_run: _OpenRun, event: Event) -> None:
        if open_run.step is None:
            return
        # With durability `sync`, the thread that saves the outcomes emits their events, perhaps just after this event.
        self._changed.wait_for(lambda: open_run.outcomes.keys() == open_run.tasks.keys(), OUTCOME_TIMEOUT)
        for task_id, task in open_run.tasks.items():
            if task_id not in open_run.outcomes:
                raise InternalError(f"The outcome of node {task.node!r} in superstep {event.step} was not reported.")
        self._add_commit_ids(open_run, event.data)
        open_run.step.after = self._state(open_run, event.data)
        self._close_step(open_run, open_run.outcomes)

    def _close_step(self, open_run: _OpenRun, effective_tasks: Iterable[str]) -> None:
        """End the current superstep, and drop the outcomes of all tasks whose ids are not in `effective_tasks`."""
        step, spent = cast(RecordedStep, open_run.step), open_run.run.spending_if_counted
        for task_id, task in open_run.tasks.items():
            self._tasks.pop(task_id, None)
            if task_id not in effective_tasks:
                task.outcome, task.attempts, task.journal = None, 1, []
        if spent is not None and open_run.spends_alone:
            inner_steps = [inner_step for task in step.tasks for call in task.calls for inner_step in call.steps]
            step.tokens = spent.tokens - open_run.tokens - sum(inner_step.tokens for inner_step in inner_steps)
            step.cost = spent.cost - open_run.cost - sum(inner_step.cost for inner_step in inner_steps)
            open_run.tokens, open_run.cost = spent.tokens, spent.cost
        open_run.step, open_run.tasks, open_run.outcomes = None, {}, {}

    # -- checkpoints

    def _add_commit_ids(self, open_run: _OpenRun, checkpoint: Checkpoint) -> None:
        """Add the id of a checkpoint that a recorded run has produced, and the ids of its tasks."""
        if open_run.run.saver is not None:
            number, namespace = open_run.record.number, open_run.run.namespace
            self._ids.add_commit(checkpoint.id, number, namespace, checkpoint.step)
        self._add_task_ids(open_run.run, checkpoint)

    def _add_task_ids(self, run: Run, checkpoint: Checkpoint) -> None:
        for task in (*checkpoint.frontier, *(deferred.task for deferred in checkpoint.deferred)):
            self._ids.add_task(task)
        # The tasks to which the writes of the next input, and of the next `update_state`, will be attributed.
        self._ids.add_task(Task(START, NO_ARG, run.origin(checkpoint.id, checkpoint.step), 0))
        self._ids.add_task(Task(START, NO_ARG, checkpoint.id, 0))

    def _state(self, open_run: _OpenRun, after: Checkpoint) -> RecordedState:
        """Return a record of the state after a superstep: the differences from the previous state, and the frontier."""
        saved = saved_form(open_run.run.program, after)
        before, values = open_run.values, saved.values
        changes: dict[str, Any] = {name: MISSING for name in before if name not in values}
        for name, value in values.items():
            if name not in before or before[name] is not value:
                changes[name] = difference(before.get(name, MISSING), value)
        open_run.values = values
        return RecordedState(
            changes=self._snapshot(changes, "state"),
            frontier=self._snapshot(plain_tasks(saved.frontier), "frontier"),
            deferred=self._snapshot(plain_deferred(saved.deferred), "deferred tasks"),
            joins=plain_joins(open_run.run.program, saved.joins),
        )


def _caller_of(run: Run) -> str:
    """Return the id of the task whose node called a subgraph, directly or through a @task function."""
    return str(run.metadata.get("parent_task", "")).partition(":")[0]


def _effective_tasks(open_run: _OpenRun, end: RunOutcome, saved: SavedCheckpoint | None) -> set[str]:
    """Return the ids of the tasks of an incomplete superstep whose outcomes ended the run or were saved.

    Other tasks may have finished too, but only after the run had stopped waiting for them.
    """
    outcomes = open_run.outcomes
    failures = {task_id: outcome for task_id, outcome in outcomes.items() if isinstance(outcome, Failure)}
    if all(failure.is_parent_command for failure in failures.values()) and end.status != "cancelled":
        return set(outcomes)
    pending = saved.pending if saved is not None else Pending()
    causes = {task_id for task_id, failure in failures.items() if failure.error is end.error}
    return causes | (outcomes.keys() & (pending.completed.keys() | pending.interrupts.keys()))

"""Recording of real runs, so that a later version of the graph can replay them.

    with record(app, "refund.replay") as recorded:
        recorded.invoke({"order": 7}, thread_id="t")
        recorded.invoke(Command(resume="yes"), thread_id="t")

`record` is a context manager because a recording is seldom a single call: a run is interrupted and resumed, a thread
continues, a test awaits coroutines. The block receives a copy of the graph with the same methods (`ainvoke`, `stream`,
`batch`, `iter`, `send_event`, `update_state`), so a test uses `recorded` in place of `app`. The file is written
atomically when the block ends without an error; a block that raises leaves an existing file unchanged. Use
`pytest.raises` inside the block to record a run that fails.

The recorder is a listener of events, like the instruments of `compile(instruments=...)`, and also receives the events
of subgraphs. It does not affect the run: if a value cannot be recorded, the error is raised at the end of the block,
not in a node. If nodes are deterministic and calls start in the same order, recording the same calls twice gives
identical files, because `stable_ids` replaces random ids. Only one thing depends on timing: which concurrent tasks had
completed when one of them failed, or when the run was cancelled.

A run has at most one current superstep, whose tasks are recorded as they finish. When the superstep is completed, the
new state is recorded as a difference from the previous state. If the run stops within the superstep (because of a
failure, an interrupt or a cancellation), a task may finish after the run has stopped waiting for it. Such outcomes have
no effect, and are removed. A checkpoint that was not saved by a recorded run is recorded when a run that depends on it
starts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from statewright.checkpoint import NO_ARG, BranchKey, Checkpoint, Pending, SavedCheckpoint, Task, TaskResult
from statewright.checkpoint.model import outermost_task_id
from statewright.errors import InternalError, InvalidConfig
from statewright.events import Event, EventKind
from statewright.futures import resolve
from statewright.graph import START
from statewright.ids import CheckpointId
from statewright.runtime import CompiledGraph
from statewright.runtime.core.apply import deltas_of_values, rewritten_fields
from statewright.runtime.core.commit import saved_form, saved_form_of_result, saved_form_of_tasks
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

_OUTCOME_TIMEOUT: Final = 1.0
"""Seconds to wait for the outcome of a task that another thread is about to report."""


@contextmanager
def record(app: CompiledGraph, file: str | os.PathLike[str], *, serde: Serde | None = None) -> Generator[CompiledGraph]:
    """Record the runs of a graph in a `with` block; the file is written when the block ends without an error.

    Values are stored as in checkpoints, so they may have the types that the state declares. For other types, pass a
    `serde` that knows them. It must not be the serde of a saver, because the classes of the recording are registered
    with it. Raises SerdeError for values that cannot be stored, and InvalidConfig if no run was recorded.
    """
    recorder = Recorder(replay_serde(app, serde))
    yield app._with_listeners(recorder.listeners)  # pyright: ignore[reportPrivateUsage]
    recorder.write(Path(file))


class _CurrentStep:
    """The current superstep of a run."""

    def __init__(self, record: RecordedStep, task_ids: Iterable[str]) -> None:
        self.record = record
        self.tasks = dict(zip(task_ids, record.tasks, strict=True))
        """The tasks, by task id."""
        self.outcomes: dict[str, Outcome] = {}
        """The outcomes of the tasks that have finished, by task id."""


class _OpenRun:
    """A run that is being recorded."""

    def __init__(self, run: Run, record: RecordedRun, caller: _OpenRun | None, calling_task: RecordedTask | None):
        self.run = run
        self.record = record
        self.caller = caller
        self.calling_task = calling_task
        """The task of `caller` that made this call; both are None for a call outside any node."""
        self.values: dict[str, Any] = {}
        """The last recorded state."""
        self.step: _CurrentStep | None = None
        """The current superstep; None between supersteps."""
        self.shares_budget = False
        """True if another task of the caller's superstep, or another call by the same task, has run concurrently."""
        spent = run.spending_if_counted
        self.tokens_before, self.cost_before = (spent.tokens, spent.cost) if spent is not None else (0, 0.0)
        """The tokens and costs that had been spent from the budget when the current superstep started."""
        self.was_over_budget = spent is not None and spent.is_over
        """True if the budget had been exceeded when the previous superstep started, or when the run started."""

    @property
    def has_budget_to_itself(self) -> bool:
        """True if no other run uses the same budget concurrently, so that what is spent can be attributed to tasks."""
        return not self.shares_budget and (self.caller is None or self.caller.has_budget_to_itself)


class Recorder:
    """Creates a recording from the events of runs. Events may be emitted on any thread."""

    def __init__(self, serde: Serde) -> None:
        self._serde = serde
        self._ids = StableIds()
        self._calls: list[RecordedRun] = []
        self._runs: dict[tuple[str, str], _OpenRun] = {}
        """The runs that have not ended, by run id and namespace."""
        self._tasks: dict[tuple[str, str], tuple[_OpenRun, RecordedTask]] = {}
        """The tasks of all current supersteps, with their runs, by run id and task id.

        Task ids are not enough, because the tasks of a thread and of its copy have the same ids.
        """
        self._uncertain_branches: set[BranchKey] = set()
        """Branches on which a run was abandoned, so their heads may be newer than the last recorded commit."""
        self._error: Exception | None = None
        """The first exception of a listener."""
        self._changed = threading.Condition(threading.RLock())
        """Notified when the outcome of a task is recorded, and when a listener has failed. Its lock protects all
        attributes."""

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
                    # A listener that waits releases the lock, so another one may have failed meanwhile.
                    self._error = self._error or error
                    self._changed.notify_all()

        return listen_safely

    def _with_open_run(self, listen: Callable[[_OpenRun, Event], None]) -> Callable[[Event], None]:
        """Return a listener that calls `listen` with the run of the event, and ignores runs that are not recorded."""

        def listen_to_run(event: Event) -> None:
            open_run = self._runs.get((event.run_id, event.namespace))
            if open_run is not None:
                listen(open_run, event)

        return listen_to_run

    def write(self, file: Path) -> None:
        """Write the recording. Raises the first exception that a listener raised, if there was one."""
        with self._changed:
            if self._error is not None:
                raise self._error
            calls = [call for call in self._calls if call.has_started]
            if not calls:
                raise InvalidConfig(f"No run was recorded in {file}. Call the graph that record() yields.")
            for call in calls:
                call.normalize()
            write_recording(file, Recording(calls), self._ids, self._serde)

    def _snapshot(self, value: Any, where: str) -> Any:
        """Return a copy of a value, as it will be read from the file.

        Raises SerdeError if the value cannot be stored; `where` is the beginning of its place in the message.
        """
        return self._serde.decode(self._serde.encode(value, where))

    # -- runs

    def _run_started(self, event: Event) -> None:
        scope = current_scope()
        assert scope is not None
        run = scope.run
        caller, calling_task = self._tasks.get((run.run_id, _caller_of(run)), (None, None))
        if run.nested and caller is None:
            return  # the caller's superstep has ended, so the result of this subgraph is not used
        earlier = self._runs.pop((event.run_id, event.namespace), None)
        if earlier is not None:
            self._abandon(earlier)
        number = caller.record.number if caller is not None else 1 + len(self._calls)
        self._ids.add_run(run.run_id, number)
        record = self._new_record(run, number, event.data)
        open_run = _OpenRun(run, record, caller, calling_task)
        self._note_shared_budget(open_run)
        self._runs[event.run_id, event.namespace] = open_run
        self._record_existing(open_run)
        (calling_task.calls if calling_task is not None else self._calls).append(record)

    def _note_shared_budget(self, open_run: _OpenRun) -> None:
        """Note that a call that starts is concurrent with other tasks of its caller, or other calls of its task."""
        if open_run.caller is None:
            return
        calling_step = cast(_CurrentStep, open_run.caller.step)
        other_calls = [other for other in self._runs.values() if other.calling_task is open_run.calling_task]
        for other in other_calls:
            other.shares_budget = True
        open_run.shares_budget = bool(other_calls) or len(calling_step.tasks) > 1

    def _new_record(self, run: Run, number: int, graph_input: Any) -> RecordedRun:
        settings = run.settings
        return RecordedRun(
            number=number,
            graph=run.program.graph.name,
            version=run.program.graph.version,
            namespace=self._ids.replace_in_text(run.namespace),
            input=self._snapshot(input_to_record(run, graph_input), "input"),
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
        self._add_input_task_id(run, run.run_id, -1)  # used if the thread is empty
        head = self._load(run, None)
        if head is None:
            return
        named_id = run.settings.checkpoint_id
        # A subgraph may have received the config of the calling run, which names a checkpoint of that run.
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
        # The stable ids are digests of these values, so the words `head` and `named` are part of the file format.
        id_path = (open_run.record.number, self._ids.replace_in_text(open_run.run.namespace), role)
        self._ids.add_existing(checkpoint.id, *id_path)
        for index, task in enumerate(_tasks_of(checkpoint)):
            self._ids.add_existing(task.origin, *id_path, index)
        self._add_task_ids(open_run.run, checkpoint)
        for task_id, questions in saved.pending.interrupts.items():
            for question in questions:
                self._ids.add_interrupt(question.id, task_id)
        open_run.record.existing_checkpoints.append(checkpoint_to_record(saved, self._serde))

    def _run_finished(self, open_run: _OpenRun, event: Event) -> None:
        if open_run.step is not None:
            # Only the saver knows which results were saved. It works: a run whose saver has failed emits no such event.
            saved = self._load(open_run.run, None)
            self._close_step(open_run, _ids_of_effective_outcomes(open_run.step, event.data, saved))
        open_run.record.end = end_to_record(open_run.run, event.data)
        del self._runs[event.run_id, event.namespace]

    def _abandon(self, open_run: _OpenRun) -> None:
        """Close a subgraph call that has not ended, because its task makes the call again, e.g. after a timeout."""
        if not open_run.record.steps:
            return
        if open_run.run.branch_key is not None:
            self._uncertain_branches.add(open_run.run.branch_key)
        if open_run.step is not None:
            open_run.record.steps.pop()  # so that what it has spent is attributed to the calling task
            self._close_step(open_run, ())

    # -- supersteps

    def _committed(self, open_run: _OpenRun, event: Event) -> None:
        self._add_commit_ids(open_run, event.data.checkpoint)

    def _input_applied(self, open_run: _OpenRun, event: Event) -> None:
        self._add_commit_ids(open_run, event.data)
        state = self._record_state(open_run, event.data, ())
        open_run.record.steps.append(RecordedStep(event.data.step, [], state, is_input=True))

    def _superstep_started(self, open_run: _OpenRun, event: Event) -> None:
        if open_run.step is not None:
            # A call of one of its tasks has used up the budget, so the run goes on to the `on_budget` node.
            self._close_step(open_run, open_run.step.outcomes)
        tasks: tuple[Task, ...] = event.data
        where = f"superstep {event.step}"
        records = [
            RecordedTask(task.node, self._snapshot(task.arg, f"{where}, {task.node}"), task.id)
            for task in saved_form_of_tasks(open_run.run.program, tasks)
        ]
        is_over_budget = open_run.run.spending_if_counted is not None and open_run.run.spending_if_counted.is_over
        # When a budget is exceeded, the next superstep runs its fallback node; the supersteps after it are ordinary.
        runs_fallback = is_over_budget and not open_run.was_over_budget
        open_run.was_over_budget = is_over_budget
        record = RecordedStep(event.step, records, out_of_budget=runs_fallback)
        open_run.record.steps.append(record)
        open_run.step = _CurrentStep(record, [task.id for task in tasks])
        for task in tasks:
            self._ids.add_task(task)
            self._tasks[event.run_id, task.id] = (open_run, open_run.step.tasks[task.id])

    def _task_finished(self, open_run: _OpenRun, event: Event) -> None:
        outcome: Outcome = event.data
        step = open_run.step
        if step is None or (record := step.tasks.get(outcome.task.id)) is None:
            return  # the superstep has ended without this task, so the outcome has no effect
        record.attempts = event.attempt
        record.journal = self._journal(open_run.run, outcome.task)
        where = f"superstep {step.record.number}, {record.node}"
        record.outcome = self._snapshot(self._recorded_outcome(open_run.run, outcome), where)
        step.outcomes[outcome.task.id] = outcome
        self._changed.notify_all()

    def _recorded_outcome(self, run: Run, outcome: Outcome) -> RecordedOutcome:
        if isinstance(outcome, Pause):
            for question in outcome.interrupts:
                self._ids.add_interrupt(question.id, outcome.task.id)
        return outcome_to_record(
            saved_form_of_result(run.program, outcome) if isinstance(outcome, TaskResult) else outcome
        )

    def _journal(self, run: Run, task: Task) -> list[list[Any]]:
        """Return the results of a task's steps and of its calls of @task functions, as `RecordedTask.journal`."""
        entries = [
            [task_id.removeprefix(task.id), name, ordinal, arguments, value]
            for (task_id, name, ordinal), (arguments, value) in list(run.journal.items())  # other tasks may add entries
            if outermost_task_id(task_id) == task.id
        ]
        return self._snapshot(sorted(entries, key=lambda entry: entry[:3]), f"journal of {task.node}")

    def _superstep_finished(self, open_run: _OpenRun, event: Event) -> None:
        step = open_run.step
        if step is None:
            return
        # With durability `sync`, the thread that saves the outcomes emits their events, perhaps just after this event.
        self._changed.wait_for(
            lambda: self._error is not None or step.outcomes.keys() == step.tasks.keys(), _OUTCOME_TIMEOUT
        )
        if self._error is not None:
            return
        for task_id, record in step.tasks.items():
            if task_id not in step.outcomes:
                raise InternalError(f"The outcome of node {record.node!r} in superstep {event.step} was not reported.")
        self._add_commit_ids(open_run, event.data)
        results = [cast(TaskResult, step.outcomes[task_id]) for task_id in step.tasks]
        step.record.after = self._record_state(open_run, event.data, results)
        self._close_step(open_run, step.outcomes)

    def _close_step(self, open_run: _OpenRun, effective: Container[str]) -> None:
        """End the current superstep, and drop the outcomes of all tasks whose ids are not in `effective`."""
        step = cast(_CurrentStep, open_run.step)
        for task_id, record in step.tasks.items():
            self._tasks.pop((open_run.run.run_id, task_id), None)
            if task_id not in effective:
                record.outcome, record.attempts, record.journal = None, 1, []
        _attribute_spending(open_run, step.record)
        open_run.step = None

    # -- checkpoints

    def _add_commit_ids(self, open_run: _OpenRun, checkpoint: Checkpoint) -> None:
        """Add the id of a checkpoint that a recorded run has produced, and the ids of its tasks.

        This is called for several events, because none of them is emitted for every checkpoint: without a saver, and
        with durability `exit`, the end of a superstep is not committed.
        """
        if open_run.run.saver is not None:
            number, namespace = open_run.record.number, open_run.run.namespace
            self._ids.add_commit(checkpoint.id, number, namespace, checkpoint.step)
        self._add_task_ids(open_run.run, checkpoint)

    def _add_task_ids(self, run: Run, checkpoint: Checkpoint) -> None:
        """Add the ids of the tasks that a checkpoint makes due, and of tasks that may be based on it."""
        for task in _tasks_of(checkpoint):
            self._ids.add_task(task)
        self._add_input_task_id(run, checkpoint.id, checkpoint.step)
        self._ids.add_task(Task(START, NO_ARG, checkpoint.id, 0))  # the writes of the next `update_state`

    def _add_input_task_id(self, run: Run, checkpoint_id: str, step: int) -> None:
        """Add the id of the task to which the writes of the next input are attributed.

        `checkpoint_id` and `step` are those of the checkpoint to which the input is applied. The checkpoint of an empty
        thread has the id of the run and the step -1.
        """
        self._ids.add_task(Task(START, NO_ARG, run.origin(checkpoint_id, step), 0))

    def _record_state(self, open_run: _OpenRun, after: Checkpoint, results: Sequence[TaskResult]) -> RecordedState:
        """Return a record of the state after a superstep: the differences from the previous state, and the frontier.

        `results` are those of the superstep. The state is remembered for the next differences.
        """
        program = open_run.run.program
        saved = saved_form(program, after)
        rewritten = frozenset(rewritten_fields(program, results, open_run.values, saved.values))
        changes = deltas_of_values(program, open_run.values, saved.values, rewritten)
        open_run.values = saved.values
        return RecordedState(
            changes=self._snapshot(changes, "state"),
            frontier=self._snapshot(plain_tasks(saved.frontier), "frontier"),
            deferred=self._snapshot(plain_deferred(saved.deferred), "deferred tasks"),
            joins=plain_joins(program, saved.joins),
        )


def _caller_of(run: Run) -> str:
    """Return the id of the task whose node called a subgraph, directly or through a @task function; "" for a root."""
    return outermost_task_id(str(run.metadata.get("parent_task", ""))) if run.nested else ""


def _tasks_of(checkpoint: Checkpoint) -> list[Task]:
    """Return the tasks that a checkpoint makes due now or later."""
    return [*checkpoint.frontier, *(deferred.task for deferred in checkpoint.deferred)]


def _attribute_spending(open_run: _OpenRun, step: RecordedStep) -> None:
    """Record what the tasks of a superstep have spent, without the amounts recorded in the subgraphs they called.

    If other runs spend from the same budget concurrently, nothing is recorded, and a calling superstep has the amount.
    """
    spent = open_run.run.spending_if_counted
    if spent is None or not open_run.has_budget_to_itself:
        return
    inner_steps = [inner_step for task in step.tasks for call in task.calls for inner_step in _all_steps(call)]
    step.tokens = spent.tokens - open_run.tokens_before - sum(inner_step.tokens for inner_step in inner_steps)
    step.cost = spent.cost - open_run.cost_before - sum(inner_step.cost for inner_step in inner_steps)
    open_run.tokens_before, open_run.cost_before = spent.tokens, spent.cost


def _all_steps(run: RecordedRun) -> Iterable[RecordedStep]:
    """Return the supersteps of a run, and of the subgraphs that its tasks called, at every depth."""
    for step in run.steps:
        yield step
        for task in step.tasks:
            for call in task.calls:
                yield from _all_steps(call)


def _ids_of_effective_outcomes(step: _CurrentStep, end: RunOutcome, saved: SavedCheckpoint | None) -> Container[str]:
    """Return the ids of the tasks of an incomplete superstep whose outcomes ended the run or were saved.

    After a failure or a cancellation, other tasks may have finished when the run had stopped waiting for them.
    """
    outcomes = step.outcomes
    failures = {task_id: outcome for task_id, outcome in outcomes.items() if isinstance(outcome, Failure)}
    # Without a failure or a cancellation, the run waited for all tasks. A Command for the caller is not a failure.
    if all(failure.is_parent_command for failure in failures.values()) and end.status != "cancelled":
        return outcomes
    pending = saved.pending if saved is not None else Pending()
    causes = {task_id for task_id, failure in failures.items() if failure.error is end.error}
    return causes | (outcomes.keys() & (pending.completed.keys() | pending.interrupts.keys()))

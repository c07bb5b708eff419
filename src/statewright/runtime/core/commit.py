"""The commit of a superstep: the checkpoint, its deltas from the parent, and the log entries that are saved with it.

Every superstep is saved, and a saver in memory needs little more than the checkpoint. So the parts that only other
savers need are properties, which are computed when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from statewright.channels import Added
from statewright.checkpoint import (
    BranchKey,
    Checkpoint,
    Commit,
    DeferredTask,
    Interrupt,
    Source,
    Task,
    TaskResult,
    TimedTask,
)
from statewright.errors import GraphDrained
from statewright.events import Entry, Log
from statewright.graph import START, Send
from statewright.ids import CheckpointId, TaskId
from statewright.runtime.core.apply import deltas_of_results, deltas_of_values, mutable_fields
from statewright.runtime.core.program import Program
from statewright.runtime.invocation.outcome import OutcomeStatus
from statewright.runtime.invocation.run import Run


class StepCommit(Commit):
    """The commit of a superstep, of an input, or of an update from outside a run."""

    # There is no reference to the run, because savers in memory keep commits, and would keep each run's context alive.
    __slots__ = (
        "_before",
        "_end_entries",
        "_extra_metadata",
        "_log_entries",
        "_memories",
        "_program",
        "_results",
        "_run_metadata",
        "_start_entries",
        "_values_before_migration",
        "rewritten",
        "spans_supersteps",
    )

    def __init__(
        self,
        run: Run,
        before: Checkpoint | None,
        after: Checkpoint,
        results: Sequence[TaskResult],
        source: Source,
        created_at: datetime,
    ) -> None:
        assert run.branch_key is not None
        self._program = run.program
        self._run_metadata = run.metadata
        self._before = before
        self._results = results
        self._start_entries = () if run.holds_thread else started_entries(run)
        self._end_entries = finished_entries(run, "completed") if source == "loop" and after.is_complete else ()
        self._values_before_migration, run.values_before_migration = run.values_before_migration, None
        self._memories = dict(run.memories) if run.memories else None
        self._extra_metadata: Mapping[str, Any] | None = None
        self._log_entries = run.take_log_entries() if run.log_buffer else ()
        self.spans_supersteps = False
        """True if several supersteps are saved as one commit, so that the deltas do not follow from `results`."""
        self.rewritten: Iterable[str] = ()
        """The fields that these supersteps have changed, except lists that have only grown."""
        self.branch_key = run.branch_key
        self.parent_id = self.expected = CheckpointId(before.id) if before is not None else None
        self.checkpoint = after if not run.program.untracked_channels else saved_form(run.program, after)
        self.source = source
        self.run_id = run.run_id
        self.created_at = created_at
        self.pending = self.hold = self.size = None
        self.dropped_namespaces = self.siblings = ()
        self.graph_version = run.program.graph.version
        self.overlaps = run.overlaps and (run.holds_thread or run.nested)  # the write that claims the thread is awaited

    @property
    def deltas(self) -> Mapping[str, Any] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        before = self._before
        if before is None:
            return None
        if self.spans_supersteps or self._values_before_migration is not None:
            # A migration may have changed values in place, so all mutable values are stored in full.
            rewritten = (
                self.rewritten if self._values_before_migration is None else mutable_fields(self.checkpoint.values)
            )
            old = self._values_before_migration or before.values
            return deltas_of_values(self._program, old, self.checkpoint.values, frozenset(rewritten))
        return deltas_of_results(self._program, self._results, before.values, self.checkpoint.values)

    @property
    def reported(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        before = self._before.reported if self._before is not None else ()
        after = self.checkpoint.reported
        if not (before or after):
            return None
        if after[: len(before)] == before:
            added = [[name, update] for name, update in after[len(before) :]]
            return Added(added) if added else None
        return [[name, update] for name, update in after]

    @property
    def metadata(self) -> Mapping[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        nodes = [result.task.node for result in self._results]
        memories = {"memories": self._memories} if self._memories else {}
        return {"nodes": nodes, **self._run_metadata, **memories, **(self._extra_metadata or {})}

    def retarget(self, branch_key: BranchKey, checkpoint: Checkpoint, expected: CheckpointId | None) -> None:
        """Turn this into a commit on another branch, which is saved together with the run's own commit.

        It does not claim the thread, and logs nothing.
        """
        self.branch_key, self.expected, self.checkpoint = branch_key, expected, checkpoint
        self.hold = self._memories = None
        self._start_entries = ()

    def add_metadata(self, metadata: Mapping[str, Any] | None) -> None:
        self._extra_metadata = metadata

    @property
    def results(self) -> Sequence[TaskResult]:
        return self._results

    @property
    def finished(self) -> Sequence[TaskId]:
        """The ids of the tasks whose results the commit applies."""
        return [result.task.id for result in self._results]

    @property
    def log(self) -> Log | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        entries = (*self._start_entries, *self._log_entries)
        if self.source == "loop":
            entries = (*entries, *superstep_entries(self._results, self.checkpoint.step), *self._end_entries)
        return Log(self.run_id, self.created_at, entries) if entries else None


# -- the forms that are saved: without values of untracked channels


def saved_form(program: Program, checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint as it is saved: without untracked values in the state and in the arguments of Sends."""
    unsaved = program.untracked_channels
    if not unsaved:
        return checkpoint
    return Checkpoint(
        checkpoint.id,
        checkpoint.step,
        {name: value for name, value in checkpoint.values.items() if name not in unsaved},
        saved_form_of_tasks(program, checkpoint.frontier),
        tuple(
            DeferredTask(
                _task_without_untracked(deferred.task, unsaved), gather=deferred.gather, sender=deferred.sender
            )
            for deferred in checkpoint.deferred
        ),
        checkpoint.joins,
        tuple((name, update) for name, update in checkpoint.reported if name not in unsaved),
    )


def saved_form_of_tasks(program: Program, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """Return tasks as they are saved: without untracked values in the arguments of Sends."""
    unsaved = program.untracked_channels
    return tuple(_task_without_untracked(task, unsaved) for task in tasks) if unsaved else tasks


def saved_form_of_result(program: Program, result: TaskResult) -> TaskResult:
    """Return a result as it is saved: without untracked values, and without the state that only the run needs."""
    unsaved = program.untracked_channels
    writes = result.writes
    if not unsaved:
        return TaskResult(result.task, writes, result.targets, goto=result.goto)
    saved_writes = (
        {name: update for name, update in writes.items() if name not in unsaved}
        if isinstance(writes, dict)
        else [(name, update) for name, update in writes if name not in unsaved]
    )
    targets = [
        _send_without_untracked(target, unsaved) if isinstance(target, Send) else target for target in result.targets
    ]
    return TaskResult(_task_without_untracked(result.task, unsaved), saved_writes, targets, goto=result.goto)


def _send_without_untracked(send: Send, unsaved: frozenset[str]) -> Send:
    return Send(send.node, _arg_without_untracked(send.arg, unsaved), gather=send.gather, timeout=send.timeout)


def _task_without_untracked(task: Task, unsaved: frozenset[str]) -> Task:
    arg = _arg_without_untracked(task.arg, unsaved)
    if arg is task.arg:
        return task
    if type(task) is TimedTask:
        return TimedTask(task.node, arg, task.origin, task.position, task.timeout)
    return Task(task.node, arg, task.origin, task.position)


def _arg_without_untracked(arg: Any, unsaved: frozenset[str]) -> Any:
    """Return the argument of a Send without untracked values. It may be the list of gathered arguments."""
    if isinstance(arg, Mapping):
        return {name: value for name, value in cast(Mapping[str, Any], arg).items() if name not in unsaved}
    if type(arg) is list:
        return [_arg_without_untracked(item, unsaved) for item in cast(list[Any], arg)]
    return arg


# -- the log of a run: its durable events, each saved in the transaction that it describes
#
# An entry records an event and its task. It does not repeat values that were written, which are in the checkpoints.

Entries = tuple[Entry, ...]


def started_entries(run: Run) -> Entries:
    """Return the first entry in the log of a run; no entry for a subgraph, which shares the log of the root run."""
    return () if run.nested else (("run_started", 0, None, None, {"graph": run.program.graph.name}),)


def superstep_entries(results: Sequence[TaskResult], step: int) -> Entries:
    """Return the entries for the end of a superstep: one for each task, in task order, and one for the superstep."""
    tasks = [result.task for result in results if result.task.node != START]
    end: Entry = ("superstep_finished", step, None, None, None)
    return (*(("task_finished", step, task.node, task.id, None) for task in tasks), end)


def finished_entries(run: Run, status: OutcomeStatus, error: BaseException | None = None) -> Entries:
    """Return the last entry in the log of a run; no entry for a subgraph."""
    if run.nested:
        return ()
    data: dict[str, Any] = {"status": status}
    if error is not None:
        data["error"] = error_text(error)
    if isinstance(error, GraphDrained):
        data["drained"] = True
    if run.unfinished_joins and status == "completed":
        data["unfinished_joins"] = list(run.unfinished_joins)
    return (("run_finished", 0, None, None, data),)


def interrupted_entries(run: Run, questions: Sequence[Interrupt]) -> Entries:
    """Return the entry for questions that are open when the run stops; no entry if there are none."""
    data = [{"id": question.id, "kind": question.kind} for question in questions]
    return (("interrupted", 0, None, None, data),) if questions and not run.nested else ()


def error_text(error: BaseException) -> str:
    """Return the class and the message of an error as text."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # raised by `__str__` of a user-defined class
        return f"{type(error).__name__} (its __str__ failed)"

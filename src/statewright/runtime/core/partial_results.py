"""Stop in the middle of a superstep: determine the outcome of the run, and save the outcomes of tasks that have ended.

The head of the thread does not move. Results, questions and errors of tasks are saved beside it, as `Pending`. A later
run of the same superstep loads them and executes only the other tasks.

A result that cannot be stored must not hide the error that ended the run. So if the saver refuses all results together,
each result is saved separately, and for each that cannot be stored a note is added to the error.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Any, cast

from statewright.checkpoint import Checkpoint, Pending, TaskResult
from statewright.errors import RunCancelled, SerdeError, add_note
from statewright.events import Entry, Log
from statewright.graph import ParentCommand, ToParent
from statewright.ids import TaskId
from statewright.runtime.core.commit import error_text, saved_form_of_result
from statewright.runtime.core.effects import Effect, Emit, SaveCallers, SavePending, Stamp
from statewright.runtime.core.events import run_event
from statewright.runtime.core.saving import caused_by, save_pending, save_uncommitted
from statewright.runtime.invocation.outcome import Failure, Outcome, Pause, RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.liveness import reason_to_stop
from statewright.runtime.tasks.scope import Scope


def stop_in_superstep(
    run: Run, checkpoint: Checkpoint, results: Sequence[Outcome | None]
) -> Generator[Effect, Any, RunOutcome]:
    """Save the partial results of a superstep that cannot be completed, and return the outcome of the run."""
    outcome = _outcome_of(run, checkpoint, results)
    yield from save_partial_results(run, outcome, results)
    if outcome.status in ("waiting", "paused") and run.emitter is not None and run.emitter.wants("interrupted"):
        yield Emit(run_event("interrupted", run, outcome.interrupts, checkpoint.step + 1))
    return outcome


def _outcome_of(run: Run, checkpoint: Checkpoint, results: Sequence[Outcome | None]) -> RunOutcome:
    """Return the outcome of a run from the outcomes of its tasks, of which at least one is not a TaskResult."""
    failure = _first_failure(results)
    if failure is not None:
        status = "cancelled" if isinstance(failure.error, RunCancelled) else "failed"
        return RunOutcome(status, checkpoint, error=failure.error, node=failure.task.node)
    if None in results:
        reason = reason_to_stop(run)  # None if the driver was cancelled itself, and will raise the CancelledError
        return RunOutcome("cancelled", checkpoint, error=RunCancelled(reason) if reason is not None else None)
    if not any(type(result) is Pause for result in results):
        return RunOutcome("failed", checkpoint, error=_commands_of(results))
    questions = [question for result in results if type(result) is Pause for question in result.interrupts]
    still_open = tuple(question.shown() for question in questions if question.id not in run.answers)
    return RunOutcome("waiting" if still_open else "paused", checkpoint, interrupts=still_open)


def _first_failure(results: Sequence[Outcome | None]) -> Failure | None:
    """Return the failure that the run reports: the first in task order, preferably one that is not secondary."""
    failures = [result for result in results if type(result) is Failure and not result.is_parent_command]
    return min(failures, key=lambda failure: failure.is_secondary, default=None)


def _commands_of(results: Sequence[Outcome | None]) -> ParentCommand:
    """Return the Commands for the calling graph from all tasks, in task order."""
    commands = [
        (command, result.task.node)
        for result in results
        if type(result) is Failure
        for command in cast(ParentCommand, result.error).commands
    ]
    return ParentCommand(*(command for command, _ in commands), nodes=[node for _, node in commands])


def save_failure(run: Run, checkpoint: Checkpoint, failure: Failure) -> Generator[Effect, Any, None]:
    """Save the failure of a task while sibling tasks are still running."""
    if run.saver is None or run.saves_on_exit:
        return
    task, text = failure.task, error_text(failure.error)
    _, now = yield Stamp(checkpoint.step)
    entry: Entry = ("task_finished", checkpoint.step + 1, task.node, task.id, {"error": text})
    pending = Pending(errors={TaskId(task.id): text}, attempts={TaskId(task.id): 0})
    yield SavePending(checkpoint.id, pending, run.lease_request(now), Log(run.run_id, now, (entry,)))
    failure.is_saved = True


def save_partial_results(
    run: Run, outcome: RunOutcome, results: Sequence[Outcome | None]
) -> Generator[Effect, Any, None]:
    """Save the end of a run, and the outcomes of the tasks of its last superstep."""
    if run.saver is None:
        return
    with caused_by(outcome.error):
        yield from save_uncommitted(run, outcome.checkpoint)
        yield from _save_outcomes(run, outcome, results)


def _save_outcomes(run: Run, outcome: RunOutcome, results: Sequence[Outcome | None]) -> Generator[Effect, Any, None]:
    pending = _pending_of(run, outcome, results)
    if run.ended_calls:
        yield from _save_ended_calls(run, outcome, pending.completed)
    log_buffer = run.log_buffer
    try:
        yield from save_pending(run, outcome.checkpoint, pending, outcome)
    except SerdeError:
        if outcome.status not in ("failed", "cancelled"):
            raise
        run.log_buffer = log_buffer
        yield from _save_one_by_one(run, outcome, pending)


def _pending_of(run: Run, outcome: RunOutcome, results: Sequence[Outcome | None]) -> Pending:
    """Return the outcomes of tasks in the form in which they are saved."""
    pending = Pending()
    for result in results:
        if result is None:
            continue
        task_id = TaskId(result.task.id)
        if type(result) is TaskResult:
            pending.completed[task_id] = saved_form_of_result(run.program, result)
        elif type(result) is Pause:
            pending.interrupts[task_id] = result.interrupts
            if settled := run.settled_by(task_id, result.interrupts):
                pending.settled[task_id] = settled
        elif type(result) is Failure and result.is_parent_command:
            # A Command for the calling graph is kept until the sibling tasks have ended, unless it ends this run.
            if not isinstance(outcome.error, ParentCommand):
                commands = map(ToParent, cast(ParentCommand, result.error).commands)
                pending.completed[task_id] = TaskResult(result.task, {}, tuple(commands), goto=True)
        elif type(result) is Failure:
            if not result.is_saved:
                pending.errors[task_id] = error_text(result.error)
            # The next run counts the attempts at this task from the beginning.
            pending.attempts[task_id] = 0
    return pending


def _save_ended_calls(run: Run, outcome: RunOutcome, completed: Collection[TaskId]) -> Generator[Effect, Any, None]:
    """Save the ends of subgraph calls whose tasks have no result, so that the calls are not repeated with the tasks."""
    due = {task.id for task in outcome.checkpoint.frontier}.difference(completed)
    for call in list(run.ended_calls.values()):
        task = cast(Scope, call.run.caller).task
        if task is None or task.planned_id not in due:
            continue
        try:
            yield SaveCallers(call)
        except SerdeError as error:
            if outcome.status not in ("failed", "cancelled"):
                raise
            if outcome.error is not None:
                add_note(
                    outcome.error, f"The result of a subgraph call made by node {task.node!r} was not saved: {error}"
                )


def _save_one_by_one(run: Run, outcome: RunOutcome, pending: Pending) -> Generator[Effect, Any, None]:
    """Save every result that can be stored. For each that cannot, add a note to the error of the run."""
    nodes = {task.id: task.node for task in outcome.checkpoint.frontier}
    for task_id in [*pending.completed, *pending.interrupts]:
        try:
            yield from save_pending(run, outcome.checkpoint, pending.of([task_id]))
        except SerdeError as error:
            if outcome.error is not None:
                add_note(outcome.error, f"The result of node {nodes.get(task_id)!r} was not saved: {error}")
    failures = Pending(errors=pending.errors, attempts=pending.attempts)
    yield from save_pending(run, outcome.checkpoint, failures, outcome)

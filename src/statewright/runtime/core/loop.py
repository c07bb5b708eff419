"""The loop of a run: plan, run, apply, save.

`supersteps` is a generator. It yields effects, receives their results, and decides; drivers perform the effects, with
plain calls or on an event loop. It never awaits, sleeps or touches a file, so there is one engine instead of a
synchronous and an asynchronous one, and tests can drive it by hand.

Each turn runs the tasks of the frontier and ends in one of three ways:

- All tasks succeeded: their writes are applied, the next frontier follows from their targets, and both are saved as one
  commit. The tasks that ran are consumed by it, together with everything that was saved for them meanwhile.
- A task failed, asks a question, or was cancelled: the head of the thread stays where it is. Results, questions and
  errors of the other tasks are saved beside it as `Pending`, so that a later run of this superstep repeats nothing.
- The run must stop between two supersteps: a breakpoint, a limit, a budget, or a request to cancel or drain.

With durability="exit" commits are postponed: `Run.uncommitted_from` is the last checkpoint that was saved, and
`save_uncommitted` saves the way from there as one commit when the run stops. The body of the loop is not split into
functions: a call of a generator costs more than most of its paragraphs, and a superstep takes four microseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeGuard, cast

from statewright.checkpoint import NO_ARG, Checkpoint, Pending, Source, Task, TaskResult
from statewright.errors import (
    BudgetExceeded,
    GraphDrained,
    GraphRecursionError,
    RunCancelled,
    SerdeError,
    add_note,
)
from statewright.events import Entry, Log
from statewright.graph import ParentCommand, ToParent
from statewright.ids import CheckpointId, TaskId
from statewright.runtime.core.apply import apply_results, rewritten_fields, with_report
from statewright.runtime.core.commit import (
    StepCommit,
    error_text,
    finished_entries,
    interrupted_entries,
    saved_form_of_result,
    started_entries,
)
from statewright.runtime.core.effects import Effect, Emit, RunGenerator, RunTasks, Save, SaveCallers, SavePending, Stamp
from statewright.runtime.core.events import describe_unfinished, run_event
from statewright.runtime.core.frontier import due_tasks, half_reached, matches
from statewright.runtime.core.program import Program
from statewright.runtime.invocation.limits import overrun
from statewright.runtime.invocation.outcome import Failure, Outcome, Pause, RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.scope import Scope
from statewright.runtime.tasks.standing import reason_to_stop

LAST_STEPS = 5
"""The number of supersteps that a GraphRecursionError lists."""
NOTHING_SAVED: Final = Checkpoint("", -1, {}, ())
"""Stands for the last saved checkpoint of a call that has saved nothing yet."""
UNUSED: Final = datetime.min.replace(tzinfo=UTC)
"""The time of commits that are not saved."""


def supersteps(run: Run, checkpoint: Checkpoint, pending: Pending | None) -> Generator[Effect, Any, RunOutcome]:
    """Advance a run by supersteps until no task is due, or the run has to stop.

    `pending` is what an earlier run has saved for the tasks of the frontier, if it stopped in this superstep.
    """
    program, watch, saves, nested = run.program, run.watch, run.saver is not None, run.nested
    breaks_after, near_limit = run.config.breaks_after, run.stop - LAST_STEPS
    control = run.control
    guarded = control is not None or bool(run.config.breaks_before) or run.config.budget is not None or nested
    effect = RunTasks(checkpoint, checkpoint.frontier)
    outcomes: Any  # one for each task; all are TaskResults once every task has succeeded
    last_steps: list[tuple[Task, ...]] = []
    while checkpoint.frontier:
        # Before the step: limits, budgets, breakpoints, and requests to stop.
        if guarded or checkpoint.step >= near_limit:
            # Anything saved for this frontier means that a run has been here before: its breakpoints are passed.
            stopped = _check_stop(run, checkpoint, last_steps, passed=bool(pending))
            if stopped is not None and stopped.status == "paused":
                return (yield from _pause(run, stopped))
            if stopped is not None and (way_out := budget_exit(run, stopped)) is not None:
                checkpoint, pending = (yield from _reroute(run, checkpoint, way_out)), None
                continue
            if stopped is not None:
                return stopped
            last_steps = [*last_steps[1 - LAST_STEPS :], checkpoint.frontier]
        # Run the tasks that have no result yet.
        effect.checkpoint = checkpoint
        effect.tasks = due_tasks(checkpoint, pending) if pending else checkpoint.frontier
        if watch is not None and watch.wants("superstep_started"):
            yield Emit(run_event("superstep_started", run, effect.tasks, checkpoint.step + 1))
        outcomes = None  # frees the outcomes of the last step before this one runs: with many tasks they are large
        outcomes, commit_id, now = yield effect
        if pending:
            outcomes = _with_earlier_outcomes(checkpoint, pending, effect.tasks, outcomes)
        if not (len(outcomes) == 1 and type(outcomes[0]) is TaskResult) and not all_succeeded(outcomes):
            rest = yield from _stop_in_superstep(run, checkpoint, outcomes)
            if (way_out := budget_exit(run, rest)) is None:
                return rest
            checkpoint, pending = (yield from _reroute(run, checkpoint, way_out)), None
            continue
        # Apply their writes, and compute the next frontier.
        try:
            if not saves:  # as `unsaved_id` does: a call would cost a hundredth of the superstep
                commit_id = f"{run.run_id}.{checkpoint.step + 1}"
            origin = commit_id if not nested else run.origin(commit_id, checkpoint.step + 1)
            following = apply_results(program, checkpoint, outcomes, commit_id, origin)
            if nested:
                with_report(program, checkpoint, following, outcomes)
        except Exception as error:
            rest = RunOutcome("failed", checkpoint, error=error)
            yield from _save_partial_results(run, rest, outcomes)
            return rest
        if not following.frontier:
            if control is not None and control.cancel_reason is not None:
                # A plain function could not be interrupted. The run is not completed: it resumes from its result.
                rest = RunOutcome("cancelled", checkpoint, error=RunCancelled(control.cancel_reason))
                yield from _save_partial_results(run, rest, outcomes)
                return rest
            if program.graph.joins:
                run.unfinished_joins = _unfinished_joins(program, checkpoint, outcomes)
        # Save both as one commit.
        if saves:
            yield from _save(run, checkpoint, following, outcomes, pending, now)
        if run.journal and not run.shares_journal:
            run.journal = {}  # the commit has consumed its tasks
        if run.ended_calls:
            run.ended_calls.clear()
        pending = None
        stops = breaks_after and following.frontier and matches(breaks_after, checkpoint.frontier)
        checkpoint = following
        if watch is not None and watch.wants("superstep_finished"):
            yield Emit(run_event("superstep_finished", run, checkpoint, checkpoint.step))
        if stops:
            return (yield from _pause(run, RunOutcome("paused", checkpoint)))
    return RunOutcome("completed", checkpoint)


def _unfinished_joins(program: Program, before: Checkpoint, results: Sequence[TaskResult]) -> tuple[str, ...]:
    """Describe the joins that the last superstep leaves incomplete."""
    joins = half_reached(program, before.joins, results)
    return tuple(describe_unfinished(join, joins[join.key]) for join in program.graph.joins if join.key in joins)


def _check_stop(
    run: Run, checkpoint: Checkpoint, last_steps: Sequence[tuple[Task, ...]], *, passed: bool
) -> RunOutcome | None:
    """Return the outcome with which the run must stop before its next superstep, or None if it may continue."""
    if checkpoint.step >= run.stop and not run.program.uncounted.issuperset(task.node for task in checkpoint.frontier):
        return RunOutcome("failed", checkpoint, error=_recursion_error(run, last_steps))
    control = run.control
    if control is not None and control.cancel_reason is not None:
        return RunOutcome("cancelled", checkpoint, error=RunCancelled(control.cancel_reason))
    if run.parent is not None and (reason := reason_to_stop(run)) is not None:
        return RunOutcome("cancelled", checkpoint, error=RunCancelled(reason))
    if control is not None and control.drain_reason is not None:
        return RunOutcome("failed", checkpoint, error=GraphDrained(control.drain_reason))
    if run.config.budget is not None and not run.spending.is_over:
        found = overrun(run.config.budget, run.spending, checkpoint.frontier)
        if found is not None:
            names = [sorted({task.node for task in tasks}) for tasks in last_steps]
            return RunOutcome("failed", checkpoint, error=BudgetExceeded(*found, last_steps=names))
        run.spending.begin_step(checkpoint.frontier)
    if run.config.breaks_before and not passed and matches(run.config.breaks_before, checkpoint.frontier):
        return RunOutcome("paused", checkpoint)
    return None


def budget_exit(run: Run, rest: RunOutcome) -> str | None:
    """Return the node that ends the run properly, if it stopped because its budget is exhausted."""
    return budget_exit_for(run, rest.error)


def budget_exit_for(run: Run, error: BaseException | None) -> str | None:
    """Return the node that ends the run properly after this error, if the error is an exhausted budget."""
    budget = run.config.budget
    if not isinstance(error, BudgetExceeded) or run.nested or budget is None or run.spending.is_over:
        return None
    return budget.on_budget


def _reroute(run: Run, checkpoint: Checkpoint, node: str) -> Generator[Effect, Any, Checkpoint]:
    """Replace the frontier by `node`."""
    run.spending.is_over = True
    step = checkpoint.step + 1
    commit_id, now = yield from draw_stamp(run, step)
    due = (Task(node, NO_ARG, commit_id, 0),)
    after = Checkpoint(commit_id, step, checkpoint.values, due, reported=checkpoint.reported)
    if run.saver is not None:
        run.open_namespaces |= call_namespaces(run, checkpoint.frontier)
        notes = {"discarded": sorted({task.node for task in checkpoint.frontier})}
        yield from save_uncommitted(run, checkpoint)
        yield from save_commit(run, commit_of(run, checkpoint, after, [], now, metadata=notes))
    return after


def _pause(run: Run, rest: RunOutcome) -> RunGenerator:
    """Record that the run stops at a breakpoint, so that the next run passes it."""
    if run.saver is not None:
        yield from save_uncommitted(run, rest.checkpoint)
        yield from save_pending(run, rest.checkpoint, Pending(paused=True), rest)
    return rest


def _save(
    run: Run,
    before: Checkpoint,
    after: Checkpoint,
    results: Sequence[TaskResult],
    pending: Pending | None,
    now: datetime,
) -> Generator[Effect, Any, None]:
    if pending and not run.config.keeps_calls:
        run.open_namespaces |= call_namespaces(run, before.frontier)
    if run.saves_at_rest:
        run.uncommitted_from = run.uncommitted_from or before
        run.rewritten.update(rewritten_fields(run.program, results, before.values, after.values))
    else:
        yield from save_commit(run, commit_of(run, before, after, results, now))


def draw_stamp(run: Run, step: int) -> Generator[Effect, Any, tuple[str, datetime]]:
    """Return the id and the time for the commit of a step; without a saver an id, and a time that is not used."""
    if run.saver is None:
        return run.unsaved_id(step), UNUSED
    return (yield Stamp(step))


def save_commit(run: Run, commit: StepCommit) -> Generator[Effect, Any, None]:
    """Save a commit, and emit its event."""
    yield Save(commit)
    run.holds(commit.hold)
    if run.unpublished_events:
        run.count_as_finished(commit.finished)
    if run.watch is not None and run.watch.wants("committed"):
        yield Emit(run_event("committed", run, commit, commit.checkpoint.step))


def _unfinished_calls(run: Run, checkpoint: Checkpoint) -> set[str]:
    """Return the namespaces of subgraph calls whose tasks are still due."""
    begun = call_namespaces(run, checkpoint.frontier)
    inside = tuple(f"{name}:" for name in begun)
    return {name for name in run.open_namespaces if name in begun or name.startswith(inside)}


def call_namespaces(run: Run, tasks: Sequence[Task]) -> set[str]:
    """Return the namespaces in which subgraph calls of tasks were saved by an earlier invocation."""
    path = f"{run.namespace}|" if run.namespace else ""
    namespaces = {f"{path}{task.node}:{task.id}" for task in tasks}
    if run.program.former_names:  # a renamed node resumes its calls under its former name
        former = run.program.former_names
        namespaces |= {f"{path}{name}:{task.id}" for task in tasks for name in former.get(task.node, ())}
    return namespaces


def commit_of(
    run: Run,
    before: Checkpoint | None,
    after: Checkpoint,
    results: Sequence[TaskResult],
    now: datetime,
    *,
    source: Source = "loop",
    expected: CheckpointId | Literal["before"] | None = "before",
    pending: Pending | None = None,
    metadata: dict[str, Any] | None = None,
    releases: bool = False,
) -> StepCommit:
    """Return the commit of one superstep, made at `now`.

    `expected` is the head that the branch must have: the checkpoint before, except for a fork. The last commit of a
    run, and one that `releases`, also releases the thread.
    """
    commit = StepCommit(run, before, after, results, source, now)
    commit.hold = run.hold(now, release=releases or (source == "loop" and after.at_rest), may_claim=True)
    if run.open_namespaces:
        going_on = _unfinished_calls(run, after) if run.saves_at_rest else set[str]()
        commit.drops, run.open_namespaces = tuple(sorted(run.open_namespaces - going_on)), going_on
    if expected != "before":
        commit.expected = expected
    commit.pending = pending
    commit.note(metadata)
    return commit


def save_uncommitted(run: Run, checkpoint: Checkpoint) -> Generator[Effect, Any, None]:
    """Save the supersteps since the last commit as one, if the run saves only when it stops (durability="exit")."""
    if run.uncommitted_from is not None and run.caller is not None:
        yield SaveCallers(run.caller)  # first: a step of an abandoned attempt may save it at the same time
    before, run.uncommitted_from = run.uncommitted_from, None
    if before is None:
        return
    try:
        _, now = yield Stamp(checkpoint.step)
        commit = commit_of(run, before if before is not NOTHING_SAVED else None, checkpoint, [], now)
        commit.spans_supersteps, commit.rewritten = True, frozenset(run.rewritten)
        yield from save_commit(run, commit)
    except BaseException:
        run.uncommitted_from = before  # tried again when the run stops
        raise
    run.rewritten.clear()


def release_thread(run: Run, rest: RunOutcome) -> Generator[Effect, Any, None]:
    """Release the thread if the run still holds it because it stopped without a write."""
    if run.claimed and not run.nested:
        yield from save_pending(run, rest.checkpoint, Pending(), rest)


def save_pending(
    run: Run, checkpoint: Checkpoint, pending: Pending, rest: RunOutcome | None = None
) -> Generator[Effect, Any, None]:
    """Save results, questions and errors of the tasks of a checkpoint; with a `rest`, release the thread too."""
    _, now = yield Stamp(checkpoint.step)
    hold = run.hold(now, release=rest is not None, may_claim=True)
    entries = (*(() if run.claimed else started_entries(run)), *run.take_noted())
    if rest is not None:
        entries = (
            *entries,
            *interrupted_entries(run, rest.interrupts),
            *finished_entries(run, rest.status, rest.error),
        )
    yield SavePending(checkpoint.id, pending, hold, Log(run.run_id, now, entries) if entries else None)
    run.holds(hold)
    if run.unpublished_events:
        run.count_as_finished(pending.completed)
        run.unpublished_events.clear()  # tasks that ended too late to be saved will run again


def all_succeeded(outcomes: Sequence[Outcome | None]) -> TypeGuard[Sequence[TaskResult]]:
    """True if every task has a result."""
    return all(type(outcome) is TaskResult for outcome in outcomes)


def _with_earlier_outcomes(
    checkpoint: Checkpoint, pending: Pending, tasks: tuple[Task, ...], outcomes: Sequence[Outcome | None]
) -> list[Outcome | None]:
    """Return the outcomes of all tasks of the frontier in task order, including those that an earlier run has saved."""
    fresh = dict(zip(tasks, outcomes, strict=True))
    return [fresh[task] if task in fresh else _earlier_outcome(task, pending) for task in checkpoint.frontier]


def _earlier_outcome(task: Task, pending: Pending) -> Outcome:
    result = pending.completed.get(task.id)
    if result is None:
        return Pause(task, pending.interrupts[task.id])
    commands = [target.command for target in result.targets if type(target) is ToParent]
    return Failure(task, ParentCommand(*commands)) if commands else result


def _stop_in_superstep(
    run: Run, checkpoint: Checkpoint, results: Sequence[Outcome | None]
) -> Generator[Effect, Any, RunOutcome]:
    """Save the partial results of a superstep that cannot be completed, and return the outcome of the run."""
    rest = _outcome_of(run, checkpoint, results)
    yield from _save_partial_results(run, rest, results)
    if rest.status in ("waiting", "paused") and run.watch is not None and run.watch.wants("interrupted"):
        yield Emit(run_event("interrupted", run, rest.interrupts, checkpoint.step + 1))
    return rest


def _outcome_of(run: Run, checkpoint: Checkpoint, results: Sequence[Outcome | None]) -> RunOutcome:
    """Return the outcome of a run that stops in a superstep which cannot be completed."""
    failure = _first_failure(results)
    if failure is not None:
        status = "cancelled" if isinstance(failure.error, RunCancelled) else "failed"
        return RunOutcome(status, checkpoint, error=failure.error, node=failure.task.node)
    if None in results:
        reason = reason_to_stop(run)  # None if the driver itself is being cancelled: it raises that to its caller
        return RunOutcome("cancelled", checkpoint, error=RunCancelled(reason) if reason is not None else None)
    if not any(type(result) is Pause for result in results):
        return RunOutcome("failed", checkpoint, error=_commands_of(results))
    asked = tuple(question for result in results if type(result) is Pause for question in result.interrupts)
    still_open = tuple(question.shown() for question in asked if question.id not in run.answers)
    return RunOutcome("waiting" if still_open else "paused", checkpoint, interrupts=still_open)


def _first_failure(results: Sequence[Outcome | None]) -> Failure | None:
    """Return the failure that ended a superstep: the first in task order that is not a consequence of another one."""
    failures = [result for result in results if type(result) is Failure and not result.leaves]
    return min(failures, key=lambda failure: failure.came_later, default=None)


def note_failure(run: Run, checkpoint: Checkpoint, failure: Failure) -> Generator[Effect, Any, None]:
    """Save the failure of a task before its siblings have ended."""
    if run.saver is None or run.saves_at_rest:
        return
    task, text = failure.task, error_text(failure.error)
    _, now = yield Stamp(checkpoint.step)
    entry: Entry = ("task_finished", checkpoint.step + 1, task.node, task.id, {"error": text})
    pending = Pending(errors={TaskId(task.id): text}, attempts={TaskId(task.id): 0})
    yield SavePending(checkpoint.id, pending, run.hold(now), Log(run.run_id, now, (entry,)))
    failure.is_saved = True


def _commands_of(results: Sequence[Outcome | None]) -> ParentCommand:
    """Return the Commands for the parent graph, of all tasks in their order."""
    answers = [
        (command, result.task.node)
        for result in results
        if type(result) is Failure
        for command in cast(ParentCommand, result.error).commands
    ]
    return ParentCommand(*(command for command, _ in answers), nodes=[node for _, node in answers])


def _save_partial_results(
    run: Run, rest: RunOutcome, results: Sequence[Outcome | None]
) -> Generator[Effect, Any, None]:
    if run.saver is None:
        return
    with caused_by(rest.error):
        yield from save_uncommitted(run, rest.checkpoint)
        yield from _save_outcomes(run, rest, results)


@contextmanager
def caused_by(error: BaseException | None) -> Generator[None]:
    """Raise errors of the block, whatever a saver raises, from the error that ended the run.

    The caller must learn first that nothing was saved, but not lose the reason why the run ended.
    """
    try:
        yield
    except Exception as failed:
        if error is None or failed is error:
            raise
        raise failed from error


def _save_outcomes(run: Run, rest: RunOutcome, results: Sequence[Outcome | None]) -> Generator[Effect, Any, None]:
    known = Pending()
    for result in results:
        if type(result) is TaskResult:
            known.completed[result.task.id] = saved_form_of_result(run.program, result)
        elif type(result) is Pause:
            known.interrupts[result.task.id] = result.interrupts
            if settled := run.settled_by(result.task.id, result.interrupts):
                known.settled[result.task.id] = settled
        elif type(result) is Failure and result.leaves:
            if not isinstance(
                rest.error, ParentCommand
            ):  # a Command for the parent waits until the siblings have ended
                commands = map(ToParent, cast(ParentCommand, result.error).commands)
                known.completed[result.task.id] = TaskResult(result.task, {}, tuple(commands), goto=True)
        elif type(result) is Failure:
            if not result.is_saved:
                known.errors[TaskId(result.task.id)] = error_text(result.error)
            # The next run of this task starts with a full number of attempts.
            known.attempts[TaskId(result.task.id)] = 0
    if run.ended_calls:
        yield from _save_ended_calls(run, rest, known.completed)
    noted = run.log_buffer
    try:
        yield from save_pending(run, rest.checkpoint, known, rest)
    except SerdeError:
        if rest.status not in ("failed", "cancelled"):
            raise
        run.log_buffer = noted
        yield from _save_one_by_one(run, rest, known)


def _save_ended_calls(run: Run, rest: RunOutcome, landed: Collection[TaskId]) -> Generator[Effect, Any, None]:
    """Save the ends of calls made by tasks without a result, so that these calls are not repeated with their task."""
    due = {task.id for task in rest.checkpoint.frontier}.difference(landed)
    for call in list(run.ended_calls.values()):
        task = cast(Scope, call.run.caller).task
        if task is None or task.planned_id not in due:
            continue
        try:
            yield SaveCallers(call)
        except SerdeError as error:
            if rest.status not in ("failed", "cancelled"):
                raise
            if rest.error is not None:
                add_note(rest.error, f"The result of a call made by node {task.node!r} was not saved: {error}")


def _save_one_by_one(run: Run, rest: RunOutcome, known: Pending) -> Generator[Effect, Any, None]:
    """Save every result that can be stored. One that cannot becomes a note on the error that ended the run."""
    nodes = {task.id: task.node for task in rest.checkpoint.frontier}
    for identity in [*known.completed, *known.interrupts]:
        try:
            yield from save_pending(run, rest.checkpoint, known.of([identity]))
        except SerdeError as error:
            if rest.error is not None:
                add_note(rest.error, f"The result of node {nodes.get(identity)!r} was not saved: {error}")
    yield from save_pending(run, rest.checkpoint, Pending(errors=known.errors, attempts=known.attempts), rest)


def _recursion_error(run: Run, last_steps: Sequence[tuple[Task, ...]]) -> GraphRecursionError:
    names = [sorted({task.node for task in tasks}) for tasks in last_steps]
    return GraphRecursionError(run.settings.recursion_limit, names, thread_id=run.settings.thread_id)

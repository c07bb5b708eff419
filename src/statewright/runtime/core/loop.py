"""The loop of a run: plan, run, apply, save.

`supersteps` is a generator. It yields effects, is sent what came of them, and decides; drivers act. It never awaits,
sleeps, reads a clock, draws a random number or touches a file, so there is one engine and not two, and tests can
drive it by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
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
from statewright.runtime.core.commit import StepCommit, asked_for, ended, saved_form_of_result, started, text_of
from statewright.runtime.core.effects import (
    Effect,
    Emit,
    Failure,
    Outcome,
    Pause,
    RunGenerator,
    RunOutcome,
    RunTasks,
    Save,
    SaveCallers,
    SavePending,
)
from statewright.runtime.core.events import describe_unfinished, run_event
from statewright.runtime.core.frontier import due_tasks, half_reached, matches
from statewright.runtime.core.limits import overrun
from statewright.runtime.core.program import Program
from statewright.runtime.core.run import Run
from statewright.runtime.core.standing import reason_to_stop
from statewright.runtime.tasks.scope import Scope

LAST_STEPS = 5
"""How many supersteps a GraphRecursionError tells of."""
NOTHING_SAVED: Final = Checkpoint("", -1, {}, ())
"""As the checkpoint that was saved last, of a call of which nothing is saved so far."""


def supersteps(run: Run, checkpoint: Checkpoint, pending: Pending | None) -> Generator[Effect, Any, RunOutcome]:
    """Advance a run by supersteps until nothing is left to do, or it cannot go on."""
    program, watch, saves, nested = run.program, run.watch, run.saver is not None, run.nested
    breaks_after, near_limit = run.breaks_after, run.stop - LAST_STEPS
    control = run.control
    guarded = control is not None or bool(run.breaks_before) or run.budget is not None or nested
    effect = RunTasks(checkpoint, checkpoint.frontier)
    outcomes: Any  # of tasks; results, once all have landed
    last_steps: list[tuple[Task, ...]] = []
    while checkpoint.frontier:
        if guarded or checkpoint.step >= near_limit:
            # If anything is known of the frontier, somebody has been here: past its breakpoints, or at one.
            stopped = _stopped(run, checkpoint, last_steps, passed=bool(pending))
            if stopped is not None and stopped.status == "paused":
                return (yield from _paused(run, stopped))
            if stopped is not None and (way_out := out_of_budget(run, stopped)) is not None:
                checkpoint, pending = (yield from _rerouted(run, checkpoint, way_out)), None
                continue
            if stopped is not None:
                return stopped
            last_steps = [*last_steps[1 - LAST_STEPS :], checkpoint.frontier]
        effect.checkpoint = checkpoint
        effect.tasks = due_tasks(checkpoint, pending) if pending else checkpoint.frontier
        if watch is not None and watch.wants("superstep_started"):
            yield Emit(run_event("superstep_started", run, effect.tasks, checkpoint.step + 1))
        outcomes = None  # of many tasks they are large, and the next superstep needs none of them
        outcomes, commit_id = yield effect
        if pending:
            outcomes = _with_landed(checkpoint, pending, effect.tasks, outcomes)
        if not (len(outcomes) == 1 and type(outcomes[0]) is TaskResult) and not all_landed(outcomes):
            rest = yield from _interrupted(run, checkpoint, outcomes)
            if (way_out := out_of_budget(run, rest)) is None:
                return rest
            checkpoint, pending = (yield from _rerouted(run, checkpoint, way_out)), None
            continue
        try:
            if not saves:  # nobody will look for the commit: its number in the run is name enough
                commit_id = f"{run.run_id}.{checkpoint.step + 1}"
            origin = commit_id if not nested else run.origin(commit_id, checkpoint.step + 1)
            following = apply_results(program, checkpoint, outcomes, commit_id, origin)
            if nested:
                with_report(program, checkpoint, following, outcomes)
        except Exception as error:
            rest = RunOutcome("failed", checkpoint, error=error)
            yield from _land(run, rest, outcomes)
            return rest
        if not following.frontier:
            if control is not None and control.cancel_reason is not None:
                # A plain function could not be stopped. The run has not completed: it goes on from its result.
                rest = RunOutcome("cancelled", checkpoint, error=RunCancelled(control.cancel_reason))
                yield from _land(run, rest, outcomes)
                return rest
            if program.graph.joins:
                run.unfinished_joins = _unfinished_joins(program, checkpoint, outcomes)
        if saves:
            yield from _save(run, checkpoint, following, outcomes, pending)
        if run.journal and not run.shares_journal:
            run.journal = {}  # its tasks are consumed
        if run.ended_calls:
            run.ended_calls.clear()
        pending = None
        stops = breaks_after and following.frontier and matches(breaks_after, checkpoint.frontier)
        checkpoint = following
        if watch is not None and watch.wants("superstep_finished"):
            yield Emit(run_event("superstep_finished", run, checkpoint, checkpoint.step))
        if stops:
            return (yield from _paused(run, RunOutcome("paused", checkpoint)))
    return RunOutcome("completed", checkpoint)


def _unfinished_joins(program: Program, before: Checkpoint, results: Sequence[TaskResult]) -> tuple[str, ...]:
    """The joins that the last superstep leaves half reached, as text."""
    joins = half_reached(program, before.joins, results)
    return tuple(describe_unfinished(join, joins[join.key]) for join in program.graph.joins if join.key in joins)


def _stopped(
    run: Run, checkpoint: Checkpoint, last_steps: Sequence[tuple[Task, ...]], *, passed: bool
) -> RunOutcome | None:
    """The rest at which the run must stop before its next superstep; None if it may go on."""
    if checkpoint.step >= run.stop and not run.program.uncounted.issuperset(task.node for task in checkpoint.frontier):
        return RunOutcome("failed", checkpoint, error=_too_long(run, last_steps))
    control = run.control
    if control is not None and control.cancel_reason is not None:
        return RunOutcome("cancelled", checkpoint, error=RunCancelled(control.cancel_reason))
    if run.parent is not None and (reason := reason_to_stop(run)) is not None:
        return RunOutcome("cancelled", checkpoint, error=RunCancelled(reason))
    if control is not None and control.drain_reason is not None:
        return RunOutcome("failed", checkpoint, error=GraphDrained(control.drain_reason))
    if run.budget is not None and not run.spending.is_over:
        found = overrun(run.budget, run.spending, checkpoint.frontier)
        if found is not None:
            names = [sorted({task.node for task in tasks}) for tasks in last_steps]
            return RunOutcome("failed", checkpoint, error=BudgetExceeded(*found, last_steps=names))
        run.spending.begin_step(checkpoint.frontier)
    if run.breaks_before and not passed and matches(run.breaks_before, checkpoint.frontier):
        return RunOutcome("paused", checkpoint)
    return None


def out_of_budget(run: Run, rest: RunOutcome) -> str | None:
    """The node that ends the run in good order, if it came to rest because its budget is used up."""
    return out_of_budget_by(run, rest.error)


def out_of_budget_by(run: Run, error: BaseException | None) -> str | None:
    """The node that ends the run in good order after an error, if that says that its budget is used up."""
    budget = run.budget
    if not isinstance(error, BudgetExceeded) or run.nested or budget is None or run.spending.is_over:
        return None
    return budget.on_budget


def _rerouted(run: Run, checkpoint: Checkpoint, node: str) -> Generator[Effect, Any, Checkpoint]:
    """Make `node` what is due, instead of everything that was."""
    run.spending.is_over = True
    step = checkpoint.step + 1
    commit_id = run.commit_id(step)
    due = (Task(node, NO_ARG, commit_id, 0),)
    after = Checkpoint(commit_id, step, checkpoint.values, due, reported=checkpoint.reported)
    if run.saver is not None:
        run.open_namespaces |= call_namespaces(run, checkpoint.frontier)
        notes = {"discarded": sorted({task.node for task in checkpoint.frontier})}
        yield from save_held_back(run, checkpoint)
        yield from save_commit(run, commit_of(run, checkpoint, after, [], metadata=notes))
    return after


def _paused(run: Run, rest: RunOutcome) -> RunGenerator:
    """Note that the run stops at a breakpoint, so that the next one passes it."""
    if run.saver is not None:
        yield from save_held_back(run, rest.checkpoint)
        yield from save_pending(run, rest.checkpoint, Pending(paused=True), rest)
    return rest


def _save(
    run: Run,
    before: Checkpoint,
    after: Checkpoint,
    results: Sequence[TaskResult],
    pending: Pending | None,
) -> Generator[Effect, Any, None]:
    if pending and not run.keeps_calls:
        run.open_namespaces |= call_namespaces(run, before.frontier)
    if run.saves_at_rest:
        run.uncommitted_from = run.uncommitted_from or before
        run.rewritten.update(rewritten_fields(run.program, results, before.values, after.values))
    else:
        yield from save_commit(run, commit_of(run, before, after, results))


def save_commit(run: Run, commit: StepCommit) -> Generator[Effect, Any, None]:
    """Save a commit, and tell those who watch."""
    yield Save(commit)
    run.holds(commit.hold)
    if run.unpublished_events:
        run.count_as_finished(commit.finished)
    if run.watch is not None and run.watch.wants("committed"):
        yield Emit(run_event("committed", run, commit, commit.checkpoint.step))


def _going_on(run: Run, checkpoint: Checkpoint) -> set[str]:
    """Those of the calls that tasks have made which belong to tasks that are still due."""
    begun = call_namespaces(run, checkpoint.frontier)
    inside = tuple(f"{name}:" for name in begun)
    return {name for name in run.open_namespaces if name in begun or name.startswith(inside)}


def call_namespaces(run: Run, tasks: Sequence[Task]) -> set[str]:
    """Where the subgraph calls that tasks made in an earlier invocation were saved."""
    path = f"{run.namespace}|" if run.namespace else ""
    namespaces = {f"{path}{task.node}:{task.id}" for task in tasks}
    if run.program.former_names:  # a call goes on where it was saved, also after its node was renamed
        former = run.program.former_names
        namespaces |= {f"{path}{name}:{task.id}" for task in tasks for name in former.get(task.node, ())}
    return namespaces


def commit_of(
    run: Run,
    before: Checkpoint | None,
    after: Checkpoint,
    results: Sequence[TaskResult],
    *,
    source: Source = "loop",
    expected: CheckpointId | Literal["before"] | None = "before",
    pending: Pending | None = None,
    metadata: dict[str, Any] | None = None,
    releases: bool = False,
) -> StepCommit:
    """What one superstep saves. `expected` is the head of the line, which is the checkpoint before unless it forks.

    With the last commit of a run, or with one that `releases`, its thread is let go.
    """
    now = run.clock.now()
    commit = StepCommit(run, before, after, results, source, now)
    commit.hold = run.hold(release=releases or (source == "loop" and after.at_rest), may_claim=True, now=now)
    if run.open_namespaces:
        going_on = _going_on(run, after) if run.saves_at_rest else set[str]()
        commit.drops, run.open_namespaces = tuple(sorted(run.open_namespaces - going_on)), going_on
    if expected != "before":
        commit.expected = expected
    commit.pending = pending
    commit.note(metadata)
    return commit


def save_held_back(run: Run, checkpoint: Checkpoint) -> Generator[Effect, Any, None]:
    """Save where the run stands, if it was told to save only at rest and has moved since it last did."""
    if run.uncommitted_from is not None and run.caller is not None:
        yield SaveCallers(run.caller)  # meanwhile a step that was left behind may save it
    before, run.uncommitted_from = run.uncommitted_from, None
    if before is None:
        return
    try:
        commit = commit_of(run, before if before is not NOTHING_SAVED else None, checkpoint, [])
        commit.spans_supersteps, commit.rewritten = True, frozenset(run.rewritten)
        yield from save_commit(run, commit)
    except BaseException:
        run.uncommitted_from = before  # what a task could not save is saved when the run comes to rest
        raise
    run.rewritten.clear()


def let_go(run: Run, rest: RunOutcome) -> Generator[Effect, Any, None]:
    """Let go of the thread, if the run still holds it: it came to rest without writing anything."""
    if run.claimed and not run.nested:
        yield from save_pending(run, rest.checkpoint, Pending(), rest)


def save_pending(
    run: Run, checkpoint: Checkpoint, pending: Pending, rest: RunOutcome | None = None
) -> Generator[Effect, Any, None]:
    """Save what became known of the tasks of a checkpoint; with the run's `rest` it lets go of its thread."""
    hold = run.hold(release=rest is not None, may_claim=True)
    entries = (*(() if run.claimed else started(run)), *run.take_noted())
    if rest is not None:
        entries = (*entries, *asked_for(run, rest.interrupts), *ended(run, rest.status, rest.error))
    at = hold.now if hold is not None else run.clock.now()
    yield SavePending(checkpoint.id, pending, hold, Log(run.run_id, at, entries) if entries else None)
    run.holds(hold)
    if run.unpublished_events:
        run.count_as_finished(pending.completed)
        run.unpublished_events.clear()  # what ended too late to be saved will run again


def all_landed(outcomes: Sequence[Outcome | None]) -> TypeGuard[Sequence[TaskResult]]:
    """Whether every task brought a result."""
    return all(type(outcome) is TaskResult for outcome in outcomes)


def _with_landed(
    checkpoint: Checkpoint, pending: Pending, tasks: tuple[Task, ...], outcomes: Sequence[Outcome | None]
) -> list[Outcome | None]:
    """The outcomes of all tasks of the frontier, in task order, those of an earlier attempt included."""
    fresh = dict(zip(tasks, outcomes, strict=True))
    return [fresh[task] if task in fresh else _landed(task, pending) for task in checkpoint.frontier]


def _landed(task: Task, pending: Pending) -> Outcome:
    result = pending.completed.get(task.id)
    if result is None:
        return Pause(task, pending.interrupts[task.id])
    commands = [target.command for target in result.targets if type(target) is ToParent]
    return Failure(task, ParentCommand(*commands)) if commands else result


def _interrupted(
    run: Run, checkpoint: Checkpoint, results: Sequence[Outcome | None]
) -> Generator[Effect, Any, RunOutcome]:
    """A superstep that cannot be completed: keep what landed, and come to rest."""
    rest = _rest_of(run, checkpoint, results)
    yield from _land(run, rest, results)
    if rest.status in ("waiting", "paused") and run.watch is not None and run.watch.wants("interrupted"):
        yield Emit(run_event("interrupted", run, rest.interrupts, checkpoint.step + 1))
    return rest


def _rest_of(run: Run, checkpoint: Checkpoint, results: Sequence[Outcome | None]) -> RunOutcome:
    """How a run rests on a superstep that cannot be completed."""
    failure = _first_failure(results)
    if failure is not None:
        status = "cancelled" if isinstance(failure.error, RunCancelled) else "failed"
        return RunOutcome(status, checkpoint, error=failure.error, node=failure.task.node)
    if None in results:
        reason = reason_to_stop(run)  # none if the driver itself is being cancelled: it says so to its caller
        return RunOutcome("cancelled", checkpoint, error=RunCancelled(reason) if reason is not None else None)
    if not any(type(result) is Pause for result in results):
        return RunOutcome("failed", checkpoint, error=_commands_of(results))
    asked = tuple(question for result in results if type(result) is Pause for question in result.interrupts)
    still_open = tuple(question.shown() for question in asked if question.id not in run.answers)
    return RunOutcome("waiting" if still_open else "paused", checkpoint, interrupts=still_open)


def _first_failure(results: Sequence[Outcome | None]) -> Failure | None:
    """The failure that ended a superstep; of several the first in task order that was no consequence of another."""
    failures = [result for result in results if type(result) is Failure and not result.leaves]
    return min(failures, key=lambda failure: failure.came_later, default=None)


def note_failure(run: Run, checkpoint: Checkpoint, failure: Failure) -> Generator[Effect, Any, None]:
    """Save that a task failed, before those are waited for that run beside it."""
    if run.saver is None or run.saves_at_rest:
        return
    task, text = failure.task, text_of(failure.error)
    hold = run.hold()
    at = hold.now if hold is not None else run.clock.now()
    entry: Entry = ("task_finished", checkpoint.step + 1, task.node, task.id, {"error": text})
    pending = Pending(errors={TaskId(task.id): text}, attempts={TaskId(task.id): 0})
    yield SavePending(checkpoint.id, pending, hold, Log(run.run_id, at, (entry,)))
    failure.is_saved = True


def _commands_of(results: Sequence[Outcome | None]) -> ParentCommand:
    """The Commands for the parent graph, of all tasks in their order."""
    answers = [
        (command, result.task.node)
        for result in results
        if type(result) is Failure
        for command in cast(ParentCommand, result.error).commands
    ]
    return ParentCommand(*(command for command, _ in answers), nodes=[node for _, node in answers])


def _land(run: Run, rest: RunOutcome, results: Sequence[Outcome | None]) -> Generator[Effect, Any, None]:
    if run.saver is None:
        return
    with caused_by(rest.error):
        yield from save_held_back(run, rest.checkpoint)
        yield from _land_all(run, rest, results)


@contextmanager
def caused_by(error: BaseException | None) -> Generator[None]:
    """What fails in the block, whatever savers raise, has the error that ended the run as its cause.

    Nothing is saved then: that is what the caller has to know first. But it must not hide why the run has ended.
    """
    try:
        yield
    except Exception as failed:
        if error is None or failed is error:
            raise
        raise failed from error


def _land_all(run: Run, rest: RunOutcome, results: Sequence[Outcome | None]) -> Generator[Effect, Any, None]:
    known = Pending()
    for result in results:
        if type(result) is TaskResult:
            known.completed[result.task.id] = saved_form_of_result(run.program, result)
        elif type(result) is Pause:
            known.interrupts[result.task.id] = result.interrupts
            if settled := run.settled_by(result.task.id, result.interrupts):
                known.settled[result.task.id] = settled
        elif type(result) is Failure and result.leaves:
            if not isinstance(rest.error, ParentCommand):  # it has to wait until its siblings are done
                commands = map(ToParent, cast(ParentCommand, result.error).commands)
                known.completed[result.task.id] = TaskResult(result.task, {}, tuple(commands), goto=True)
        elif type(result) is Failure:
            if not result.is_saved:
                known.errors[TaskId(result.task.id)] = text_of(result.error)
            # Who runs it again begins to count anew.
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
        yield from _land_one_by_one(run, rest, known)


def _save_ended_calls(run: Run, rest: RunOutcome, landed: Collection[TaskId]) -> Generator[Effect, Any, None]:
    """Save where the calls of tasks ended that have not landed: when such a task runs again, they do not."""
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
                add_note(rest.error, f"What a call of node {task.node!r} did before was not kept: {error}")


def _land_one_by_one(run: Run, rest: RunOutcome, known: Pending) -> Generator[Effect, Any, None]:
    """Keep what can be stored. What cannot is a note of the error that ended the run, and does not hide it."""
    nodes = {task.id: task.node for task in rest.checkpoint.frontier}
    for identity in [*known.completed, *known.interrupts]:
        try:
            yield from save_pending(run, rest.checkpoint, known.of([identity]))
        except SerdeError as error:
            if rest.error is not None:
                add_note(rest.error, f"What node {nodes.get(identity)!r} brought beside it was not kept: {error}")
    yield from save_pending(run, rest.checkpoint, Pending(errors=known.errors, attempts=known.attempts), rest)


def _too_long(run: Run, last_steps: Sequence[tuple[Task, ...]]) -> GraphRecursionError:
    names = [sorted({task.node for task in tasks}) for tasks in last_steps]
    return GraphRecursionError(run.settings.recursion_limit, names, thread_id=run.settings.thread_id)

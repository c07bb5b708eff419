"""The loop of a run: plan, run, apply, save.

`run_supersteps` is a generator. It yields effects, receives their results, and decides what happens next. Drivers
perform the effects, with plain calls or on an event loop. The generator never awaits, sleeps or accesses a file, so a
single engine serves synchronous and asynchronous calls, and tests can drive it by hand.

Each turn runs the tasks of the frontier and ends in one of three ways:

- All tasks have succeeded. Their writes are applied, the next frontier follows from their targets, and one commit saves
  the new state and the frontier. It also deletes what was saved for the tasks while they were running.
- A task has failed, has asked a question, or was cancelled. The head of the thread does not move, and `partial_results`
  saves the outcomes of the other tasks, so that a later run of this superstep does not repeat them.
- The run must stop before the next superstep, because of a breakpoint, a limit, a budget, or a request to stop.

The loop is one long function on purpose. A superstep takes only a few microseconds, and delegating to another generator
would cost more than most paragraphs of this function do.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime
from typing import Any, Final, TypeGuard

from statewright.checkpoint import NO_ARG, Checkpoint, Pending, Task, TaskResult
from statewright.errors import BudgetExceeded, GraphDrained, GraphRecursionError, RunCancelled
from statewright.graph import ParentCommand, ToParent
from statewright.runtime.core.apply import apply_results, record_updates_for_caller, rewritten_fields
from statewright.runtime.core.effects import Effect, Emit, RunGenerator, RunTasks
from statewright.runtime.core.events import describe_unfinished_join, run_event
from statewright.runtime.core.frontier import due_tasks, incomplete_joins, matches_breakpoint
from statewright.runtime.core.partial_results import save_partial_results, stop_in_superstep
from statewright.runtime.core.program import Program
from statewright.runtime.core.saving import (
    call_namespaces,
    commit_of,
    new_id_and_time,
    save_commit,
    save_pending,
    save_uncommitted,
)
from statewright.runtime.invocation.limits import find_exceeded_limit
from statewright.runtime.invocation.outcome import Failure, Outcome, Pause, RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.liveness import reason_to_stop

LAST_STEPS: Final = 5
"""The number of supersteps that a GraphRecursionError lists."""


def run_supersteps(run: Run, checkpoint: Checkpoint, pending: Pending | None) -> Generator[Effect, Any, RunOutcome]:
    """Advance a run by supersteps until no task is due, or the run has to stop. Return the outcome of the run.

    `pending` has the partial results of earlier runs that stopped in the superstep after `checkpoint`.
    """
    program, emitter, saves, nested = run.program, run.emitter, run.saver is not None, run.nested
    breaks_after, near_limit = run.config.breaks_after, run.step_limit - LAST_STEPS
    control = run.control
    must_check = control is not None or bool(run.config.breaks_before) or run.config.budget is not None or nested
    effect = RunTasks(checkpoint, checkpoint.frontier)
    results: Any  # the outcomes of the tasks, which are all TaskResults if every task has succeeded
    last_steps: list[tuple[Task, ...]] = []
    while checkpoint.frontier:
        # Before the superstep: limits, budgets, breakpoints, and requests to stop.
        if must_check or checkpoint.step >= near_limit:
            # If anything was saved for this frontier, an earlier run has stopped at its breakpoints, or gone past them.
            outcome = _check_stop(run, checkpoint, last_steps, passed_breakpoints=bool(pending))
            if outcome is not None:
                if outcome.status == "paused":
                    return (yield from _pause(run, outcome))
                if (exit_node := budget_exit(run, outcome.error)) is None:
                    return outcome
                checkpoint, pending = (yield from _go_to_exit_node(run, checkpoint, exit_node)), None
                continue
            last_steps = [*last_steps[1 - LAST_STEPS :], checkpoint.frontier]
        # Run the tasks that have no result yet.
        effect.checkpoint = checkpoint
        effect.tasks = due_tasks(checkpoint, pending) if pending else checkpoint.frontier
        if emitter is not None and emitter.wants("superstep_started"):
            yield Emit(run_event("superstep_started", run, effect.tasks, checkpoint.step + 1))
        results = None  # frees the previous results, which may be large, before the next tasks run
        results, commit_id, now = yield effect
        if pending:
            results = _with_earlier_outcomes(checkpoint, pending, effect.tasks, results)
        if not (len(results) == 1 and type(results[0]) is TaskResult) and not all_succeeded(results):
            outcome = yield from stop_in_superstep(run, checkpoint, results)
            if (exit_node := budget_exit(run, outcome.error)) is None:
                return outcome
            checkpoint, pending = (yield from _go_to_exit_node(run, checkpoint, exit_node)), None
            continue
        # Apply their writes, and compute the next frontier.
        try:
            if not saves:  # the same as `run.unsaved_id`, without the cost of a call
                commit_id = f"{run.run_id}.{checkpoint.step + 1}"
            origin = commit_id if not nested else run.origin(commit_id, checkpoint.step + 1)
            next_checkpoint = apply_results(program, checkpoint, results, commit_id, origin)
            if nested:
                record_updates_for_caller(program, checkpoint, next_checkpoint, results)
        except Exception as error:
            outcome = RunOutcome("failed", checkpoint, error=error)
            yield from save_partial_results(run, outcome, results)
            return outcome
        if not next_checkpoint.frontier:
            if control is not None and control.cancel_reason is not None:
                # The last tasks were plain functions, which cannot be stopped, so they have completed. The run is
                # cancelled nevertheless: the results are saved as partial results, and the next run applies them.
                outcome = RunOutcome("cancelled", checkpoint, error=RunCancelled(control.cancel_reason))
                yield from save_partial_results(run, outcome, results)
                return outcome
            if program.graph.joins:
                run.unfinished_joins = _unfinished_joins(program, checkpoint, results)
        # Save the new state and the frontier as one commit.
        if saves:
            yield from _save_superstep(run, checkpoint, next_checkpoint, results, pending, now)
        if run.journal and not run.shares_journal:
            run.journal = {}  # its entries belonged to tasks that have now ended
        if run.ended_calls:
            run.ended_calls.clear()
        pending = None
        breaks_here = (
            breaks_after and next_checkpoint.frontier and matches_breakpoint(breaks_after, checkpoint.frontier)
        )
        checkpoint = next_checkpoint
        if emitter is not None and emitter.wants("superstep_finished"):
            yield Emit(run_event("superstep_finished", run, checkpoint, checkpoint.step))
        if breaks_here:
            return (yield from _pause(run, RunOutcome("paused", checkpoint)))
    return RunOutcome("completed", checkpoint)


# -- before a superstep: does the run have to stop?


def _check_stop(
    run: Run, checkpoint: Checkpoint, last_steps: Sequence[tuple[Task, ...]], *, passed_breakpoints: bool
) -> RunOutcome | None:
    """Return the outcome of the run if it must stop before the next superstep; None if it may continue.

    `last_steps` has the tasks of the last supersteps, for error messages.
    """
    if checkpoint.step >= run.step_limit and not run.program.uncounted_nodes.issuperset(
        task.node for task in checkpoint.frontier
    ):
        limit, thread_id = run.settings.recursion_limit, run.settings.thread_id
        error = GraphRecursionError(limit, _nodes_by_step(last_steps), thread_id=thread_id)
        return RunOutcome("failed", checkpoint, error=error)
    control = run.control
    if control is not None and control.cancel_reason is not None:
        return RunOutcome("cancelled", checkpoint, error=RunCancelled(control.cancel_reason))
    if run.parent is not None and (reason := reason_to_stop(run)) is not None:
        return RunOutcome("cancelled", checkpoint, error=RunCancelled(reason))
    if control is not None and control.drain_reason is not None:
        return RunOutcome("failed", checkpoint, error=GraphDrained(control.drain_reason))
    if run.config.budget is not None and not run.spending.is_over:
        excess = find_exceeded_limit(run.config.budget, run.spending, checkpoint.frontier)
        if excess is not None:
            error = BudgetExceeded(*excess, last_steps=_nodes_by_step(last_steps))
            return RunOutcome("failed", checkpoint, error=error)
        run.spending.begin_step(checkpoint.frontier)
    if (
        run.config.breaks_before
        and not passed_breakpoints
        and matches_breakpoint(run.config.breaks_before, checkpoint.frontier)
    ):
        return RunOutcome("paused", checkpoint)
    return None


def _nodes_by_step(steps: Sequence[tuple[Task, ...]]) -> list[list[str]]:
    """Return the names of the nodes of each superstep."""
    return [sorted({task.node for task in tasks}) for tasks in steps]


def _pause(run: Run, outcome: RunOutcome) -> RunGenerator:
    """Stop at a breakpoint, and save that it was reached, so that the next run goes past it."""
    if run.saver is not None:
        yield from save_uncommitted(run, outcome.checkpoint)
        yield from save_pending(run, outcome.checkpoint, Pending(paused=True), outcome)
    return outcome


def budget_exit(run: Run, error: BaseException | None) -> str | None:
    """Return the budget's `on_budget` node, if `error` is a BudgetExceeded and the node has not run yet."""
    budget = run.config.budget
    if not isinstance(error, BudgetExceeded) or run.nested or budget is None or run.spending.is_over:
        return None
    return budget.on_budget


def _go_to_exit_node(run: Run, checkpoint: Checkpoint, node: str) -> Generator[Effect, Any, Checkpoint]:
    """Replace the frontier with the `on_budget` node. From then on, the budget is no longer checked."""
    run.spending.is_over = True
    step = checkpoint.step + 1
    commit_id, now = yield from new_id_and_time(run, step)
    due = (Task(node, NO_ARG, commit_id, 0),)
    after = Checkpoint(commit_id, step, checkpoint.values, due, reported=checkpoint.reported)
    if run.saver is not None:
        run.open_namespaces |= call_namespaces(run, checkpoint.frontier)
        discarded = {"discarded": sorted({task.node for task in checkpoint.frontier})}
        yield from save_uncommitted(run, checkpoint)
        yield from save_commit(run, commit_of(run, checkpoint, after, [], now, metadata=discarded))
    return after


# -- after the tasks of a superstep


def all_succeeded(outcomes: Sequence[Outcome | None]) -> TypeGuard[Sequence[TaskResult]]:
    """Return whether every task has a result."""
    return all(type(outcome) is TaskResult for outcome in outcomes)


def _with_earlier_outcomes(
    checkpoint: Checkpoint, pending: Pending, tasks: tuple[Task, ...], outcomes: Sequence[Outcome | None]
) -> list[Outcome | None]:
    """Return the outcomes of all tasks of the frontier, in task order, including those saved by an earlier run."""
    new = dict(zip(tasks, outcomes, strict=True))
    return [new[task] if task in new else _earlier_outcome(task, pending) for task in checkpoint.frontier]


def _earlier_outcome(task: Task, pending: Pending) -> Outcome:
    """Return the outcome of a task that an earlier run has saved."""
    result = pending.completed.get(task.id)
    if result is None:
        return Pause(task, pending.interrupts[task.id])
    commands = [target.command for target in result.targets if type(target) is ToParent]
    return Failure(task, ParentCommand(*commands)) if commands else result


def _unfinished_joins(program: Program, before: Checkpoint, results: Sequence[TaskResult]) -> tuple[str, ...]:
    """Return a description of each join that is incomplete after the last superstep."""
    joins = incomplete_joins(program, before.joins, results)
    return tuple(describe_unfinished_join(join, joins[join.key]) for join in program.graph.joins if join.key in joins)


def _save_superstep(
    run: Run,
    before: Checkpoint,
    after: Checkpoint,
    results: Sequence[TaskResult],
    pending: Pending | None,
    now: datetime,
) -> Generator[Effect, Any, None]:
    """Save a superstep as one commit. With durability="exit", only record what the final commit must contain."""
    if pending and not run.config.keeps_calls:
        run.open_namespaces |= call_namespaces(run, before.frontier)
    if run.saves_on_exit:
        run.uncommitted_from = run.uncommitted_from or before
        run.rewritten.update(rewritten_fields(run.program, results, before.values, after.values))
    else:
        yield from save_commit(run, commit_of(run, before, after, results, now))

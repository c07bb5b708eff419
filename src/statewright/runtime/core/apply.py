"""Apply the results of a superstep: pure functions from a checkpoint and results to the next checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from statewright.channels import MISSING, Added, Overwrite, difference, is_overwrite
from statewright.checkpoint import NO_ARG, Checkpoint, DeferredTask, Task, TaskResult, Values
from statewright.graph import STOP
from statewright.runtime.core.fold import drop_transients, fold_results, fold_writes, write_pairs
from statewright.runtime.core.frontier import next_frontier, simple_frontier
from statewright.runtime.core.program import Program


def apply_results(
    program: Program, checkpoint: Checkpoint, results: Sequence[TaskResult], commit_id: str, origin: str
) -> Checkpoint:
    """Return the checkpoint after a superstep. `results` has the results of all its tasks, in task order.

    The ids of the tasks that become due derive from `origin` (see `Run.origin`). The same checkpoint and results always
    give the same next checkpoint, except for its id. `checkpoint` is not changed. Raises ConflictingWrites, and errors
    of reducers.
    """
    values = folded_values(program, checkpoint.values, results)
    if program.has_simple_frontier and not checkpoint.deferred:
        targets = results[0].targets
        if len(results) == 1 and len(targets) == 1 and type(targets[0]) is str and targets[0] != STOP:
            due = (Task(targets[0], NO_ARG, origin, 0),)  # a single successor, as in nearly every superstep
        else:
            due = simple_frontier(program, results, origin)
        if due is not None:
            return Checkpoint(commit_id, checkpoint.step + 1, values, due)
    due, deferred_tasks, joins = next_frontier(program, checkpoint.joins, results, origin, (), checkpoint.deferred)
    return Checkpoint(commit_id, checkpoint.step + 1, values, due, deferred_tasks, joins)


def apply_external_results(
    program: Program,
    checkpoint: Checkpoint,
    results: Sequence[TaskResult],
    commit_id: str,
    due: Sequence[Task],
    deferred_tasks: Sequence[DeferredTask],
) -> Checkpoint:
    """Return the checkpoint after results that do not come from a superstep, such as updates from outside a run.

    The tasks in `due` and `deferred_tasks` remain due or deferred.
    """
    values = folded_values(program, checkpoint.values, results)
    frontier, waiting, joins = next_frontier(program, checkpoint.joins, results, commit_id, due, deferred_tasks)
    return Checkpoint(commit_id, checkpoint.step + 1, values, frontier, waiting, joins)


def record_updates_for_caller(
    program: Program, before: Checkpoint, after: Checkpoint, results: Sequence[TaskResult]
) -> Checkpoint:
    """Record in `after` the updates that the caller of a subgraph has to fold into its own state, and return `after`.

    - For a field with a reducer, every update is recorded. If one of them is an Overwrite, only the current value is
      recorded, as an Overwrite. The caller folds all updates at once, and an Overwrite discards the others.
    - For any other field, its name is recorded once, with None, to mark the field as written.
    """
    fields = program.reported_fields
    reported = list(before.reported)
    # Overwrites come first, so only the beginning of what may be a long list is searched.
    replaced = {name for name, _ in takewhile(lambda pair: type(pair[1]) is Overwrite, reported)}
    for result in results:
        for name, update in write_pairs(result):
            if name in fields:
                reported.append((name, update))
                if is_overwrite(update):
                    replaced.add(name)
            elif program.is_visible(name) and (name, None) not in reported:
                reported.append((name, None))
    if replaced:
        values = [(name, Overwrite(after.values[name])) for name in sorted(replaced) if name in after.values]
        reported = [*values, *(pair for pair in reported if pair[0] not in replaced)]
    after.reported = tuple(reported)
    return after


def folded_values(program: Program, values: Values, results: Sequence[TaskResult]) -> Values:
    """Return the state after a superstep, without the transient values of the previous one."""
    if len(results) == 1:
        # If the task has conditional edges, it has already folded its own writes, because they read the new state.
        folded = results[0].folded
        new = fold_writes(program, values, results[0]) if folded is None else folded
    else:
        new = fold_results(program, values, results)
    return drop_transients(program, new, results) if program.transient_channels else new


def deltas_of_values(
    program: Program, old: Mapping[str, Any], new: Values, rewritten: Collection[str] = ()
) -> Mapping[str, Any]:
    """Return the same as `deltas_of_results`, but for any number of supersteps, by comparing old and new values.

    Fields in `rewritten` are stored in full. Comparing them proves nothing, because the value or an item of a list may
    be the same object as before, but changed in place.
    """
    saved = {name: value for name, value in new.items() if name not in program.untracked_channels}
    removed = {name: MISSING for name in old if name not in saved and name not in program.untracked_channels}
    changes = {
        name: value if name in rewritten else difference(old.get(name, MISSING), value)
        for name, value in saved.items()
        if name in rewritten or old.get(name, MISSING) is not value
    }
    return {**changes, **removed}


def rewritten_fields(
    program: Program, results: Sequence[TaskResult], old: Values, new: Mapping[str, Any]
) -> Iterable[str]:
    """Return the fields that results have changed in any other way than by appending to a list."""
    changes = deltas_of_results(program, results, old, new)
    return [name for name, change in changes.items() if type(change) is not Added and change is not MISSING]


def mutable_fields(values: Mapping[str, Any]) -> Iterable[str]:
    """Return the fields whose values may have been changed in place."""
    return [name for name, value in values.items() if type(value) not in _IMMUTABLE_TYPES]


_IMMUTABLE_TYPES: Final = frozenset({str, int, float, bool, bytes, type(None)})


def deltas_of_results(
    program: Program, results: Sequence[TaskResult], old: Values, new: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the delta of each saved channel that has changed: the data that turns its old value into the new one.

    The delta MISSING means that a transient value was dropped.
    """
    channels, unsaved = program.channels, program.untracked_channels
    changes = {
        name: channels[name].delta(updates, new[name]) if name in channels else new[name]
        for name, updates in _updates_by_channel(results)
        if name in new and name not in unsaved  # a value for conditional edges only has been dropped already
    }
    for name in program.transient_channels:
        if name in old and name not in new and name not in unsaved:
            changes[name] = MISSING
    return changes


def _updates_by_channel(results: Sequence[TaskResult]) -> Iterable[tuple[str, Sequence[Any]]]:
    """Return the updates of each written channel, in task order."""
    if len(results) == 1 and type(results[0].writes) is dict:
        return [(name, (update,)) for name, update in results[0].writes.items()]
    updates: dict[str, list[Any]] = {}
    for result in results:
        for name, update in write_pairs(result):
            updates.setdefault(name, []).append(update)
    return updates.items()

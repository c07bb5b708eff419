"""Fold writes into the state, in task order, never in the order of arrival.

No function changes the mapping that it receives, or the values in it, except `without_transients`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from statewright.channels import MISSING, Conflict, Overwrite
from statewright.checkpoint import TaskResult, Values
from statewright.errors import ConflictingWrites, add_note
from statewright.runtime.core.program import Program

Pairs = Iterable[tuple[str, Any]]


def fold_writes(program: Program, values: Values, result: TaskResult) -> Values:
    """Return the state after the writes of one task, as its conditional edges see it."""
    writes = result.writes
    if type(writes) is not dict:
        return fold_results(program, values, [result])
    merging = program.merging
    new = values.copy()
    for name, update in writes.items():
        channel = merging.get(name)
        if channel is None:
            new[name] = update if type(update) is not Overwrite else update.value
        else:
            new[name] = _applied(program, name, new.get(name, MISSING), (update,), [result])
    return new


def fold_results(program: Program, values: Values, results: Sequence[TaskResult]) -> Values:
    """Return the state after the writes of all tasks of a superstep.

    Raises ConflictingWrites if two tasks wrote to a channel that holds a single value.
    """
    updates: dict[str, list[Any]] = {}
    for result in results:
        for name, update in _effective_writes(program, result):
            earlier = updates.get(name)
            if earlier is None:
                updates[name] = [update]
            else:
                earlier.append(update)
    new = values.copy()
    for name, written in updates.items():
        new[name] = _applied(program, name, new.get(name, MISSING), written, results)
    return new


def pairs_of(result: TaskResult) -> Pairs:
    """Return the writes of a task as pairs, in order."""
    writes = result.writes
    return writes.items() if type(writes) is dict else writes  # pyright: ignore  # distinguished by type


def _effective_writes(program: Program, result: TaskResult) -> Pairs:
    """Return the writes of a task; for a field without a reducer only the last write of its answer."""
    writes = result.writes
    if type(writes) is dict:
        return writes.items()
    last = {name: index for index, (name, _) in enumerate(writes)}
    return [
        (name, update)
        for index, (name, update) in enumerate(pairs_of(result))
        if name in program.merging or last[name] == index
    ]


def _applied(program: Program, name: str, current: Any, updates: Sequence[Any], results: Sequence[TaskResult]) -> Any:
    """Return the value of a channel after updates. Errors name the nodes that wrote them."""
    try:
        return program.channels[name].apply(current, updates) if name in program.channels else _last(updates)
    except Conflict as conflict:
        raise ConflictingWrites(name, writers(name, results), what=str(conflict)) from None
    except Exception as error:
        nodes = ", ".join(repr(node) for node in writers(name, results))
        add_note(error, f"while channel {name!r} folded the writes of {nodes}")
        raise


def _last(updates: Sequence[Any]) -> Any:
    """Return the value of a key that an open state does not declare: it has no reducer, so one task may write it."""
    if len(updates) > 1:
        raise Conflict("keeps one value")
    value = updates[0]
    return value.value if type(value) is Overwrite else value


def writers(name: str, results: Sequence[TaskResult]) -> list[str]:
    """Return the nodes that wrote to a channel, in task order."""
    return [result.task.node for result in results if any(key == name for key, _ in pairs_of(result))]


def without_transients(program: Program, values: Values, results: Sequence[TaskResult]) -> Values:
    """Return the state without the signals of the last superstep, keeping those of this one.

    `values` is changed and returned; the caller has just created it.
    """
    written = {name for result in results for name, _ in pairs_of(result)}
    for name in program.transient:
        if name not in written or name in program.step_only:
            values.pop(name, None)
    return values

"""Fold writes into the state, in task order, whatever the order in which they have arrived.

Except for `drop_transients`, no function changes the state that it receives, or the values in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from statewright.channels import MISSING, Conflict, Overwrite
from statewright.checkpoint import TaskResult, Values
from statewright.errors import ConflictingWrites, add_note
from statewright.runtime.core.program import Program


def fold_writes(program: Program, values: Values, result: TaskResult) -> Values:
    """Return the state after the writes of one task."""
    writes = result.writes
    if type(writes) is not dict:
        return fold_results(program, values, [result])
    merging = program.merging_channels
    new = values.copy()
    for name, update in writes.items():
        channel = merging.get(name)
        if channel is None:
            new[name] = update if type(update) is not Overwrite else update.value
        else:
            new[name] = _apply_updates(program, name, new.get(name, MISSING), (update,), [result])
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
    for name, channel_updates in updates.items():
        new[name] = _apply_updates(program, name, new.get(name, MISSING), channel_updates, results)
    return new


def write_pairs(result: TaskResult) -> Iterable[tuple[str, Any]]:
    """Return the writes of a task as pairs (channel name, update), in order."""
    writes = result.writes
    return writes.items() if type(writes) is dict else writes  # pyright: ignore  # distinguished by type


def _effective_writes(program: Program, result: TaskResult) -> Iterable[tuple[str, Any]]:
    """Return the writes of a task. Of several writes to a field without a reducer, only the last is returned."""
    writes = result.writes
    if type(writes) is dict:
        return writes.items()
    last = {name: index for index, (name, _) in enumerate(writes)}
    return [
        (name, update)
        for index, (name, update) in enumerate(write_pairs(result))
        if name in program.merging_channels or last[name] == index
    ]


def _apply_updates(
    program: Program, name: str, current: Any, updates: Sequence[Any], results: Sequence[TaskResult]
) -> Any:
    """Return the new value of a channel. Errors name the nodes that wrote the updates."""
    try:
        return program.channels[name].apply(current, updates) if name in program.channels else _last_update(updates)
    except Conflict as conflict:
        raise ConflictingWrites(name, writing_nodes(name, results), what=str(conflict)) from None
    except Exception as error:
        nodes = ", ".join(repr(node) for node in writing_nodes(name, results))
        add_note(error, f"while channel {name!r} folded the writes of {nodes}")
        raise


def _last_update(updates: Sequence[Any]) -> Any:
    """Return the new value of an undeclared key in an open state. It has no reducer, so only one task may write it."""
    if len(updates) > 1:
        raise Conflict("keeps one value")
    value = updates[0]
    return value.value if type(value) is Overwrite else value


def writing_nodes(name: str, results: Sequence[TaskResult]) -> list[str]:
    """Return the nodes that wrote to a channel, in task order."""
    return [result.task.node for result in results if any(key == name for key, _ in write_pairs(result))]


def drop_transients(program: Program, values: Values, results: Sequence[TaskResult]) -> Values:
    """Remove the transient values that end with this superstep from the new state, in place, and return the state."""
    written = {name for result in results for name, _ in write_pairs(result)}
    for name in program.transient_channels:
        if name not in written or name in program.step_only_channels:
            values.pop(name, None)
    return values

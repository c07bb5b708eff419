"""Compiled graphs as nodes: the call of the subgraph, and the changes that the node returns from its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from statewright.graph import Memory, SubgraphLike, SubgraphResult
from statewright.state import ROOT, instance_values


class Callee(Protocol):
    """A compiled graph as seen by the task that calls it: a call returns the result and the writes of its tasks."""

    @property
    def reported(self) -> frozenset[str]: ...

    @property
    def passes_state_on(self) -> bool: ...

    def call_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]: ...

    def acall_within(self, state: Any, memory: Memory) -> Awaitable[tuple[Any, Pairs]]: ...


Pairs = Sequence[tuple[str, Any]]


def subgraph_calls(
    subgraph: SubgraphLike, memory: Memory, fields: frozenset[str] | None, merging: frozenset[str]
) -> tuple[Callable[[Any], Any], Callable[[Any], Awaitable[Any]]]:
    """Return the functions that call a subgraph as a node: one for the sync driver, one for the event loop.

    `fields` are the fields of the caller (None if its state is open), `merging` those with a reducer. The whole result
    of the subgraph is used, like that of a function, if the subgraph does not pass the state on, or if the caller's
    state is one bare value that the two graphs do not both merge.
    """
    callee = cast(Callee, subgraph)
    both_merge = merging & callee.reported
    is_bare = fields is not None and ROOT in fields and ROOT not in both_merge
    if is_bare or not callee.passes_state_on:
        return (
            lambda state: callee.call_within(state, memory)[0],
            lambda state: _await_result(callee.acall_within(state, memory)),
        )

    def call(state: Any) -> Any:
        result, writes = callee.call_within(state, memory)
        return collect_changes(common_fields(result, fields), state, writes, both_merge)

    async def acall(state: Any) -> Any:
        result, writes = await callee.acall_within(state, memory)
        return collect_changes(common_fields(result, fields), state, writes, both_merge)

    return call, acall


async def _await_result(call: Awaitable[tuple[Any, Pairs]]) -> Any:
    return (await call)[0]


def collect_changes(result: Any, state: Any, writes: Pairs, both_merge: frozenset[str]) -> Any:
    """Return the changes that a subgraph made to the state that it received, as the result of its node.

    For a field that both graphs merge, these are the writes of the subgraph's tasks, which the caller folds as well.
    For any other field it is the value, if a task wrote it or if it differs: a task may have changed a value in place
    and written the same object, so equality alone does not show that a field is unchanged.
    """
    if ROOT in both_merge:
        return SubgraphResult({}, [pair for pair in writes if pair[0] == ROOT])
    if not isinstance(result, Mapping):
        return result
    values = cast(Mapping[str, Any], result)
    before = _fields_of(state, values)
    rewritten = {name for name, _ in writes}
    update = {
        name: value
        for name, value in values.items()
        if name not in both_merge and (name in rewritten or name not in before or not _is_same(value, before[name]))
    }
    return SubgraphResult(update, [pair for pair in writes if pair[0] in both_merge])


def _fields_of(state: Any, names: Iterable[str]) -> Mapping[str, Any]:
    """Return the state that a subgraph received as a mapping; for an instance, only the named fields."""
    if isinstance(state, Mapping):
        return cast(Mapping[str, Any], state)
    if instance_values(state) is None:
        return {}
    return {name: getattr(state, name) for name in names if hasattr(state, name)}


def _is_same(value: Any, before: Any) -> bool:
    try:
        return value is before or bool(value == before)
    except Exception:  # a comparison of arrays has no truth value
        return False


def common_fields(result: Any, fields: frozenset[str] | None) -> Any:
    """Return the part of a subgraph's result that its caller can use: the fields that both graphs have."""
    if fields is None or not isinstance(result, Mapping):
        return result  # pyright: ignore[reportUnknownVariableType]
    return {key: value for key, value in cast(Mapping[str, Any], result).items() if key in fields}

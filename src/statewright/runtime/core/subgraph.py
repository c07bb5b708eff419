"""Compiled graphs as nodes: call the subgraph, and turn its result into the update that the node returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from statewright.graph import Memory, SubgraphLike, SubgraphResult
from statewright.state import ROOT, instance_values


class Callee(Protocol):
    """A compiled graph, as the node that calls it sees it. Implemented by `CompiledGraph`, which documents the members.

    A call returns the result of the subgraph, and the writes of its tasks.
    """

    @property
    def reported(self) -> frozenset[str]: ...

    @property
    def passes_state_on(self) -> bool: ...

    def call_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]: ...

    def acall_within(self, state: Any, memory: Memory) -> Awaitable[tuple[Any, Pairs]]: ...


Pairs = Sequence[tuple[str, Any]]
"""Writes as pairs (field, update). Only updates to `reported` fields are real; other fields have None."""


def subgraph_calls(
    subgraph: SubgraphLike, memory: Memory, fields: frozenset[str] | None, merging: frozenset[str]
) -> tuple[Callable[[Any], Any], Callable[[Any], Awaitable[Any]]]:
    """Return two functions that call a subgraph as a node: a plain function, and a coroutine function.

    `fields` are the fields of the caller (None if its state is open), and `merging` the fields that have a reducer.
    Normally only the changes to the state become the update of the node. The whole result of the subgraph is used, like
    the result of a function, if the subgraph does not pass the state on, or if the state of the caller is a single
    value that does not have a reducer in both graphs.
    """
    callee = cast(Callee, subgraph)
    both_merge = merging & callee.reported
    is_replaced_whole = fields is not None and ROOT in fields and ROOT not in both_merge
    if is_replaced_whole or not callee.passes_state_on:
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
    """Return the changes that a subgraph has made to the state that it received, as the result of the calling node.

    For fields that have a reducer in both graphs (`both_merge`), these are the writes of the subgraph's tasks, which
    the caller folds too. For any other field it is the value, if a task has written the field or the value differs. A
    task may have changed a value in place and written the same object, so equal values do not prove that a field is
    unchanged.
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
    """Return the state that a subgraph has received, as a mapping. An instance is read only for the fields `names`."""
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
    """Return the part of a mapping that consists of these fields; everything if `fields` is None.

    It selects the fields that a subgraph and its caller both have. A result that is not a mapping is returned as it is.
    """
    if fields is None or not isinstance(result, Mapping):
        return result  # pyright: ignore[reportUnknownVariableType]
    return {key: value for key, value in cast(Mapping[str, Any], result).items() if key in fields}

"""Compiled graphs as nodes: how a node calls its subgraph, and what it returns of the subgraph's result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from statewright.graph import Memory, Reported, SubgraphLike
from statewright.state import ROOT, instance_values


class Callee(Protocol):
    """A compiled graph as the task that calls it sees it: a result, and the writes to fields that merge."""

    @property
    def reported(self) -> frozenset[str]: ...

    @property
    def passes_state_on(self) -> bool: ...

    def call_within(self, state: Any, memory: Memory) -> tuple[Any, Pairs]: ...

    def acall_within(self, state: Any, memory: Memory) -> Awaitable[tuple[Any, Pairs]]: ...


Pairs = Sequence[tuple[str, Any]]
Calls = tuple[Callable[[Any], Any], Callable[[Any], Awaitable[Any]]]


def subgraph_calls(
    subgraph: SubgraphLike, memory: Memory, known: frozenset[str] | None, merging: frozenset[str]
) -> Calls:
    """How a node calls its subgraph, from either driver.

    `known` are the caller's fields, None if it takes any; `merging` are those of them that merge. Where the caller's
    state is one bare value, so is what the subgraph answers, unless both merge it. What a callee answers that does not
    pass the state on is read as the answer of a function would be.
    """
    callee = cast(Callee, subgraph)
    both_merge = merging & callee.reported
    is_bare = known is not None and ROOT in known and ROOT not in both_merge
    if is_bare or not callee.passes_state_on:
        return (
            lambda state: callee.call_within(state, memory)[0],
            lambda state: _first(callee.acall_within(state, memory)),
        )

    def call(state: Any) -> Any:
        result, written = callee.call_within(state, memory)
        return news(shared(result, known), state, written, both_merge)

    async def acall(state: Any) -> Any:
        result, written = await callee.acall_within(state, memory)
        return news(shared(result, known), state, written, both_merge)

    return call, acall


async def _first(answer: Awaitable[tuple[Any, Pairs]]) -> Any:
    return (await answer)[0]


def news(result: Any, given: Any, written: Pairs, both_merge: frozenset[str]) -> Any:
    """Return what a subgraph did to the state that it was given, as the answer of its node.

    A field that both merge: what the subgraph's tasks wrote, for the caller to merge as they did. Another field: its
    value, if a task wrote it, be it the very object that was given (which the task may have changed in place), or if
    it is not simply what was given.
    """
    if ROOT in both_merge:
        return Reported({}, [pair for pair in written if pair[0] == ROOT])
    if not isinstance(result, Mapping):
        return result
    answer = cast(Mapping[str, Any], result)
    before = _fields_of(given, answer)
    rewritten = {name for name, _ in written}
    update = {
        name: value
        for name, value in answer.items()
        if name not in both_merge and (name in rewritten or name not in before or not _same(value, before[name]))
    }
    return Reported(update, [pair for pair in written if pair[0] in both_merge])


def _fields_of(given: Any, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state that a subgraph was given as a mapping; of an instance those fields that its result has too."""
    if isinstance(given, Mapping):
        return cast(Mapping[str, Any], given)
    if instance_values(given) is None:
        return {}
    return {name: getattr(given, name) for name in result if hasattr(given, name)}


def _same(value: Any, before: Any) -> bool:
    try:
        return value is before or bool(value == before)
    except Exception:  # arrays, say, that cannot be told equal by one truth value
        return False


def shared(result: Any, known: frozenset[str] | None) -> Any:
    """Return the part of a subgraph's result that its caller understands: the fields that both have."""
    if known is None or not isinstance(result, Mapping):
        return result  # pyright: ignore[reportUnknownVariableType]
    return {key: value for key, value in cast(Mapping[str, Any], result).items() if key in known}

"""A compiled graph as a node of another one, or called inside a node.

A call has a namespace of its own in the thread of its caller: the path of tasks that leads to it, `node:task_id`
segments joined by `|`. With `memory="call"` it is fresh for each task of the caller, and goes on where it was while
that task is unfinished; the commit that consumes the task removes it. With `"thread"` the segment is the node alone,
so the subgraph remembers across runs. With `"none"` it saves nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

from statewright.checkpoint import Line
from statewright.graph import Memory, SubgraphLike
from statewright.runtime.scope import Scope


class Callee(Protocol):
    """What a compiled graph offers to the task that calls it."""

    def call_within(self, state: Any, memory: Memory) -> Any: ...

    def acall_within(self, state: Any, memory: Memory) -> Awaitable[Any]: ...


Calls = tuple[Callable[[Any], Any], Callable[[Any], Awaitable[Any]]]


def subgraph_calls(subgraph: SubgraphLike, memory: Memory, known: frozenset[str] | None) -> Calls:
    """How a node calls its subgraph, from either driver. `known` are the caller's fields; None if it takes any."""
    callee = cast(Callee, subgraph)
    return (
        lambda state: shared(callee.call_within(state, memory), known),
        lambda state: _ashared(callee.acall_within(state, memory), known),
    )


def shared(result: Any, known: frozenset[str] | None) -> Any:
    """What a subgraph's result means to its caller: the fields that both have."""
    if known is None or not isinstance(result, Mapping):
        return result
    return {key: value for key, value in cast(Mapping[str, Any], result).items() if key in known}


async def _ashared(result: Awaitable[Any], known: frozenset[str] | None) -> Any:
    return shared(await result, known)


def call_namespace(scope: Scope, memory: Memory) -> str:
    """The namespace of the next call that the task of `scope` makes."""
    assert scope.task is not None
    ordinal = scope.next_call()
    segment = scope.task.node if memory == "thread" else f"{scope.task.node}:{scope.task.id}"
    if ordinal:
        segment = f"{segment}:{ordinal}"
    return f"{scope.run.namespace}|{segment}" if scope.run.namespace else segment


def call_line(scope: Scope, namespace: str, memory: Memory) -> Line | None:
    """The line that a call is saved on; None if it saves nothing."""
    caller = scope.run
    if caller.saver is None or caller.line is None or memory == "none":
        return None
    if memory == "call":
        caller.opened.add(namespace)
    return caller.line._replace(namespace=namespace)

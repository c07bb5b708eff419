"""A compiled graph as a node of another one, or called inside a node.

A call has a namespace of its own in the thread of its caller: the path of tasks that leads to it, `node:task_id`
segments joined by `|`. With `memory="call"` it is fresh for each task of the caller, and goes on where it was while
that task is unfinished; the commit that consumes the task removes it. With `"thread"` the segment is the node alone,
so the subgraph remembers across runs. With `"none"` it saves nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

from statewright.channels import Overwrite
from statewright.checkpoint import Line
from statewright.graph import Memory, SubgraphLike
from statewright.runtime.scope import Scope


class Callee(Protocol):
    """What a compiled graph offers to the task that calls it."""

    def call_within(self, state: Any, memory: Memory) -> Any: ...

    def acall_within(self, state: Any, memory: Memory) -> Awaitable[Any]: ...


Calls = tuple[Callable[[Any], Any], Callable[[Any], Awaitable[Any]]]


def subgraph_calls(
    subgraph: SubgraphLike, memory: Memory, known: frozenset[str] | None, growing: frozenset[str]
) -> Calls:
    """How a node calls its subgraph, from either driver.

    `known` are the caller's fields, None if it takes any; `growing` are those that append.
    """
    callee = cast(Callee, subgraph)

    def call(state: Any) -> Any:
        return news(shared(callee.call_within(state, memory), known), state, growing)

    async def acall(state: Any) -> Any:
        return news(shared(await callee.acall_within(state, memory), known), state, growing)

    return call, acall


def news(result: Any, given: Any, growing: frozenset[str]) -> Any:
    """What a subgraph changed of what its caller gave it: fields that it only passed through say nothing.

    Of a list that was appended to, what was appended; a list that was changed otherwise replaces the caller's.
    """
    if not isinstance(result, Mapping) or not isinstance(given, Mapping):
        return cast(Any, result)
    before = cast(Mapping[str, Any], given)
    changed: dict[str, Any] = {}
    for name, value in cast(Mapping[str, Any], result).items():
        if name not in before:
            changed[name] = value
        elif name in growing and isinstance(value, list) and isinstance(before[name], list):
            changed.update(_list_news(name, cast(list[Any], value), before[name]))
        elif not _same(value, before[name]):
            changed[name] = value
    return changed


def _list_news(name: str, value: list[Any], before: list[Any]) -> dict[str, Any]:
    if value[: len(before)] != before:
        return {name: Overwrite(value)}
    return {name: value[len(before) :]} if len(value) > len(before) else {}


def _same(value: Any, before: Any) -> bool:
    try:
        return value is before or bool(value == before)
    except Exception:  # arrays, say, that cannot be told equal by one truth value
        return False


def shared(result: Any, known: frozenset[str] | None) -> Any:
    """What a subgraph's result means to its caller: the fields that both have."""
    if known is None or not isinstance(result, Mapping):
        return result  # pyright: ignore[reportUnknownVariableType]
    return {key: value for key, value in cast(Mapping[str, Any], result).items() if key in known}


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

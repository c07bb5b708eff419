"""Results of nodes in the cache: their keys, and the form in which they are stored.

An entry does not depend on the task that has stored it. When another task uses it, message ids derive from that task,
and targets have the current names of their nodes.
"""

from __future__ import annotations

from typing import Any

from statewright.cache import CacheKey
from statewright.channels import MessageBatch, copy_update, without_derived_ids
from statewright.checkpoint import Checkpoint, Task, TaskResult
from statewright.data.fingerprint import fingerprint
from statewright.graph import Graph
from statewright.runtime.core.graph_migration import leads_to_nodes, renamed_target
from statewright.runtime.core.program import NodeProgram, Program
from statewright.runtime.tasks.scope import Scope
from statewright.state import Writes

CacheEntry = tuple[Writes, tuple[Any, ...], bool]
"""The `writes`, `targets` and `goto` of a TaskResult. `goto` is True if the node itself has chosen the targets."""


def cached_name(graph: Graph, node: str) -> str:
    """Return the name under which the results of a node are cached."""
    return f"{graph.name}/{node}"


def cache_keys(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> list[CacheKey]:
    """Return the cache key of a task, followed by its keys under former names of the node.

    A key consists of the name of the node, and a fingerprint of the node's version and input.
    """
    spec = node.node
    assert spec is not None
    state = node.read(checkpoint.values, task.arg)
    key_func = spec.cache_policy.key_func if spec.cache_policy is not None else None
    code = getattr(spec.action, "__qualname__", type(spec.action).__qualname__)
    version = f"{getattr(spec.action, '__module__', '')}.{code}@{spec.version or ''}"
    digest = fingerprint((version, key_func(state) if key_func is not None else state))
    graph = scope.run.program.graph
    return [CacheKey(cached_name(graph, name), digest) for name in (node.name, *spec.aliases)]


def is_usable(program: Program, entry: CacheEntry) -> bool:
    """Return whether all targets of an entry are nodes of the current graph."""
    return leads_to_nodes(program, entry[1])


def entry_of(result: TaskResult, checkpoint: Checkpoint) -> CacheEntry:
    """Return the cache entry for a result: with copies of objects that the node may change, and without message ids."""

    def detached(name: str, update: Any) -> Any:
        if type(update) is MessageBatch:
            return without_derived_ids(update, checkpoint.values.get(name))
        return copy_update(update)

    writes: Writes
    if isinstance(result.writes, dict):
        writes = {name: detached(name, update) for name, update in result.writes.items()}
    else:
        writes = [(name, detached(name, update)) for name, update in result.writes]
    return writes, tuple(result.targets), result.goto


def result_of(program: Program, task: Task, entry: CacheEntry) -> TaskResult:
    """Return a cache entry as the result of a task."""
    writes, targets, goto = entry
    targets = [renamed_target(program, target) for target in targets]
    return TaskResult(task, _prepare_writes(program, writes, task), targets, goto=goto)


def _prepare_writes(program: Program, writes: Writes, task: Task) -> Writes:
    """Return cached writes as if `task` had made them: message ids derive from the id of the task."""
    preparing = {name: channel for name, channel in program.merging_channels.items() if channel.prepares}
    if not preparing:
        return writes
    if isinstance(writes, dict):
        return {
            name: preparing[name].prepare(update, task.id) if name in preparing else update
            for name, update in writes.items()
        }
    return [  # a task may write several batches of messages, and ids must be unique among them
        (name, preparing[name].prepare(update, f"{task.id}-{index}") if name in preparing else update)
        for index, (name, update) in enumerate(writes)
    ]

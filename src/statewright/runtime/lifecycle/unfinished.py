"""The saved checkpoints of subgraph calls whose tasks have not ended.

A node that calls graphs inside its function may have done something in there that counts though its task never ends:
with `metadata={"discarded": function}` it says what the state keeps of its calls where fresh input discards the task.
The function is called with the state and with the checkpoints of the calls, and returns an update.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, Protocol

from statewright.checkpoint import SavedCheckpoint, Task
from statewright.runtime.core.effects import Effect, Load, Namespaces
from statewright.runtime.core.saving import call_namespaces
from statewright.runtime.drivers.saver_calls import perform_all
from statewright.runtime.invocation.run import Run

DISCARDED: Final = "discarded"
"""The key in the metadata of a node."""


def kept_of_discarded(
    run: Run, saved: SavedCheckpoint, values: Mapping[str, Any]
) -> Generator[Effect, Any, dict[str, Any]]:
    """Return the update that nodes make of the calls of their tasks that are discarded at this checkpoint."""
    nodes, update = run.program.graph.nodes, dict[str, Any]()
    for task in saved.checkpoint.frontier:
        function = nodes[task.node].metadata.get(DISCARDED) if task.node in nodes else None
        if function is not None and task.id not in saved.pending.completed:
            calls = yield from calls_of(run, saved, task)
            update |= function({**values, **update}, calls)
    return update


class ThreadRuns(Protocol):
    """A compiled graph, as far as it makes runs that only look at a thread."""

    def _thread_run(self, config: Any, options: Mapping[str, Any]) -> Run: ...


def unfinished_calls(graph: ThreadRuns, options: Mapping[str, Any]) -> Sequence[SavedCheckpoint]:
    """Return the heads of the calls that tasks at the head of a thread have made, where these have not ended.

    `options` are those of the call that ran the graph. Blocks while the checkpointer reads.
    """
    named = {name: options[name] for name in ("thread_id", "branch") if options.get(name) is not None}
    run = graph._thread_run(options.get("config"), named)  # pyright: ignore[reportPrivateUsage]  # one package
    return perform_all(run, _unfinished(run))


def _unfinished(run: Run) -> Generator[Effect, Any, Sequence[SavedCheckpoint]]:
    saved: SavedCheckpoint | None = yield Load(run.settings.branch)
    found: list[SavedCheckpoint] = []
    if saved is not None:
        for task in saved.checkpoint.frontier:
            found.extend((yield from calls_of(run, saved, task)))
    return found


def calls_of(run: Run, saved: SavedCheckpoint, task: Task) -> Generator[Effect, Any, Sequence[SavedCheckpoint]]:
    """Return the heads of the graphs that a task of a checkpoint has called and that have saved something."""
    begun = call_namespaces(run, [task])
    inside = tuple(f"{name}:" for name in begun)
    depth = next(iter(begun)).count("|")
    found: list[SavedCheckpoint] = []
    for name in (yield Namespaces()):
        if (name in begun or name.startswith(inside)) and name.count("|") == depth:
            head: SavedCheckpoint | None = yield Load(saved.line.branch, None, name)
            if head is not None and not head.metadata.get("reset"):
                found.append(head)
    return found

"""Load the saved checkpoints of subgraph calls whose tasks have not ended.

New input discards the unfinished tasks of a thread, and with them the subgraphs that they have called. A node that
wants to keep part of the state of its subgraphs may have `metadata={"discarded": function}`. Then the function is
called with the state of the calling graph and the checkpoints of the calls, and returns an update.
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
"""The key of such a function in the metadata of a node."""


def collect_discarded_updates(
    run: Run, saved: SavedCheckpoint, values: Mapping[str, Any]
) -> Generator[Effect, Any, dict[str, Any]]:
    """Return the update that the `discarded` functions of all unfinished tasks at this checkpoint return together."""
    nodes, update = run.program.graph.nodes, dict[str, Any]()
    for task in saved.checkpoint.frontier:
        function = nodes[task.node].metadata.get(DISCARDED) if task.node in nodes else None
        if function is not None and task.id not in saved.pending.completed:
            calls = yield from load_calls_of_task(run, saved, task)
            update |= function({**values, **update}, calls)
    return update


class ThreadRuns(Protocol):
    """The part of a compiled graph that creates runs for inspecting a thread."""

    def _thread_run(self, config: Any, options: Mapping[str, Any]) -> Run: ...


def load_unfinished_calls(graph: ThreadRuns, options: Mapping[str, Any]) -> Sequence[SavedCheckpoint]:
    """Return the heads of the subgraph calls that the unfinished tasks of a thread have made.

    `options` are the keywords with which the graph was called. Blocks while the checkpointer reads.
    """
    thread_options = {name: options[name] for name in ("thread_id", "branch") if options.get(name) is not None}
    run = graph._thread_run(options.get("config"), thread_options)  # pyright: ignore[reportPrivateUsage]  # one package
    return perform_all(run, _load_heads_of_calls(run))


def _load_heads_of_calls(run: Run) -> Generator[Effect, Any, Sequence[SavedCheckpoint]]:
    saved: SavedCheckpoint | None = yield Load(run.settings.branch)
    heads: list[SavedCheckpoint] = []
    if saved is not None:
        for task in saved.checkpoint.frontier:
            heads.extend((yield from load_calls_of_task(run, saved, task)))
    return heads


def load_calls_of_task(
    run: Run, saved: SavedCheckpoint, task: Task
) -> Generator[Effect, Any, Sequence[SavedCheckpoint]]:
    """Return the heads of the subgraph calls that a task has made itself, if they have saved checkpoints."""
    first_calls = call_namespaces(run, [task])
    later_calls = tuple(f"{name}:" for name in first_calls)  # prefixes, before a number or a call key
    depth = next(iter(first_calls)).count("|")
    heads: list[SavedCheckpoint] = []
    for name in (yield Namespaces()):
        if (name in first_calls or name.startswith(later_calls)) and name.count("|") == depth:
            head: SavedCheckpoint | None = yield Load(saved.branch_key.branch, None, name)
            if head is not None and not head.metadata.get("reset"):
                heads.append(head)
    return heads

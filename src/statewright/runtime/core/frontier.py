"""The frontier of a checkpoint: the tasks that are due next, and the deferred tasks, which have to wait.

When an edge has led to a node, the node's `join` setting determines when it starts:

- "any": in the next superstep. The node runs once, however many edges have led to it.
- "reachable": when no due task and no other deferred node can still reach the node over declared edges, so that
  everything that can arrive has arrived. Gathered Sends wait in the same way.
- "idle": when no other task is due at all.

Which nodes a node can reach is computed at compile time, as one bit set per node (`Graph.reach`), so a superstep needs
only a few integer operations. Counting arrivals would not work, because with conditional edges and Sends the expected
number is unknown.

Two deferred nodes that can reach each other would wait for each other forever. So one relation decides among deferred
nodes: a node *blocks* another if it can reach it, unless the two are in a cycle and the other was declared first. This
relation is a strict partial order, so at least one deferred node is not blocked. If no task is due, the nodes that are
not blocked start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from statewright.checkpoint import NO_ARG, Checkpoint, DeferredTask, Joins, Pending, Task, TaskResult, TimedTask
from statewright.graph import END, STOP, Send
from statewright.runtime.core.fold import write_pairs
from statewright.runtime.core.program import Program, is_hidden
from statewright.runtime.tasks.policies import time_limit

NextFrontier = tuple[tuple[Task, ...], tuple[DeferredTask, ...], Joins]
"""The frontier, the deferred tasks, and the incomplete joins."""


def simple_frontier(program: Program, results: Sequence[TaskResult], origin: str) -> tuple[Task, ...] | None:
    """Return the frontier if each target becomes a due task; None if a Send may be deferred, or a target is STOP.

    Only for programs with `has_simple_frontier`. The ids of the tasks derive from `origin`.
    """
    nodes: set[str] = set()
    sends: list[Send] = []
    for result in results:
        for target in result.targets:
            if type(target) is not Send:
                nodes.add(target)
            elif target.gather or target.timeout is not None:
                return None
            else:
                sends.append(target)
    if STOP in nodes:
        return None
    return (*_node_tasks(program, nodes, origin), *_send_tasks(sends, origin, len(nodes)))


def next_frontier(
    program: Program,
    joins: Joins,
    results: Sequence[TaskResult],
    origin: str,
    due: Sequence[Task],
    deferred_tasks: Sequence[DeferredTask],
) -> NextFrontier:
    """Return the due tasks, the deferred tasks and the incomplete joins after `results`.

    Tasks in `due` and `deferred_tasks`, which were scheduled before, are included. `joins` are the joins that were
    incomplete before. If a target is STOP, all three are empty.
    """
    if any(target == STOP for result in results for target in result.targets if type(target) is str):
        return (), (), {}
    nodes, arrivals = _collect_arrivals(program, joins, results)
    nodes -= {task.node for task in due if task.arg is NO_ARG}
    nodes -= {deferred.task.node for deferred in deferred_tasks if deferred.task.arg is NO_ARG}
    starting_tasks, waiting_tasks = list(due), list(deferred_tasks)
    for task in _node_tasks(program, nodes, origin):
        if task.node in program.deferring_nodes:
            waiting_tasks.append(DeferredTask(task))
        else:
            starting_tasks.append(task)
    gathered: dict[str, GatheredSends] = {}
    sends = ((target, result.task.node) for result in results for target in result.targets if type(target) is Send)
    for position, (send, sender) in enumerate(sends, len(nodes)):
        if send.gather:
            if send.node not in gathered:
                gathered[send.node] = GatheredSends(origin)
            gathered[send.node].add(send.arg, sender, position)
        elif send.node in program.deferring_nodes:
            waiting_tasks.append(DeferredTask(_send_task(send, origin, position), sender=sender))
        else:
            starting_tasks.append(_send_task(send, origin, position))
    frontier, waiting_tasks = release_ready(program, starting_tasks, waiting_tasks, gathered)
    is_complete = not frontier and not waiting_tasks
    return tuple(frontier), tuple(waiting_tasks), {} if is_complete else arrivals


def _node_tasks(program: Program, nodes: Iterable[str], origin: str) -> list[Task]:
    ordered = sorted(nodes, key=program.node_order.__getitem__)
    return [Task(name, NO_ARG, origin, position) for position, name in enumerate(ordered)]


def _send_tasks(sends: Sequence[Send], origin: str, first: int) -> list[Task]:
    return [Task(send.node, send.arg, origin, position) for position, send in enumerate(sends, first)]


def _send_task(send: Send, origin: str, position: int) -> Task:
    limit = time_limit(send.timeout)
    if limit is None:
        return Task(send.node, send.arg, origin, position)
    return TimedTask(send.node, send.arg, origin, position, limit)


def _collect_arrivals(program: Program, joins: Joins, results: Sequence[TaskResult]) -> tuple[set[str], Joins]:
    """Return the nodes that edges have led to, and the joins that still wait for a source."""
    nodes: set[str] = set()
    arrivals = dict(joins)
    for result in results:
        source = program.nodes.get(result.task.node)
        if source is None:  # the source is END, which an update from outside a run may have as its node
            continue
        reached_joins = () if result.goto else source.joins
        for target in result.targets:
            if type(target) is str:
                target_joins = source.joins_reached_by_goto(target) if result.goto else ()
                reached_joins = (*reached_joins, *target_joins)
                if not target_joins:
                    nodes.add(target)
        for join in reached_joins:
            arrivals[join.key] = arrivals.get(join.key, frozenset()) | {source.edge_source}
        nodes.update(subscriber for name, _ in write_pairs(result) for subscriber in program.subscribers.get(name, ()))
    for join in program.graph.joins:
        if arrivals.get(join.key) == frozenset(join.starts):
            del arrivals[join.key]
            if join.end != END:
                nodes.add(join.end)
    return nodes, arrivals


def incomplete_joins(program: Program, joins: Joins, results: Sequence[TaskResult]) -> Joins:
    """Return the joins that are incomplete after the last superstep; none if a target was STOP."""
    if any(target == STOP for result in results for target in result.targets if type(target) is str):
        return {}
    return _collect_arrivals(program, joins, results)[1]


class GatheredSends:
    """New Sends with `gather=True` to one node, which become one task, or wait.

    A map has one for each of its items, and most never need a task of their own, so they are kept in columns.
    """

    __slots__ = ("_args", "_origin", "_positions")

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._args: dict[str, list[Any]] = {}
        """The arguments, by the sender."""
        self._positions: dict[str, list[range]] = {}
        """Their positions, by the sender. Those of a map are one range."""

    def add(self, arg: Any, sender: str, position: int) -> None:
        if sender not in self._args:
            self._args[sender], self._positions[sender] = [], [range(position, position)]
        self._args[sender].append(arg)
        ranges = self._positions[sender]
        if position == ranges[-1].stop:
            ranges[-1] = range(ranges[-1].start, position + 1)
        else:
            ranges.append(range(position, position + 1))

    def as_deferred_tasks(self, node: str) -> list[DeferredTask]:
        """Return a task for each Send, in the order of sending."""
        tasks = [
            DeferredTask(Task(node, arg, self._origin, position), gather=True, sender=sender)
            for sender, args in self._args.items()
            for arg, position in zip(args, chain.from_iterable(self._positions[sender]), strict=True)
        ]
        return sorted(tasks, key=lambda deferred: deferred.task.position)

    def as_task(self, node: str) -> Task | None:
        """Return one task with a list of the arguments; None if there are several senders, whose order matters."""
        if len(self._args) != 1:
            return None
        ((sender, args),) = self._args.items()
        return Task(node, args, self._origin, self._positions[sender][0].start)


NONE_GATHERED: Final[Mapping[str, GatheredSends]] = {}


def release_ready(
    program: Program,
    due: list[Task],
    deferred_tasks: list[DeferredTask],
    gathered: Mapping[str, GatheredSends] = NONE_GATHERED,
) -> tuple[list[Task], list[DeferredTask]]:
    """Return the due tasks, including deferred tasks that can start now, and the deferred tasks that keep waiting.

    `gathered` has new Sends by their nodes.
    """
    if not deferred_tasks and not gathered:
        return _sort_tasks(program, due), deferred_tasks
    unblocked_nodes = _find_unblocked(program, {*(deferred.task.node for deferred in deferred_tasks), *gathered})
    reachable_nodes = _reachable_nodes(program, (task.node for task in due))
    idle_nodes = {
        deferred.task.node
        for deferred in deferred_tasks
        if not deferred.gather and program.graph.nodes[deferred.task.node].join == "idle"
    }
    # `reachable_nodes` is a bit set. Nodes with join="idle" start only below, when no other task is due.
    ready_nodes = {node for node in unblocked_nodes - idle_nodes if not reachable_nodes >> program.node_order[node] & 1}
    if not due and not ready_nodes:
        ready_nodes = unblocked_nodes
    released_tasks = [deferred for deferred in deferred_tasks if deferred.task.node in ready_nodes]
    waiting_tasks = [deferred for deferred in deferred_tasks if deferred.task.node not in ready_nodes]
    for node, sends in gathered.items():
        if node not in ready_nodes:
            waiting_tasks.extend(sends.as_deferred_tasks(node))
    released_sends = {node: sends for node, sends in gathered.items() if node in ready_nodes}
    return _sort_tasks(program, [*due, *_as_due_tasks(program, released_tasks, released_sends)]), waiting_tasks


def _sort_tasks(program: Program, tasks: Sequence[Task]) -> list[Task]:
    """Sort tasks: nodes in the order of declaration, then Sends in the order of sending."""
    nodes = sorted((task for task in tasks if task.arg is NO_ARG), key=lambda task: program.node_order[task.node])
    return [*nodes, *(task for task in tasks if task.arg is not NO_ARG)]


def _find_unblocked(program: Program, nodes: set[str]) -> set[str]:
    """Return the deferred nodes that no other deferred node blocks."""
    return {node for node in nodes if not any(_blocks(program, other, node) for other in nodes if other != node)}


def _blocks(program: Program, node: str, other: str) -> bool:
    """Return whether `node` blocks `other`: while both are deferred, `other` has to wait."""
    reach, order = program.graph.reach, program.node_order
    reaches = reach[node] >> order[other] & 1
    in_cycle = reach[other] >> order[node] & 1
    return bool(reaches and (not in_cycle or order[node] < order[other]))


def _reachable_nodes(program: Program, nodes: Iterable[str]) -> int:
    """Return the nodes that can be reached from any of `nodes`, as a bit set."""
    bits = 0
    for node in set(nodes):
        bits |= program.graph.reach[program.nodes[node].edge_source]
    return bits


def _as_due_tasks(
    program: Program, released_tasks: Sequence[DeferredTask], released_sends: Mapping[str, GatheredSends]
) -> list[Task]:
    """Return the due tasks for deferred tasks that can start, in the order in which their nodes were declared.

    Gathered Sends to a node become one task with a list of their arguments.
    """

    def sender_position(deferred: DeferredTask) -> int:
        return program.node_order.get(program.nodes[deferred.sender].edge_source, -1)  # START comes first

    tasks: list[Task] = []
    nodes = {*(deferred.task.node for deferred in released_tasks), *released_sends}
    for node in sorted(nodes, key=program.node_order.__getitem__):
        of_node = [deferred for deferred in released_tasks if deferred.task.node == node]
        tasks.extend(deferred.task for deferred in of_node if not deferred.gather)
        gathered, sends = [deferred for deferred in of_node if deferred.gather], released_sends.get(node)
        task = sends.as_task(node) if sends is not None and not gathered else None
        if task is None and (gathered or sends is not None):
            gathered += sends.as_deferred_tasks(node) if sends is not None else ()
            first = gathered[0].task
            args = [deferred.task.arg for deferred in sorted(gathered, key=sender_position)]
            task = Task(node, args, first.origin, first.position)
        if task is not None:
            tasks.append(task)
    return tasks


# -- selecting the tasks of the frontier that have to run


def due_tasks(checkpoint: Checkpoint, pending: Pending) -> tuple[Task, ...]:
    """Return the tasks of the frontier, in order, that have no result yet and do not wait for an answer."""
    return tuple(
        task for task in checkpoint.frontier if task.id not in pending.completed and not pending.waits(task.id)
    )


def matches_breakpoint(names: frozenset[str], tasks: Iterable[Task]) -> bool:
    """Return whether a breakpoint is set at the node of a task. `"*"` means all nodes except error handlers."""
    if "*" in names:
        return any(not is_hidden(task) for task in tasks)
    return any(task.node in names for task in tasks)

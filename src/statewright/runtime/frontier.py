"""What is due next, and what has to wait.

`join="any"`: a node that is due starts in the next superstep, once, however many led to it.
`join="reachable"` and gathered Sends: held while any task that is due, or another node that waits, can still reach
the node over declared edges. `join="idle"`: held while anything else is due at all.

One relation decides among those that wait: g *blocks* h if g reaches h, unless they are in a cycle and h was declared
first. It is a strict partial order, so somebody can always start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from statewright.checkpoint import NO_ARG, Checkpoint, Held, Joins, Task, TaskResult
from statewright.graph import END, STOP, Send
from statewright.runtime.fold import pairs_of
from statewright.runtime.program import Program

Next = tuple[tuple[Task, ...], tuple[Held, ...], Joins]
"""The frontier, what is held, and the joins that some have reached."""
_NOTHING: Next = ((), (), {})


def next_frontier(program: Program, checkpoint: Checkpoint, results: Sequence[TaskResult], origin: str) -> Next:
    """What follows from the results of a superstep; `origin` is the commit that will hold it."""
    if program.simple and not checkpoint.held:
        due = _simple_due(program, results, origin)
        if due is not None:
            return due, (), checkpoint.joins
    return _general(program, checkpoint, results, origin)


def _simple_due(program: Program, results: Sequence[TaskResult], origin: str) -> tuple[Task, ...] | None:
    """The frontier where each target is a task at once; None if something is held or stops the run."""
    if len(results) == 1:
        targets = results[0].targets
        if len(targets) == 1 and type(targets[0]) is str:  # one node after another: nearly every superstep
            return None if targets[0] == STOP else (Task(targets[0], NO_ARG, origin, 0),)
        if not targets:
            return ()
    nodes: set[str] = set()
    sends: list[Send] = []
    for result in results:
        for target in result.targets:
            if type(target) is Send:
                if target.gather:
                    return None
                sends.append(target)
            else:
                nodes.add(target)
    if STOP in nodes:
        return None
    return (*_node_tasks(program, nodes, origin), *_send_tasks(sends, origin, len(nodes)))


def _general(program: Program, checkpoint: Checkpoint, results: Sequence[TaskResult], origin: str) -> Next:
    if any(target == STOP for result in results for target in result.targets if type(target) is str):
        return _NOTHING
    nodes, joins = _arrivals(program, checkpoint.joins, results)
    sends = [target for result in results for target in result.targets if type(target) is Send]
    tasks = (*_node_tasks(program, nodes, origin), *_send_tasks(sends, origin, len(nodes)))
    gathers = [False] * len(nodes) + [send.gather for send in sends]
    due: list[Task] = []
    held = list(checkpoint.held)
    for task, gather in zip(tasks, gathers, strict=True):
        if not gather and task.node not in program.waiting_nodes:
            due.append(task)
        elif gather or task.arg is not NO_ARG or not _waits_already(held, task.node):
            held.append(Held(task, gather=gather))
    frontier, held = settle(program, due, held)
    at_rest = not frontier and not held
    return tuple(frontier), tuple(held), {} if at_rest else joins


def _node_tasks(program: Program, nodes: Iterable[str], origin: str) -> list[Task]:
    ordered = sorted(nodes, key=program.order.__getitem__)
    return [Task(name, NO_ARG, origin, position) for position, name in enumerate(ordered)]


def _send_tasks(sends: Sequence[Send], origin: str, first: int) -> list[Task]:
    return [Task(send.node, send.arg, origin, position) for position, send in enumerate(sends, first)]


def _waits_already(held: Sequence[Held], node: str) -> bool:
    return any(one.task.node == node and one.task.arg is NO_ARG and not one.gather for one in held)


def _arrivals(program: Program, joins: Joins, results: Sequence[TaskResult]) -> tuple[set[str], Joins]:
    """The nodes that are due, and the joins that still wait for somebody."""
    nodes: set[str] = set()
    arrived = dict(joins)
    for result in results:
        source = program.nodes[result.task.node]
        reached = () if result.goto else source.joins
        for target in result.targets:
            if type(target) is str and target != END:
                join = source.joined_to(target) if result.goto else None
                reached = (*reached, join) if join is not None else reached
                if join is None:
                    nodes.add(target)
        for join in reached:
            arrived[join.key] = arrived.get(join.key, frozenset()) | {source.reach_as}
        nodes.update(subscriber for name, _ in pairs_of(result) for subscriber in program.subscribers.get(name, ()))
    for join in program.graph.joins:
        if arrived.get(join.key) == frozenset(join.starts):
            del arrived[join.key]
            if join.end != END:
                nodes.add(join.end)
    return nodes, arrived


def settle(program: Program, due: list[Task], held: list[Held]) -> tuple[list[Task], list[Held]]:
    """The tasks that can start, and those that go on waiting."""
    if not held:
        return due, held
    free = _unblocked(program, held)
    bits = _bits(program, (task.node for task in due))
    idle = {one.task.node for one in held if not one.gather and program.graph.nodes[one.task.node].join == "idle"}
    ready = {node for node in free - idle if not bits >> program.order[node] & 1}
    if not due and not ready:
        ready = free
    started = [one for one in held if one.task.node in ready]
    waiting = [one for one in held if one.task.node not in ready]
    return [*due, *_released(program, started)], waiting


def _unblocked(program: Program, held: Sequence[Held]) -> set[str]:
    """The waiting nodes that no other waiting node blocks."""
    nodes = sorted({one.task.node for one in held}, key=program.order.__getitem__)
    return {node for node in nodes if not any(_blocks(program, other, node) for other in nodes if other != node)}


def _blocks(program: Program, first: str, then: str) -> bool:
    reach, order = program.graph.reach, program.order
    reaches = reach[first] >> order[then] & 1
    back = reach[then] >> order[first] & 1
    return bool(reaches and (not back or order[first] < order[then]))


def _bits(program: Program, nodes: Iterable[str]) -> int:
    """All nodes that any of `nodes` can still reach."""
    bits = 0
    for node in set(nodes):
        bits |= program.graph.reach[program.nodes[node].reach_as]
    return bits


def _released(program: Program, started: Sequence[Held]) -> list[Task]:
    """What was held, as tasks: nodes by declaration, each with its Sends; gathered Sends as one task a node."""
    tasks: list[Task] = []
    for node in sorted({one.task.node for one in started}, key=program.order.__getitem__):
        own = [one for one in started if one.task.node == node]
        tasks.extend(one.task for one in own if not one.gather)
        gathered = [one.task for one in own if one.gather]
        if gathered:
            first = gathered[0]
            tasks.append(Task(node, [task.arg for task in gathered], first.origin, first.position))
    return tasks

"""The frontier of a checkpoint: the tasks that are due next, and the tasks that have to wait.

`join="any"`: a node that is due starts in the next superstep, once, however many led to it.
`join="reachable"` and gathered Sends: held while any task that is due, or another node that waits, can still reach
the node over declared edges. `join="idle"`: held while anything else is due at all.

One relation decides among those that wait: g *blocks* h if g reaches h, unless they are in a cycle and h was declared
first. It is a strict partial order, so somebody can always start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from statewright.checkpoint import NO_ARG, Checkpoint, DeferredTask, Joins, Pending, Task, TaskResult, TimedTask
from statewright.graph import END, STOP, Send
from statewright.runtime.core.fold import pairs_of
from statewright.runtime.core.program import Program, is_hidden
from statewright.runtime.tasks.policies import time_limit

Next = tuple[tuple[Task, ...], tuple[DeferredTask, ...], Joins]
"""The frontier, the held tasks, and the joins that some sources have reached."""


def simple_frontier(program: Program, results: Sequence[TaskResult], origin: str) -> tuple[Task, ...] | None:
    """Return the frontier if each target becomes a task at once; None if a task may be held, or a target stops the run.

    For programs without joins, waiting nodes and subscriptions. `origin` is the commit that will hold the frontier.
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
    held: Sequence[DeferredTask],
) -> Next:
    """Return the due and the held tasks after results, together with those in `due` and `held`."""
    if any(target == STOP for result in results for target in result.targets if type(target) is str):
        return (), (), {}
    nodes, arrived = _arrivals(program, joins, results)
    nodes -= {task.node for task in due if task.arg is NO_ARG}
    nodes -= {one.task.node for one in held if one.task.arg is NO_ARG}
    sends = [(target, result.task.node) for result in results for target in result.targets if type(target) is Send]
    starting, waiting = list(due), list(held)
    for task in _node_tasks(program, nodes, origin):
        if task.node in program.waiting_nodes:
            waiting.append(DeferredTask(task))
        else:
            starting.append(task)
    for position, (send, sender) in enumerate(sends, len(nodes)):
        task = _send_task(send, origin, position)
        if send.gather or task.node in program.waiting_nodes:
            waiting.append(DeferredTask(task, gather=send.gather, sender=sender))
        else:
            starting.append(task)
    frontier, waiting = settle(program, starting, waiting)
    at_rest = not frontier and not waiting
    return tuple(frontier), tuple(waiting), {} if at_rest else arrived


def _node_tasks(program: Program, nodes: Iterable[str], origin: str) -> list[Task]:
    ordered = sorted(nodes, key=program.order.__getitem__)
    return [Task(name, NO_ARG, origin, position) for position, name in enumerate(ordered)]


def _send_tasks(sends: Sequence[Send], origin: str, first: int) -> list[Task]:
    return [Task(send.node, send.arg, origin, position) for position, send in enumerate(sends, first)]


def _send_task(send: Send, origin: str, position: int) -> Task:
    limit = time_limit(send.timeout)
    if limit is None:
        return Task(send.node, send.arg, origin, position)
    return TimedTask(send.node, send.arg, origin, position, limit)


def _arrivals(program: Program, joins: Joins, results: Sequence[TaskResult]) -> tuple[set[str], Joins]:
    """Return the nodes that are due, and the joins that still wait for a source."""
    nodes: set[str] = set()
    arrived = dict(joins)
    for result in results:
        source = program.nodes.get(result.task.node)  # END, as which a caller may update, is none
        if source is None:
            continue
        reached = () if result.goto else source.joins
        for target in result.targets:
            if type(target) is str:
                joins_there = source.joined_to(target) if result.goto else ()
                reached = (*reached, *joins_there)
                if not joins_there:
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


def half_reached(program: Program, joins: Joins, results: Sequence[TaskResult]) -> Joins:
    """Return the joins that only some sources have reached after the last superstep; none if a goto stopped the run."""
    if any(target == STOP for result in results for target in result.targets if type(target) is str):
        return {}
    return _arrivals(program, joins, results)[1]


def settle(program: Program, due: list[Task], held: list[DeferredTask]) -> tuple[list[Task], list[DeferredTask]]:
    """Return the tasks that can start, and the tasks that keep waiting."""
    if not held:
        return _ordered(program, due), held
    free = _unblocked(program, held)
    bits = _bits(program, (task.node for task in due))
    idle = {one.task.node for one in held if not one.gather and program.graph.nodes[one.task.node].join == "idle"}
    ready = {node for node in free - idle if not bits >> program.order[node] & 1}
    if not due and not ready:
        ready = free
    started = [one for one in held if one.task.node in ready]
    waiting = [one for one in held if one.task.node not in ready]
    return _ordered(program, [*due, *_released(program, started)]), waiting


def _ordered(program: Program, tasks: Sequence[Task]) -> list[Task]:
    """Sort tasks: nodes in the order of declaration, then Sends in the order of sending."""
    nodes = sorted((task for task in tasks if task.arg is NO_ARG), key=lambda task: program.order[task.node])
    return [*nodes, *(task for task in tasks if task.arg is not NO_ARG)]


def _unblocked(program: Program, held: Sequence[DeferredTask]) -> set[str]:
    """Return the waiting nodes that no other waiting node blocks."""
    nodes = sorted({one.task.node for one in held}, key=program.order.__getitem__)
    return {node for node in nodes if not any(_blocks(program, other, node) for other in nodes if other != node)}


def _blocks(program: Program, first: str, then: str) -> bool:
    reach, order = program.graph.reach, program.order
    reaches = reach[first] >> order[then] & 1
    back = reach[then] >> order[first] & 1
    return bool(reaches and (not back or order[first] < order[then]))


def _bits(program: Program, nodes: Iterable[str]) -> int:
    """Return all nodes that any of `nodes` can still reach."""
    bits = 0
    for node in set(nodes):
        bits |= program.graph.reach[program.nodes[node].reach_as]
    return bits


def _released(program: Program, started: Sequence[DeferredTask]) -> list[Task]:
    """Turn held items into tasks: in the order of declaration, each node with its Sends; gathered Sends as one task."""
    tasks: list[Task] = []
    for node in sorted({one.task.node for one in started}, key=program.order.__getitem__):
        own = [one for one in started if one.task.node == node]
        tasks.extend(one.task for one in own if not one.gather)
        gathered = sorted((one for one in own if one.gather), key=lambda one: _place(program, one.sender))
        if gathered:
            first = next(one.task for one in own if one.gather)
            tasks.append(Task(node, [one.task.arg for one in gathered], first.origin, first.position))
    return tasks


def _place(program: Program, sender: str) -> int:
    """Return the position of a sender in the order of declaration; START comes first."""
    return program.order.get(program.nodes[sender].reach_as, -1)


# -- planning: the tasks of the next superstep are read off the frontier of the last commit


def due_tasks(checkpoint: Checkpoint, pending: Pending) -> tuple[Task, ...]:
    """Return the tasks of the frontier that have no result yet and wait for no answer, in order.

    Pure: the same checkpoint gives the same tasks and ids.
    """
    return tuple(
        task for task in checkpoint.frontier if task.id not in pending.completed and not pending.waits(task.id)
    )


def matches(names: frozenset[str], tasks: Iterable[Task]) -> bool:
    """True if a breakpoint names one of the tasks; `"*"` names all except nodes that the library has added."""
    if "*" in names:
        return any(not is_hidden(task) for task in tasks)
    return any(task.node in names for task in tasks)

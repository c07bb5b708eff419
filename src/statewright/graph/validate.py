"""Everything that can be wrong with a graph before it runs, found in one go.

*Fatal* problems concern parts that cannot work at all. Problems of *shape* concern how the parts hang together;
`strict=False` turns those into warnings.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from statewright.channels import LastValue
from statewright.clock import as_seconds
from statewright.errors import nearest
from statewright.graph.command import END, RESERVED, START, STOP
from statewright.graph.context import SubgraphLike
from statewright.graph.graph import Graph
from statewright.graph.node import Branch, Join, Memory, Node
from statewright.graph.parameters import (
    ASKABLE,
    declared_by_hint,
    is_coroutine_function,
    may_go_anywhere,
    read_parameters,
)
from statewright.graph.policy import (
    CachePolicy,
    CircuitBreaker,
    RateLimit,
    RetryPolicy,
    TimeoutPolicy,
    is_policy_of,
)


@dataclass(frozen=True, slots=True)
class Problems:
    """What was found, in the order of declaration."""

    fatal: tuple[str, ...]
    shape: tuple[str, ...]


def find_problems(
    graph: Graph, *, interrupts: Sequence[str] = (), entered: Sequence[str] = (), has_store: bool = True
) -> Problems:
    """All problems of a graph."""
    fatal = [
        *_schema_problems(graph),
        *(problem for node in graph.nodes.values() for problem in _node_problems(graph, node, has_store)),
        *_tag_problems(graph),
    ]
    shape = [
        *(problem for name in graph.nodes for problem in _name_problems(name)),
        *_alias_problems(graph),
        *_edge_problems(graph),
        *_branch_problems(graph),
        *_destination_problems(graph),
        *_interrupt_problems(graph, interrupts),
        *_entered_problems(graph, entered),
        *_entry_problems(graph),
        *_certain_conflicts(graph),
    ]
    # Unreachable nodes follow from unknown names as often as not: say so only where the names are right.
    return Problems(tuple(fatal), tuple(shape or _unreachable(graph, entered)))


def _schema_problems(graph: Graph) -> Iterator[str]:
    if graph.answers_to is not None and graph.answers_to not in graph.fields:
        yield f"answers_to={graph.answers_to!r} is no field of the state. {_hint(graph.answers_to, graph.fields)}"
    for which, schema in (("state", graph.schema), ("input", graph.input_schema)):
        for name in schema.derived:
            yield f"The {which} schema holds {name!r}, which is Derived. Only an output schema of its own may hold it."
    for which, schema in (("input", graph.input_schema), ("output", graph.output_schema)):
        if schema is graph.schema:
            continue
        for name, managed in schema.managed.items():
            yield f"The {which} schema holds {name!r}, a computed value ({managed}). Only the state may hold it."


def _node_problems(graph: Graph, node: Node, has_store: bool) -> Iterator[str]:
    if node.join not in typing.get_args(Join):
        yield f"Node {node.name!r}: unknown join {node.join!r}. {_kinds(typing.get_args(Join))}"
    if node.memory not in typing.get_args(Memory):
        yield f"Node {node.name!r}: unknown memory {node.memory!r}. {_kinds(typing.get_args(Memory))}"
    elif node.memory != "call" and not node.is_subgraph:
        yield f"Node {node.name!r}: memory={node.memory!r} is for subgraphs, and this node is a function."
    for channel in node.on:
        if channel not in graph.fields:
            hint = _hint(channel, graph.fields)
            yield f"Node {node.name!r} waits for channel {channel!r}, which does not exist. {hint}"
    yield from _policy_problems(node)
    yield from _access_problems(graph, node)
    if node.is_subgraph:
        return
    yield from _parameter_problems(f"Node {node.name!r}", node.action, has_store)
    if node.error_handler is not None:
        yield from _parameter_problems(f"The error handler of node {node.name!r}", node.error_handler, has_store)
    if node.inline and is_coroutine_function(node.action):
        yield f"Node {node.name!r} is a coroutine, which always runs on the loop. Drop inline=True."


def _policy_problems(node: Node) -> Iterator[str]:
    """What is wrong with policies of one node, one by one and together."""
    if not any(map(node.__getattribute__, _CHECKED)):
        return
    who = f"Node {node.name!r}"
    for option, kind in _POLICIES.items():
        given: object = getattr(node, option)
        for policy in cast(tuple[object, ...], given) if isinstance(given, tuple) else (given,):
            if policy is not None and not is_policy_of(kind, policy):
                yield f"{who}: {option}= is {policy!r}. Pass a {kind.__name__}(...)."
    if node.max_concurrency is not None and not _is_count(node.max_concurrency):
        yield f"{who}: max_concurrency is {node.max_concurrency!r}. Give a whole number of at least 1."
    if node.inline and node.timeout is not None:
        yield f"{who} has a timeout and inline=True: nobody could stop waiting for it. Drop one of them."
    if isinstance(node.timeout, TimeoutPolicy) and _never_idles(node.timeout):
        yield f"{who}: idle_timeout is longer than run_timeout, so it can never strike. Shorten it, or drop it."
    if node.memory == "thread" and node.cache_policy is not None:
        yield f"{who} remembers (memory='thread') and is cached: a cached answer would forget. Drop one of them."


def _never_idles(timeout: TimeoutPolicy) -> bool:
    run, idle = timeout.run_timeout, timeout.idle_timeout
    return run is not None and idle is not None and as_seconds(idle) > as_seconds(run)


_POLICIES = {
    "retry_policy": RetryPolicy,
    "timeout": TimeoutPolicy,
    "cache_policy": CachePolicy,
    "rate_limit": RateLimit,
    "circuit_breaker": CircuitBreaker,
}


_CHECKED = (*_POLICIES, "max_concurrency", "inline")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _access_problems(graph: Graph, node: Node) -> Iterator[str]:
    """What is wrong with the fields that a node declares to read and write."""
    for what, names in (("reads", node.reads), ("writes", node.writes)):
        for name in names or ():
            if name not in graph.fields and name not in graph.schema.managed and graph.schema.closed:
                yield f"Node {node.name!r} {what} {name!r}: there is no such field. {_hint(name, graph.fields)}"


def _certain_conflicts(graph: Graph) -> Iterator[str]:
    """Fields that hold one value and that two nodes of one superstep have declared to write."""
    for source, ends in graph.edges.items():
        beside = [graph.nodes[end] for end in ends if end in graph.nodes and graph.nodes[end].join == "any"]
        for place, first in enumerate(beside):
            for second in beside[place + 1 :]:
                for name in first.writes or ():
                    if name in (second.writes or ()) and _holds_one(graph, name):
                        yield (
                            f"Nodes {first.name!r} and {second.name!r} both follow {source!r} and both write {name!r}, "
                            f"which keeps one value. Give the field a reducer, or put one node after the other."
                        )


def _holds_one(graph: Graph, name: str) -> bool:
    return name not in graph.fields or type(graph.fields[name].channel) is LastValue


def _tag_problems(graph: Graph) -> Iterator[str]:
    tags = {tag for node in graph.nodes.values() for tag in node.tags}
    for tag, limits in graph.tag_limits.items():
        if tag not in tags:
            yield f"Limits are set for the tag {tag!r}, which no node has. {_hint(tag, tags)}"
        if limits.max_concurrency is not None and not _is_count(limits.max_concurrency):
            yield f"Tag {tag!r}: max_concurrency is {limits.max_concurrency!r}. Give a whole number of at least 1."


def _parameter_problems(who: str, action: object, has_store: bool) -> Iterator[str]:
    try:
        parameters = read_parameters(action)  # pyright: ignore  # checked to be callable by the builder
    except (TypeError, ValueError):
        return  # a builtin without a signature: it gets the state
    for name in parameters.unknown:
        yield (
            f"{who} asks for the parameter {name!r}, which nothing here can fill. {_guess(name, ASKABLE)}"
            f"Give it a default, or ask for one of {', '.join(ASKABLE)}."
        )
    if not has_store and any(name in parameters.required and wanted == "store" for name, wanted in parameters.asked):
        yield f"{who} asks for a store, and there is none. Pass compile(store=...)."


def _name_problems(name: str) -> Iterator[str]:
    if name in RESERVED:
        yield f"Node {name!r}: this name is reserved. Choose another one."
    elif not name:
        yield "A node has an empty name."
    elif "|" in name or ":" in name:
        yield f"Node {name!r}: '|' and ':' separate the parts of namespaces. Choose a name without them."


def _alias_problems(graph: Graph) -> Iterator[str]:
    """Former names that do not say which node a saved thread means."""
    owners: dict[str, str] = {}
    for node in graph.nodes.values():
        for alias in node.aliases:
            if alias in graph.nodes and alias != node.name:
                yield (
                    f"Node {node.name!r} has the former name {alias!r}, which is another node's name now: a thread "
                    f"that stopped at {alias!r} could mean either. Drop the alias, or rename that node."
                )
            owner = owners.setdefault(alias, node.name)
            if owner != node.name:
                yield f"Nodes {owner!r} and {node.name!r} have one former name, {alias!r}. Give it to one of them."


def _edge_problems(graph: Graph) -> Iterator[str]:
    plain = ((start, end, f"Edge {start!r} -> {end!r}") for start, ends in graph.edges.items() for end in ends)
    joined = (
        (start, join.end, f"Join edge {list(join.starts)!r} -> {join.end!r}")
        for join in graph.joins
        for start in join.starts
    )
    seen_ends: set[str] = set()
    for start, end, edge in (*plain, *joined):
        if start == END:
            yield f"{edge}: nothing can follow END."
        elif start not in graph.nodes and start != START:
            yield f"{edge}: there is no node {start!r}. {_hint(start, graph.nodes)}"
        if edge in seen_ends:
            continue
        seen_ends.add(edge)
        if end == START:
            yield f"{edge}: START cannot be entered again. Lead the edge to the node after START."
        elif end not in graph.nodes and end != END:
            yield f"{edge}: there is no node {end!r}. {_hint(end, graph.nodes)}"


def _branch_problems(graph: Graph) -> Iterator[str]:
    for source, branches in graph.branches.items():
        if source not in graph.nodes and source != START:
            yield f"The conditional edge from {source!r}: there is no such node. {_hint(source, graph.nodes)}"
        for branch in branches:
            yield from _target_problems(graph, branch)


def _target_problems(graph: Graph, branch: Branch) -> Iterator[str]:
    where = f"The conditional edge {branch.name!r} from {branch.source!r}"
    if branch.targets is not None and not branch.targets:
        yield f"{where} has no targets. List them in path_map."
    for target in dict.fromkeys((branch.targets or {}).values()):
        if target not in graph.nodes and target not in (END, STOP):
            yield f"{where} leads to {target!r}: there is no such node. {_hint(target, graph.nodes)}"


def _destination_problems(graph: Graph) -> Iterator[str]:
    for node in graph.nodes.values():
        for target in node.destinations or ():
            if target not in graph.nodes and target not in RESERVED:
                yield f"Node {node.name!r} declares the destination {target!r}: there is no such node. " + _hint(
                    target, graph.nodes
                )


def _interrupt_problems(graph: Graph, interrupts: Sequence[str]) -> Iterator[str]:
    for name in interrupts:
        if name not in graph.nodes and name != "*":
            yield f"An interrupt is set at {name!r}: there is no such node. {_hint(name, graph.nodes)}"


def _entry_problems(graph: Graph) -> Iterator[str]:
    if not graph.nodes:
        yield "The graph has no nodes. Add one with add_node(name, function)."
    elif not (graph.edges.get(START) or graph.branches.get(START) or START in graph.joins_by_start):
        first = next(iter(graph.nodes))
        yield f"The graph has no entry. Add an edge from START, e.g. add_edge(START, {first!r})."


def _entered_problems(graph: Graph, entered: Sequence[str]) -> Iterator[str]:
    for name in entered:
        if name not in graph.nodes:
            yield f"The budget names {name!r}: there is no such node. {_hint(name, graph.nodes)}"


def _unreachable(graph: Graph, entered: Sequence[str]) -> Iterator[str]:
    seen = {START, *entered}
    pending = [*seen, *(node.name for node in graph.nodes.values() if node.on)]
    while pending:
        source = pending.pop()
        seen.add(source)
        pending.extend(target for target in _leads_to(graph, source) if target not in seen)
    for name in graph.nodes:
        if name not in seen:
            yield (
                f"Node {name!r} cannot be reached: no edge, conditional edge or declared destination leads to it. "
                f"Add an edge, or name it in destinations= of the node whose Command or Send goes there."
            )


def _leads_to(graph: Graph, source: str) -> Iterable[str]:
    """Where a node leads; one without any way out that declares nothing may answer a Command to anywhere."""
    ways = graph.ways[source]
    node = graph.nodes.get(source)
    if ways or node is None or node.destinations is not None:
        return ways
    if node.is_subgraph and not _may_leave(cast(SubgraphLike, node.action).graph):
        return ways
    return () if has_declared_end(graph, node) else graph.nodes


def _may_leave(graph: Graph) -> bool:
    """Whether a node of a subgraph may answer a Command for the graph that holds it: no hint says that it does not."""
    return any(not node.is_subgraph and _may_command(node) for node in graph.nodes.values())


def _may_command(node: Node) -> bool:
    try:
        returns = read_parameters(node.action).returns  # pyright: ignore  # no subgraph
    except (TypeError, ValueError):
        return True
    return returns is None or may_go_anywhere(returns) or declared_by_hint(returns) is not None


def has_declared_end(graph: Graph, node: Node) -> bool:
    """Whether the graph says that a path ends at `node`: by an edge to END, or by a hint that admits no Command."""
    if node.name in graph.edges or node.name in graph.branches or node.name in graph.joins_by_start:
        return True
    try:
        return read_parameters(node.action).returns is not None  # pyright: ignore  # no subgraph
    except (TypeError, ValueError):
        return False


def _hint(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    return f"{_guess(name, names)}Known: {', '.join(names) if names else 'none'}."


def _guess(name: str, known: Iterable[str]) -> str:
    guess = nearest(name, known)
    return f"Did you mean {guess!r}? " if guess else ""


def _kinds(kinds: Sequence[str]) -> str:
    return f"Kinds: {', '.join(kinds)}."

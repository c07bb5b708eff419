"""Validation of graphs. All problems are reported together, before anything runs.

A problem is *fatal* if a node or schema cannot work at all, for example a node whose parameters cannot be injected. A
problem of *structure* concerns the connections between nodes, for example an edge to an unknown node. With
`strict=False`, problems of structure are only warnings, because programs that were written for less strict libraries
contain such problems. Each check is an independent generator of sentences, and problems are reported in the order of
the checks. Unreachable nodes are an exception: they are usually the consequence of a misspelt name, so they are
reported only if there is no other problem of structure.

A check must not reject a graph that could work. Unless a return hint or `destinations` declares the targets of a node's
Commands, they are unknown, so the node may lead to any node (`_successors`).
"""

from __future__ import annotations

import typing
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from statewright.channels import LastValue
from statewright.clock import as_seconds
from statewright.errors import nearest, suggestion
from statewright.graph.command import END, RESERVED, START, STOP
from statewright.graph.context import SubgraphLike
from statewright.graph.functions.hints import declared_by_hint, may_go_anywhere, return_hint
from statewright.graph.functions.parameters import INJECTABLE, is_coroutine_function, read_parameters
from statewright.graph.graph import Graph
from statewright.graph.node import Branch, Join, Memory, Node
from statewright.graph.policy import CachePolicy, CircuitBreaker, RateLimit, RetryPolicy, TimeoutPolicy


@dataclass(frozen=True, slots=True)
class Problems:
    """The problems of a graph, in the order of the checks."""

    fatal: tuple[str, ...]
    structure: tuple[str, ...]


def find_problems(
    graph: Graph, *, interrupts: Sequence[str] = (), entered: Sequence[str] = (), has_store: bool = True
) -> Problems:
    """Return all problems of a graph.

    `interrupts` are the names of nodes with breakpoints, and `entered` the names of nodes that run although no edge
    leads to them. Both are checked as well.
    """
    fatal = [
        *_schema_problems(graph),
        *(problem for node in graph.nodes.values() for problem in _node_problems(graph, node, has_store)),
        *_tag_problems(graph),
    ]
    structure = [
        *(problem for name in graph.nodes for problem in _name_problems(name)),
        *_alias_problems(graph),
        *_edge_problems(graph),
        *_branch_problems(graph),
        *_reference_problems(graph, interrupts, entered),
        *_entry_problems(graph),
        *_conflict_problems(graph),
    ]
    return Problems(tuple(fatal), tuple(structure or _unreachable(graph, entered)))


def _schema_problems(graph: Graph) -> Iterator[str]:
    if graph.answers_to is not None and graph.answers_to not in graph.fields:
        hint = suggestion(graph.answers_to, graph.fields, noun="Fields")
        yield f"answers_to={graph.answers_to!r} is not a field of the state. {hint}"
    for role, schema in (("state", graph.schema), ("input", graph.input_schema)):
        for name in schema.derived:
            yield f"The {role} schema contains {name!r}, which is Derived. Only an output schema may contain it."
    for role, schema in (("input", graph.input_schema), ("output", graph.output_schema)):
        if schema is graph.schema:
            continue
        for name, managed in schema.managed.items():
            yield f"The {role} schema contains {name!r}, a computed value ({managed}). Only the state may contain it."


def _node_problems(graph: Graph, node: Node, has_store: bool) -> Iterator[str]:
    for option, choices in (("join", typing.get_args(Join)), ("memory", typing.get_args(Memory))):
        if getattr(node, option) not in choices:
            yield f"Node {node.name!r}: unknown {option} {getattr(node, option)!r}. Choices: {', '.join(choices)}."
    if node.memory in ("thread", "none") and not node.is_subgraph:
        yield f"Node {node.name!r}: memory={node.memory!r} is for subgraphs, and this node is a function."
    for channel in node.on:
        if channel not in graph.fields:
            hint = suggestion(channel, graph.fields, noun="Fields")
            yield f"Node {node.name!r} waits for channel {channel!r}, which does not exist. {hint}"
    yield from _policy_problems(node)
    yield from _access_problems(graph, node)
    if node.executor is not None:
        yield from _executor_problems(node)
    if node.is_subgraph:
        return
    yield from _parameter_problems(f"Node {node.name!r}", node.action, has_store)
    if node.error_handler is not None:
        yield from _parameter_problems(f"The error handler of node {node.name!r}", node.error_handler, has_store)
    if node.inline and is_coroutine_function(node.action):
        yield f"Node {node.name!r} is a coroutine function, which always runs on the event loop. Remove inline=True."


def _policy_problems(node: Node) -> Iterator[str]:
    """Report invalid policies of a node, and policies that exclude each other."""
    if not any(getattr(node, option) for option in _CHECKED_OPTIONS):
        return
    name = f"Node {node.name!r}"
    for option, cls in _POLICY_CLASSES.items():
        value: object = getattr(node, option)
        for policy in cast(tuple[object, ...], value) if isinstance(value, tuple) else (value,):
            if policy is not None and not isinstance(policy, cls):
                yield f"{name}: {option}= is {policy!r}. Pass a {cls.__name__}(...)."
    if node.max_concurrency is not None and not _is_count(node.max_concurrency):
        yield f"{name}: max_concurrency is {node.max_concurrency!r}. Pass an integer of at least 1."
    if node.inline and node.timeout is not None:
        yield f"{name} has a timeout and inline=True: calls on the event loop cannot be abandoned. Remove one of them."
    if isinstance(node.timeout, TimeoutPolicy) and _has_useless_idle_timeout(node.timeout):
        yield f"{name}: idle_timeout is longer than run_timeout, so it can never apply. Shorten it, or remove it."
    if node.memory == "thread" and node.cache_policy is not None:
        yield (
            f"{name} has memory='thread' and a cache policy, but a cached result does not change the memory of the "
            f"subgraph. Remove one of them."
        )


def _executor_problems(node: Node) -> Iterator[str]:
    """Report options and parameters that a node cannot have if it runs in another process."""
    name = f"Node {node.name!r} has executor={node.executor!r}"
    if node.is_subgraph:
        yield f"{name}, but it is a graph, which needs the thread of its caller. Give the executor to its nodes."
        return
    if node.inline:
        yield f"{name} and inline=True, which means the thread of the driver. Remove one of them."
    if isinstance(node.timeout, TimeoutPolicy) and node.timeout.idle_timeout is not None:
        yield f"{name} and an idle_timeout, but heartbeats of other processes do not arrive. Use run_timeout."
    try:
        injected = read_parameters(node.action).injected  # pyright: ignore[reportArgumentType]  # not a graph
    except (TypeError, ValueError):
        return  # a builtin without a signature is called with the state
    for parameter, kind in injected:
        if kind in ("store", "previous"):
            yield f"{name}, but its parameter {parameter!r} exists only in the process of the run. Remove one of them."


def _has_useless_idle_timeout(timeout: TimeoutPolicy) -> bool:
    run, idle = timeout.run_timeout, timeout.idle_timeout
    return run is not None and idle is not None and as_seconds(idle) > as_seconds(run)


_POLICY_CLASSES = {
    "retry_policy": RetryPolicy,
    "timeout": TimeoutPolicy,
    "cache_policy": CachePolicy,
    "rate_limit": RateLimit,
    "circuit_breaker": CircuitBreaker,
}
_CHECKED_OPTIONS = (*_POLICY_CLASSES, "max_concurrency", "inline")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _access_problems(graph: Graph, node: Node) -> Iterator[str]:
    """Report unknown fields in the `reads` and `writes` of a node."""
    for verb, names in (("reads", node.reads), ("writes", node.writes)):
        for name in names or ():
            if name not in graph.fields and name not in graph.schema.managed and graph.schema.closed:
                hint = suggestion(name, graph.fields, noun="Fields")
                yield f"Node {node.name!r} {verb} {name!r}: there is no such field. {hint}"


def _conflict_problems(graph: Graph) -> Iterator[str]:
    """Report fields without a reducer that two nodes declare to write, if both always run in the same superstep."""
    for source, ends in graph.edges.items():
        siblings = [graph.nodes[end] for end in ends if end in graph.nodes and graph.nodes[end].join == "any"]
        for index, first in enumerate(siblings):
            for second in siblings[index + 1 :]:
                for name in first.writes or ():
                    if name in (second.writes or ()) and _has_single_writer(graph, name):
                        yield (
                            f"Nodes {first.name!r} and {second.name!r} both follow {source!r} and both write {name!r}, "
                            f"which keeps one value. Give the field a reducer, or put one node after the other."
                        )


def _has_single_writer(graph: Graph, name: str) -> bool:
    return name not in graph.fields or type(graph.fields[name].channel) is LastValue


def _tag_problems(graph: Graph) -> Iterator[str]:
    tags = {tag for node in graph.nodes.values() for tag in node.tags}
    for tag, limits in graph.tag_limits.items():
        if tag not in tags:
            yield f"Limits are set for the tag {tag!r}, which no node has. {suggestion(tag, tags, noun='Tags')}"
        if limits.max_concurrency is not None and not _is_count(limits.max_concurrency):
            yield f"Tag {tag!r}: max_concurrency is {limits.max_concurrency!r}. Pass an integer of at least 1."


def _parameter_problems(owner: str, action: object, has_store: bool) -> Iterator[str]:
    try:
        parameters = read_parameters(action)  # pyright: ignore  # the builder has checked that it is callable
    except (TypeError, ValueError):
        return  # a builtin without a signature, which is called with the state
    for name in parameters.unknown:
        guess = nearest(name, INJECTABLE)
        yield (
            f"{owner} has the parameter {name!r}, which cannot be injected. "
            + (f"Did you mean {guess!r}? " if guess else "")
            + f"Give it a default, or use one of {', '.join(INJECTABLE)}."
        )
    if not has_store and any(name in parameters.required and kind == "store" for name, kind in parameters.injected):
        yield f"{owner} has a store parameter, but the graph has no store. Pass compile(store=...)."


def _name_problems(name: str) -> Iterator[str]:
    if name in RESERVED:
        yield f"Node {name!r}: this name is reserved. Choose another one."
    elif not name:
        yield "A node has an empty name."
    elif "|" in name or ":" in name:
        yield f"Node {name!r}: '|' and ':' separate the parts of namespaces. Choose a name without them."


def _alias_problems(graph: Graph) -> Iterator[str]:
    """Report aliases that would make the names of nodes in saved threads ambiguous."""
    owners: dict[str, str] = {}
    for node in graph.nodes.values():
        for alias in node.aliases:
            if alias in graph.nodes and alias != node.name:
                yield (
                    f"Node {node.name!r} has the alias {alias!r}, which is the name of another node: a saved thread "
                    f"could mean either. Remove the alias, or rename that node."
                )
            owner = owners.setdefault(alias, node.name)
            if owner != node.name:
                yield f"Nodes {owner!r} and {node.name!r} have the same alias {alias!r}. Remove it from one of them."


def _edge_problems(graph: Graph) -> Iterator[str]:
    edges = ((start, end, f"Edge {start!r} -> {end!r}") for start, ends in graph.edges.items() for end in ends)
    joins = (
        (start, join.end, f"Join edge {list(join.starts)!r} -> {join.end!r}")
        for join in graph.joins
        for start in join.starts
    )
    checked: set[str] = set()
    for start, end, edge in (*edges, *joins):
        if start == END:
            yield f"{edge}: nothing can follow END."
        elif start not in graph.nodes and start != START:
            yield f"{edge}: node {start!r} does not exist. {suggestion(start, graph.nodes, noun='Nodes')}"
        if edge in checked:
            continue
        checked.add(edge)
        if end == START:
            yield f"{edge}: START cannot be entered again. Point the edge at the node after START."
        elif end not in graph.nodes and end != END:
            yield f"{edge}: node {end!r} does not exist. {suggestion(end, graph.nodes, noun='Nodes')}"


def _branch_problems(graph: Graph) -> Iterator[str]:
    for branch in (branch for branches in graph.branches.values() for branch in branches):
        if branch.targets is not None and not branch.targets:
            yield f"{_name_of(branch)} has no targets. List them in path_map."


def _name_of(branch: Branch) -> str:
    return f"The conditional edge {branch.name!r} from {branch.source!r}"


def _reference_problems(graph: Graph, interrupts: Sequence[str], entered: Sequence[str]) -> Iterator[str]:
    """Report unknown nodes in conditional edges, destinations, interrupts and the budget."""
    for subject, name, reserved in _references(graph, interrupts, entered):
        if name not in graph.nodes and name not in reserved:
            yield f"{subject} {name!r}: there is no such node. {suggestion(name, graph.nodes, noun='Nodes')}"


def _references(
    graph: Graph, interrupts: Sequence[str], entered: Sequence[str]
) -> Iterator[tuple[str, str, Container[str]]]:
    """Yield a tuple for each reference to a node.

    Its elements are the subject of a sentence about the reference, the name, and the names that are allowed there
    although they are not nodes.
    """
    for source, branches in graph.branches.items():
        yield "The conditional edge from", source, (START,)
        for branch in branches:
            for target in dict.fromkeys((branch.targets or {}).values()):
                yield f"{_name_of(branch)} leads to", target, (END, STOP)
    for node in graph.nodes.values():
        for target in node.destinations or ():
            yield f"Node {node.name!r} declares the destination", target, RESERVED
    for name in interrupts:
        yield "An interrupt is set at", name, ("*",)
    for name in entered:
        yield "The budget names", name, ()


def _entry_problems(graph: Graph) -> Iterator[str]:
    if not graph.nodes:
        yield "The graph has no nodes. Add one with add_node(name, function)."
    elif not (graph.edges.get(START) or graph.branches.get(START) or START in graph.joins_by_start):
        first = next(iter(graph.nodes))
        yield f"The graph has no entry. Add an edge from START, e.g. add_edge(START, {first!r})."


def _unreachable(graph: Graph, entered: Sequence[str]) -> Iterator[str]:
    reached = {START, *entered}
    pending = [*reached, *(node.name for node in graph.nodes.values() if node.on)]
    while pending:
        source = pending.pop()
        reached.add(source)
        pending.extend(target for target in _successors(graph, source) if target not in reached)
    for name in graph.nodes:
        if name not in reached:
            yield (
                f"Node {name!r} cannot be reached: no edge, conditional edge or declared destination leads to it. "
                f"Add an edge, or name it in destinations= of the node whose Command or Send goes there."
            )


def _successors(graph: Graph, source: str) -> Iterable[str]:
    """Return the nodes that may follow a node: all nodes if it has no edges and may return a Command to any node."""
    successors = graph.successors[source]
    node = graph.nodes.get(source)
    if successors or node is None or node.destinations is not None:
        return successors
    if node.is_subgraph and not _may_return_parent_command(cast(SubgraphLike, node.action).graph):
        return successors
    return () if _is_end_of_path(graph, node) else graph.nodes


def _may_return_parent_command(graph: Graph) -> bool:
    """Return whether a node of a subgraph may return a Command for the parent graph, according to its return hint."""
    return any(not node.is_subgraph and _may_return_command(node) for node in graph.nodes.values())


def _may_return_command(node: Node) -> bool:
    returns = return_hint(node.action)
    return returns is None or may_go_anywhere(returns) or declared_by_hint(returns) is not None


def _is_end_of_path(graph: Graph, node: Node) -> bool:
    """Return whether a node without known successors ends its path, rather than choosing any node by a Command.

    It does if it has an edge, which then leads to END, or a return hint, which then permits no Command.
    """
    if node.name in graph.edges or node.name in graph.branches or node.name in graph.joins_by_start:
        return True
    return return_hint(node.action) is not None

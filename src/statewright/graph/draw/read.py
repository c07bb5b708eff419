"""Drawings of graphs, from their declared edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from statewright.graph.command import END, START
from statewright.graph.draw.drawing import Drawing
from statewright.graph.draw.shapes import DrawnEdge, DrawnNode, EdgeKind, NodeKind
from statewright.graph.graph import Graph
from statewright.graph.node import Branch, Node

LABELS = {START: "start", END: "end"}

Arrow = tuple[str, EdgeKind, str]
"""The target of an edge, its kind and its label."""


def drawing_of(graph: Graph, *, xray: bool | int = False) -> Drawing:
    """Return the drawing of a graph. `xray` draws the nodes of subgraphs too: of all, or down to a depth."""
    depth = int(xray) if not isinstance(xray, bool) else (1_000 if xray else 0)
    nodes, edges = [*_nodes(graph, "", depth)], [*_edges(graph, "", depth)]
    used = {end for edge in edges for end in (edge.source, edge.target)}
    return Drawing(graph.name, tuple(node for node in nodes if node.id in used or node.kind != "end"), tuple(edges))


def _nodes(graph: Graph, prefix: str, depth: int) -> Iterator[DrawnNode]:
    yield DrawnNode(prefix + START, LABELS[START], "start")
    for node in graph.nodes.values():
        if is_hidden(node):
            continue
        for box in _boxes(node):
            inner = _opened(box, depth)
            if inner is None:
                yield DrawnNode(prefix + box.id, box.label, box.kind)
            else:
                yield from _nodes(inner, f"{prefix}{box.id}:", depth - 1)
    for name in _unreachable(graph):
        yield DrawnNode(prefix + name, f"{name} (unreachable)", "unreachable")
    yield DrawnNode(prefix + END, LABELS[END], "end")


def _unreachable(graph: Graph) -> Mapping[str, Sequence[Arrow]]:
    """Return the arrows of unreachable states by name.

    They are not nodes of the graph, because they can never run. A front end lists them in the metadata of a node, as
    `"unreachable"`.
    """
    return {
        name: arrows for node in graph.nodes.values() for name, arrows in _metadata(node, "unreachable", {}).items()
    }


def _metadata(node: Node, name: str, default: Any) -> Any:
    return (node.metadata or {}).get(name, default)


def _kind(node: Node) -> NodeKind:
    if node.is_subgraph:
        return "subgraph"
    return "node" if node.join == "any" else "waiting"


class _Box(NamedTuple):
    """A box of a node."""

    id: str
    label: str
    kind: NodeKind
    inner: Callable[[], object]
    """Returns the graph to draw inside; anything else if there is none."""


def _boxes(node: Node) -> list[_Box]:
    """Return the boxes of a node: one, or several if it calls several graphs, which `metadata["boxes"]` declares.

    The metadata has functions that return these graphs, by name.
    """
    boxes: Mapping[str, Callable[[], object]] | None = _metadata(node, "boxes", None)
    if boxes is not None:
        return [_Box(f"{node.name}:{name}", name, "subgraph", inner) for name, inner in boxes.items()]
    action = node.action
    return [
        _Box(node.name, node.name, _kind(node), lambda: getattr(action, "graph", None) if node.is_subgraph else None)
    ]


def _opened(box: _Box, depth: int) -> Graph | None:
    """Return the graph in a box, if it is drawn at this depth."""
    inner = box.inner() if depth > 0 else None
    return inner if isinstance(inner, Graph) else None


def _edges(graph: Graph, prefix: str, depth: int) -> Iterator[DrawnEdge]:
    boxes = {name: _boxes(node) for name, node in graph.nodes.items()}
    all_boxes = [box for of_node in boxes.values() for box in of_node]
    inner = {box.id: subgraph for box in all_boxes if (subgraph := _opened(box, depth)) is not None}

    def ends(name: str, within: str) -> list[str]:
        ids = [box.id for box in boxes[name]] if name in boxes else [name]
        return [f"{prefix}{box_id}:{within}" if box_id in inner else prefix + box_id for box_id in ids]

    for edge in _declared(graph):
        for source, target in product(ends(edge.source, END), ends(edge.target, START)):
            yield DrawnEdge(source, target, edge.kind, edge.label)
    for name, subgraph in inner.items():
        yield from _edges(subgraph, f"{prefix}{name}:", depth - 1)


def _declared(graph: Graph) -> Iterator[DrawnEdge]:
    """Yield the edges of one graph, in the order in which their sources were declared."""
    for source in (START, *(name for name, node in graph.nodes.items() if not is_hidden(node))):
        edges = [*_outgoing(graph, source)]
        yield from edges or [DrawnEdge(source, END)]
    for source, arrows in _unreachable(graph).items():
        yield from (DrawnEdge(source, *arrow) for arrow in arrows)


def is_hidden(node: Node) -> bool:
    """Return whether a node was added by a front end and is not drawn: `metadata={"hidden": True}`."""
    return bool(_metadata(node, "hidden", False))


def _outgoing(graph: Graph, source: str) -> Iterator[DrawnEdge]:
    """Yield the edges from a node. A front end may replace them with those in `metadata["drawn"]`."""
    node = graph.nodes.get(source)
    drawn = _metadata(node, "drawn", None) if node is not None else None
    if drawn is not None:
        yield from (DrawnEdge(source, *arrow) for arrow in drawn)
        return
    for end in graph.edges.get(source, ()):
        yield DrawnEdge(source, end)
    for join in graph.joins_by_start.get(source, ()):
        yield DrawnEdge(source, join.end, "join")
    for branch in graph.branches.get(source, ()):
        yield from _branch(graph, branch)
    for target in (node.destinations or ()) if node is not None else ():
        yield DrawnEdge(source, END if target not in graph.nodes else target, "declared")


def _branch(graph: Graph, branch: Branch) -> Iterator[DrawnEdge]:
    """Yield the arrows of a conditional edge: to each target, or to every node if its targets are not declared."""
    targets = branch.targets if branch.targets is not None else {name: name for name in (*graph.nodes, END)}
    for result, target in targets.items():
        end = target if target in graph.nodes else END
        label = "" if result in (target, END) else str(result)
        yield DrawnEdge(branch.source, end, "conditional", label)

"""Conversion of a graph to a drawing, from its declared edges and the metadata of its nodes."""

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
    """Return the drawing of a graph.

    `xray=True` draws the nodes of subgraphs in place of their boxes; a number limits this to a depth of nesting.
    """
    depth = int(xray) if not isinstance(xray, bool) else (1_000 if xray else 0)
    nodes, edges = [*_nodes(graph, "", depth)], [*_edges(graph, "", depth)]
    connected = {end for edge in edges for end in (edge.source, edge.target)}
    nodes = [node for node in nodes if node.id in connected or node.kind != "end"]
    return Drawing(graph.name, tuple(nodes), tuple(edges))


def _nodes(graph: Graph, prefix: str, depth: int) -> Iterator[DrawnNode]:
    yield DrawnNode(prefix + START, LABELS[START], "start")
    for node in graph.nodes.values():
        if is_hidden(node):
            continue
        for box in _boxes(node):
            subgraph = _inner_graph(box, depth)
            if subgraph is None:
                yield DrawnNode(prefix + box.id, box.label, box.kind)
            else:
                yield from _nodes(subgraph, f"{prefix}{box.id}:", depth - 1)
    for name in _unreachable_arrows(graph):
        yield DrawnNode(prefix + name, f"{name} (unreachable)", "unreachable")
    yield DrawnNode(prefix + END, LABELS[END], "end")


def _unreachable_arrows(graph: Graph) -> Mapping[str, Sequence[Arrow]]:
    """Return the arrows that leave unreachable states, by the name of the state.

    A state that can never run is not a node of the graph, so the front end (such as the compiler of workflows) lists it
    in the metadata of a node, under `"unreachable"`.
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
    """A box to draw for a node."""

    id: str
    label: str
    kind: NodeKind
    load_subgraph: Callable[[], object]
    """Returns the graph to draw in place of the box; anything else than a Graph if the box itself is drawn."""


def _boxes(node: Node) -> list[_Box]:
    """Return the boxes of a node: one, or a box for each graph in `metadata["boxes"]`.

    `metadata["boxes"]` contains functions that return the graphs that the node calls, by the name of the box.
    """
    boxes: Mapping[str, Callable[[], object]] | None = _metadata(node, "boxes", None)
    if boxes is not None:
        return [_Box(f"{node.name}:{name}", name, "subgraph", load) for name, load in boxes.items()]
    action = node.action
    return [
        _Box(node.name, node.name, _kind(node), lambda: getattr(action, "graph", None) if node.is_subgraph else None)
    ]


def _inner_graph(box: _Box, depth: int) -> Graph | None:
    """Return the graph to draw in place of a box; None if the box has no graph, or if no level is left to open.

    `depth` is the number of these levels.
    """
    subgraph = box.load_subgraph() if depth > 0 else None
    return subgraph if isinstance(subgraph, Graph) else None


def _edges(graph: Graph, prefix: str, depth: int) -> Iterator[DrawnEdge]:
    boxes_by_node = {name: _boxes(node) for name, node in graph.nodes.items()}
    boxes = [box for node_boxes in boxes_by_node.values() for box in node_boxes]
    subgraphs = {box.id: subgraph for box in boxes if (subgraph := _inner_graph(box, depth)) is not None}

    def ends(name: str, inner_end: str) -> list[str]:
        """Return the ids to which an edge of a node is drawn: its boxes, or the node `inner_end` in their subgraphs."""
        ids = [box.id for box in boxes_by_node[name]] if name in boxes_by_node else [name]
        return [f"{prefix}{box_id}:{inner_end}" if box_id in subgraphs else prefix + box_id for box_id in ids]

    for edge in _declared_edges(graph):
        for source, target in product(ends(edge.source, END), ends(edge.target, START)):
            yield DrawnEdge(source, target, edge.kind, edge.label)
    for box_id, subgraph in subgraphs.items():
        yield from _edges(subgraph, f"{prefix}{box_id}:", depth - 1)


def _declared_edges(graph: Graph) -> Iterator[DrawnEdge]:
    """Yield the edges of a graph without its subgraphs, in the order in which their sources were declared."""
    for source in (START, *(name for name, node in graph.nodes.items() if not is_hidden(node))):
        edges = [*_outgoing_edges(graph, source)]
        yield from edges or [DrawnEdge(source, END)]
    for source, arrows in _unreachable_arrows(graph).items():
        yield from (DrawnEdge(source, *arrow) for arrow in arrows)


def is_hidden(node: Node) -> bool:
    """Return whether a node is not drawn, because a front end has set `metadata={"hidden": True}`."""
    return bool(_metadata(node, "hidden", False))


def _outgoing_edges(graph: Graph, source: str) -> Iterator[DrawnEdge]:
    """Yield the edges that leave a node: those in `metadata["drawn"]`, if a front end has set it, or its real edges."""
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
        yield from _branch_edges(graph, branch)
    for target in (node.destinations or ()) if node is not None else ():
        yield DrawnEdge(source, END if target not in graph.nodes else target, "declared")


def _branch_edges(graph: Graph, branch: Branch) -> Iterator[DrawnEdge]:
    """Yield an arrow to each target of a conditional edge, or to every node if its targets are not declared."""
    targets = branch.targets if branch.targets is not None else {name: name for name in (*graph.nodes, END)}
    for result, target in targets.items():
        end = target if target in graph.nodes else END
        label = "" if result in (target, END) else str(result)
        yield DrawnEdge(branch.source, end, "conditional", label)

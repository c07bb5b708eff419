"""Layered layout of boxes from top to bottom, after Sugiyama, Tagawa and Toda (1981).

Edges that close a loop are left out, so that all other edges run downwards. A node is placed one layer below its lowest
predecessor. An edge that crosses a layer gets a *bend* there, which is sorted like a node. A few sweeps then sort each
layer by the mean positions of the neighbours above or below. Every pass takes linear time in the number of nodes, edges
and bends, except for the sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from statewright.graph.draw.shapes import DrawnEdge, Shapes

SWEEPS = 4
"""The number of times that each layer is sorted."""
LayerItem = str | tuple[int, int]
"""An item of a layer: the id of a node, or the edge number and the layer of a bend. Edges are numbered from 0."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Layers from top to bottom, each from left to right."""

    layers: tuple[tuple[LayerItem, ...], ...]
    paths: Mapping[int, tuple[LayerItem, ...]]
    """The items of each downward edge (source, bends, target), by edge number."""
    loops: tuple[int, ...]
    """The numbers of the edges that close a loop."""


def lay_out(shapes: Shapes) -> Layout:
    """Return the layout of a drawing. The same drawing always has the same layout."""
    loops = _loop_edges(shapes)
    downward_edges = [(number, edge) for number, edge in enumerate(shapes.edges) if number not in loops]
    layer_of = _assign_layers(shapes, [edge for _, edge in downward_edges])
    paths = {number: _path(number, edge, layer_of) for number, edge in downward_edges}
    layers: list[list[LayerItem]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for node in shapes.nodes:
        layers[layer_of[node.id]].append(node.id)
    for path in paths.values():
        for bend in path[1:-1]:
            layers[bend[1]].append(bend)  # pyright: ignore  # all items of a path except its ends are bends
    _sort_layers(layers, list(paths.values()))
    return Layout(tuple(map(tuple, layers)), paths, tuple(sorted(loops)))


def centre_layers(
    layout: Layout, width_of: Callable[[LayerItem], float], gap: float
) -> tuple[dict[LayerItem, float], float]:
    """Return the horizontal centre of each item, and the width of the widest layer, with all layers centred."""
    widths = [[width_of(item) for item in layer] for layer in layout.layers]
    totals = [sum(layer) + gap * (len(layer) - 1) for layer in widths]
    widest = max(totals, default=0.0)
    centres: dict[LayerItem, float] = {}
    for layer, item_widths, total in zip(layout.layers, widths, totals, strict=True):
        left = (widest - total) / 2
        for item, width in zip(layer, item_widths, strict=True):
            centres[item] = left + width / 2
            left += width + gap
    return centres, widest


def _loop_edges(shapes: Shapes) -> set[int]:
    """Return the numbers of the edges that lead back to a node on the current path of a depth-first search.

    The search is iterative, because paths may be longer than Python's recursion limit.
    """
    outgoing: dict[str, list[tuple[int, str]]] = {node.id: [] for node in shapes.nodes}
    for number, edge in enumerate(shapes.edges):
        outgoing[edge.source].append((number, edge.target))
    loops: set[int] = set()
    done: set[str] = set()
    for root in outgoing:
        stack = [(root, iter(outgoing[root]))] if root not in done else []
        path = {root}
        while stack:
            name, edges = stack[-1]
            number, target = next(edges, (None, ""))
            if number is None:
                stack.pop()
                path.discard(name)
                done.add(name)
            elif target in path:
                loops.add(number)
            elif target not in done:
                path.add(target)
                stack.append((target, iter(outgoing[target])))
    return loops


def _assign_layers(shapes: Shapes, downward_edges: Sequence[DrawnEdge]) -> dict[str, int]:
    """Return the layer of each node, which is the length of the longest path to it, using Kahn's algorithm."""
    indegree = {node.id: 0 for node in shapes.nodes}
    successors: dict[str, list[str]] = {node.id: [] for node in shapes.nodes}
    for edge in downward_edges:
        successors[edge.source].append(edge.target)
        indegree[edge.target] += 1
    layer_of = {node.id: 0 for node in shapes.nodes}
    ready = [name for name, count in indegree.items() if not count]
    for name in ready:  # grows while it is iterated
        for target in successors[name]:
            layer_of[target] = max(layer_of[target], layer_of[name] + 1)
            indegree[target] -= 1
            if not indegree[target]:
                ready.append(target)
    return layer_of


def _path(number: int, edge: DrawnEdge, layer_of: Mapping[str, int]) -> tuple[LayerItem, ...]:
    crossed = range(layer_of[edge.source] + 1, layer_of[edge.target])
    return (edge.source, *((number, layer) for layer in crossed), edge.target)


def _sort_layers(layers: list[list[LayerItem]], paths: Sequence[Sequence[LayerItem]]) -> None:
    """Sort the items of each layer in place, by the positions of their neighbours above and below in turn."""
    above: dict[LayerItem, list[LayerItem]] = {}
    below: dict[LayerItem, list[LayerItem]] = {}
    for path in paths:
        for upper, lower in pairwise(path):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 else above
        position = {item: index for layer in layers for index, item in enumerate(layer)}
        for layer in reversed(layers) if sweep % 2 else layers:
            if len(layer) > 1:
                # The position of an item without neighbours is its own.
                layer.sort(key=lambda item: _mean([position[other] for other in neighbours.get(item) or [item]]))
                position.update((item, index) for index, item in enumerate(layer))


def _mean(positions: Sequence[int]) -> float:
    return sum(positions) / len(positions)

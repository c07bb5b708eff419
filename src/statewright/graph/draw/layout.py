"""Where boxes go: layers from top to bottom, as Sugiyama, Tagawa and Toda (1981) do it.

Edges that close a loop are set aside; the rest runs downwards. A node stands one layer below the lowest of those
that lead to it. Where an edge passes a layer by, a *bend* keeps its place there. Within a layer things are ordered
by the mean place of what they hang on, in a few sweeps. All passes are linear in nodes, edges and bends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from statewright.graph.draw.drawing import Drawing, DrawnEdge

SWEEPS = 4
Slot = str | tuple[int, int]
"""What has a place in a layer: a node by its id, or a bend by the number of its edge and its layer."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Layers from top to bottom, each from left to right."""

    layers: tuple[tuple[Slot, ...], ...]
    paths: Mapping[int, tuple[Slot, ...]]
    """For each edge that runs downwards, by its number, what it passes: source, bends, target."""
    loops: tuple[int, ...]
    """The numbers of the edges that close a loop."""


def lay_out(drawing: Drawing) -> Layout:
    """The layout of a drawing; the same for the same drawing."""
    loops = _closing(drawing)
    down = [(number, edge) for number, edge in enumerate(drawing.edges) if number not in loops]
    layer_of = _layers(drawing, [edge for _, edge in down])
    paths = {number: _path(number, edge, layer_of) for number, edge in down}
    layers: list[list[Slot]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for node in drawing.nodes:
        layers[layer_of[node.id]].append(node.id)
    for path in paths.values():
        for bend in path[1:-1]:
            layers[bend[1]].append(bend)  # pyright: ignore  # all but the ends of a path are bends
    _order(layers, list(paths.values()))
    return Layout(tuple(map(tuple, layers)), paths, tuple(sorted(loops)))


def _closing(drawing: Drawing) -> set[int]:
    """The edges that lead back to where a depth-first walk still is. Without recursion: chains are long."""
    ways: dict[str, list[tuple[int, str]]] = {node.id: [] for node in drawing.nodes}
    for number, edge in enumerate(drawing.edges):
        ways[edge.source].append((number, edge.target))
    closing: set[int] = set()
    done: set[str] = set()
    for root in ways:
        walk = [(root, iter(ways[root]))] if root not in done else []
        above = {root}
        while walk:
            name, onward = walk[-1]
            step = next(onward, None)
            if step is None:
                walk.pop()
                above.discard(name)
                done.add(name)
            elif step[1] in above:
                closing.add(step[0])
            elif step[1] not in done:
                above.add(step[1])
                walk.append((step[1], iter(ways[step[1]])))
    return closing


def _layers(drawing: Drawing, down: Sequence[DrawnEdge]) -> dict[str, int]:
    """The length of the longest way to each node (Kahn's order)."""
    waiting = {node.id: 0 for node in drawing.nodes}
    ways: dict[str, list[str]] = {node.id: [] for node in drawing.nodes}
    for edge in down:
        ways[edge.source].append(edge.target)
        waiting[edge.target] += 1
    layer_of = {node.id: 0 for node in drawing.nodes}
    ready = [name for name, count in waiting.items() if not count]
    for name in ready:
        for target in ways[name]:
            layer_of[target] = max(layer_of[target], layer_of[name] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return layer_of


def _path(number: int, edge: DrawnEdge, layer_of: Mapping[str, int]) -> tuple[Slot, ...]:
    between = range(layer_of[edge.source] + 1, layer_of[edge.target])
    return (edge.source, *((number, layer) for layer in between), edge.target)


def _order(layers: list[list[Slot]], paths: Sequence[Sequence[Slot]]) -> None:
    """Put each layer in the order of what it hangs on, from above and from below in turn."""
    above: dict[Slot, list[Slot]] = {}
    below: dict[Slot, list[Slot]] = {}
    for path in paths:
        for upper, lower in pairwise(path):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    for sweep in range(SWEEPS):
        neighbours = below if sweep % 2 else above
        place = {slot: at for layer in layers for at, slot in enumerate(layer)}
        for layer in reversed(layers) if sweep % 2 else layers:
            if len(layer) > 1:
                layer.sort(key=lambda slot: _mean([place[one] for one in neighbours.get(slot, [])], place[slot]))
                place.update((slot, at) for at, slot in enumerate(layer))


def _mean(places: Sequence[int], own: int) -> float:
    return sum(places) / len(places) if places else own

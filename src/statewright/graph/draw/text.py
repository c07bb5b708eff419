"""Drawings as text: boxes in layers, lines between them, and a list of loops below.

For each character cell that contains lines, the canvas stores the set of directions in which lines leave the cell. The
set determines the box-drawing character, so that crossings and junctions are drawn correctly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from statewright.graph.draw.layout import LayerItem, Layout, centre_layers, lay_out
from statewright.graph.draw.shapes import DrawnEdge, DrawnNode, Shapes

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
_CHARACTERS = {
    UP: "│", DOWN: "│", UP | DOWN: "│", LEFT: "─", RIGHT: "─", LEFT | RIGHT: "─",
    DOWN | RIGHT: "┌", DOWN | LEFT: "┐", UP | RIGHT: "└", UP | LEFT: "┘",
    UP | DOWN | RIGHT: "├", UP | DOWN | LEFT: "┤", LEFT | RIGHT | DOWN: "┬", LEFT | RIGHT | UP: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
}  # fmt: skip
_SIDES = {"subgraph": "║", "waiting": "┆", "unreachable": "╎"}
GAP = 3
"""The number of columns between boxes."""
Segment = tuple[LayerItem, LayerItem, int]
"""The part of an edge from one layer to the next: the upper item, the lower item, and the number of the edge."""


def render_text(shapes: Shapes) -> str:
    """Return the drawing as lines of text."""
    layout = lay_out(shapes)
    canvas = _Canvas(shapes, layout)
    row = 0
    for number, layer in enumerate(layout.layers):
        row = canvas.draw_boxes(layer, row)
        if number + 1 < len(layout.layers):
            row = canvas.draw_lines(layer, row)
    return "\n".join([*canvas.rows(), *_loops(shapes, layout)]) + "\n"


class _Canvas:
    """A grid of cells, addressed by row and column, that contain characters or lines."""

    def __init__(self, shapes: Shapes, layout: Layout) -> None:
        self._nodes = {node.id: node for node in shapes.nodes}
        self._segments = _segments(layout)
        self._labels = _labels(shapes, layout)
        self._columns = _columns(layout, self._nodes, self._labels)
        self._text: dict[tuple[int, int], str] = {}
        self._lines: dict[tuple[int, int], int] = {}
        """The directions in which lines leave a cell, as a bit set of UP, DOWN, LEFT and RIGHT."""

    def draw_boxes(self, layer: Sequence[LayerItem], row: int) -> int:
        """Draw a layer of boxes, and return the row below it."""
        for item in layer:
            if isinstance(item, str):
                self._draw_box(self._nodes[item], self._columns[item], row)
            else:
                self._draw_vertical(self._columns[item], row, row + 2)
        return row + 3

    def draw_lines(self, layer: Sequence[LayerItem], row: int) -> int:
        """Draw the edges from a layer to the next layer, and return the row of the next layer.

        The horizontal part of each bent line has a row of its own.
        """
        segments = [segment for item in layer for segment in self._segments[item]]
        bent = [segment for segment in segments if self._columns[segment[0]] != self._columns[segment[1]]]
        rows = {segment: row + 1 + index for index, segment in enumerate(self._assign_row_order(bent))}
        bottom = row + 1 + len(rows)
        for upper, lower, number in segments:
            self._draw_line(self._columns[upper], self._columns[lower], row, rows.get((upper, lower, number)), bottom)
        for lower in {segment[1] for segment in segments if isinstance(segment[1], str)}:
            self._write(bottom, self._columns[lower] + 2, self._labels.get(lower, ""))
            self._text[bottom, self._columns[lower]] = "▼"
        return bottom + 1

    def rows(self) -> Iterable[str]:
        """Yield the rows as text, without trailing spaces."""
        cells = {**{cell: _CHARACTERS[directions] for cell, directions in self._lines.items()}, **self._text}
        by_row: dict[int, dict[int, str]] = {}
        for (row, column), character in cells.items():
            by_row.setdefault(row, {})[column] = character
        for row in range(max(by_row, default=-1) + 1):
            characters = by_row.get(row, {})
            yield "".join(characters.get(column, " ") for column in range(max(characters, default=-1) + 1)).rstrip()

    def _assign_row_order(self, bent: Sequence[Segment]) -> list[Segment]:
        """Return the bent segments in the order in which they are given rows, so that they cross as little as possible.

        A line that leaves a column comes before a line that arrives in the same column.
        """
        leaving: dict[int, list[Segment]] = {}
        bent = sorted(bent, key=self._span)
        for segment in bent:
            leaving.setdefault(self._columns[segment[0]], []).append(segment)
        before = {segment: leaving.get(self._columns[segment[1]], []) for segment in bent}
        try:
            return list(TopologicalSorter(before).static_order())
        except CycleError:  # lines that swap columns cross whatever their order
            return list(before)

    def _span(self, segment: Segment) -> tuple[int, int, int]:
        upper, lower = self._columns[segment[0]], self._columns[segment[1]]
        return (abs(upper - lower), upper, lower)

    def _draw_line(self, start_column: int, end_column: int, top: int, turn: int | None, bottom: int) -> None:
        """Draw a line from `start_column` in row `top` to `end_column` in row `bottom`.

        `turn` is the row of its horizontal part; None if both columns are the same.
        """
        if turn is None:
            self._draw_vertical(start_column, top, bottom)
            return
        self._draw_vertical(start_column, top, turn, bottom_directions=UP)
        towards, back = (RIGHT, LEFT) if end_column > start_column else (LEFT, RIGHT)
        self._add_directions(turn, start_column, towards)
        for column in range(min(start_column, end_column) + 1, max(start_column, end_column)):
            self._add_directions(turn, column, LEFT | RIGHT)
        self._add_directions(turn, end_column, back | DOWN)
        self._draw_vertical(end_column, turn + 1, bottom)

    def _draw_vertical(self, column: int, top: int, bottom: int, *, bottom_directions: int = UP | DOWN) -> None:
        """Draw a vertical line; `bottom_directions` is the set of directions in its bottom cell."""
        for row in range(top, bottom + 1):
            self._add_directions(row, column, UP | DOWN if row < bottom else bottom_directions)

    def _add_directions(self, row: int, column: int, directions: int) -> None:
        self._lines[row, column] = self._lines.get((row, column), 0) | directions

    def _draw_box(self, node: DrawnNode, centre: int, row: int) -> None:
        left = centre - _width(node) // 2
        inside = _width(node) - 2
        corners = "╭╮╰╯" if node.kind in ("start", "end") else "┌┐└┘"
        side = _SIDES.get(node.kind, "│")
        self._write(row, left, corners[0] + "─" * inside + corners[1])
        self._write(row + 1, left, f"{side}{_on_one_line(node.label).center(inside)}{side}")
        self._write(row + 2, left, corners[2] + "─" * inside + corners[3])

    def _write(self, row: int, column: int, characters: str) -> None:
        for offset, character in enumerate(characters):
            self._text[row, column + offset] = character


def _segments(layout: Layout) -> Mapping[LayerItem, Sequence[Segment]]:
    """Return the segments of all edges, by their upper item."""
    segments: dict[LayerItem, list[Segment]] = defaultdict(list)
    for number, path in layout.paths.items():
        for upper, lower in pairwise(path):
            segments[upper].append((upper, lower, number))
    return segments


def _on_one_line(label: str) -> str:
    return " ".join(label.split())


def _labels(shapes: Shapes, layout: Layout) -> dict[LayerItem, str]:
    """Return the labels of the edges that lead to each node, joined by commas."""
    texts_by_item: dict[LayerItem, dict[str, None]] = {}
    for number, path in layout.paths.items():
        label = shapes.edges[number].label
        if label:
            texts_by_item.setdefault(path[-1], {})[_on_one_line(label)] = None
    return {item: ", ".join(texts) for item, texts in texts_by_item.items()}


def _width(node: DrawnNode) -> int:
    """Return the width of a box, which is odd so that the box has a centre column."""
    return (len(_on_one_line(node.label)) + 4) | 1


def _columns(layout: Layout, nodes: Mapping[str, DrawnNode], labels: Mapping[LayerItem, str]) -> dict[LayerItem, int]:
    """Return the centre column of each item. The items of nodes are wide enough for the labels above them."""

    def width_of(item: LayerItem) -> int:
        return max(_width(nodes[item]), 2 * len(labels.get(item, "")) + 3) if isinstance(item, str) else 1

    centres, _ = centre_layers(layout, width_of, GAP)
    return {item: int(centre - 0.5) for item, centre in centres.items()}  # the middle of column n is at n + 0.5


def _loops(shapes: Shapes, layout: Layout) -> Iterable[str]:
    """Yield a line of text for each edge that closes a loop."""
    names = {node.id: _on_one_line(node.label) for node in shapes.nodes}
    edges: list[DrawnEdge] = [shapes.edges[number] for number in layout.loops]
    if edges:
        yield ""
    for edge in edges:
        label = f"  ({_on_one_line(edge.label)})" if edge.label else ""
        yield f"↺ {names[edge.source]} → {names[edge.target]}{label}"

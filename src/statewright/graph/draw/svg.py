"""Drawings as SVG: boxes in layers, curves between them, and loops to the right of the boxes, each in its own lane."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape as escape_html
from itertools import pairwise

from statewright.graph.draw.layout import LayerItem, Layout, centre_layers, lay_out
from statewright.graph.draw.shapes import DrawnEdge, DrawnNode, Shapes

HEIGHT, LAYER, GAP, MARGIN, LANE = 36, 84, 32, 24, 26
"""In pixels: height of a box, distance between layers, gap between boxes, margin of the drawing, width of a lane."""
CHARACTER = 7.6
"""The width of a character in a name, in pixels: generous for a font size of 13 pixels."""
LABEL_CHARACTER = 6.4
"""The width of a character in the label of an edge, in pixels, for a font size of 11 pixels."""
Point = tuple[float, float]

_STYLE = (
    "text{font:13px system-ui,Helvetica,Arial,sans-serif;fill:#1f2933;text-anchor:middle}"
    "rect{fill:#fff;stroke:#52606d;stroke-width:1.2}.ground{fill:#f7f9fb;stroke:none}"
    ".start rect,.end rect{fill:#1f2933}.start text,.end text{fill:#fff}"
    ".waiting rect{stroke-dasharray:5 3}.subgraph rect{stroke-width:2.6}"
    ".unreachable rect{stroke:#9aa5b1;stroke-dasharray:2 3}.unreachable text{fill:#7b8794}"
    "path{fill:none;stroke:#7b8794;stroke-width:1.4;marker-end:url(#tip)}"
    ".conditional,.declared{stroke-dasharray:5 4}.join{stroke-width:2.4}"
    "text.label,text.halo{font-size:11px;fill:#52606d}text.halo{stroke:#f7f9fb;stroke-width:4px}"
)
_TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" style="fill:#7b8794;stroke:none;marker-end:none"/></marker>'
)
_NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def escape(text: str) -> str:
    """Escape text for XML, and replace each character that XML does not allow with a white square."""
    return escape_html(_NOT_XML.sub("\N{WHITE SQUARE}", text))


def render_svg(shapes: Shapes) -> str:
    """Return the drawing as one SVG element."""
    layout = lay_out(shapes)
    nodes = {node.id: node for node in shapes.nodes}
    lone_labels = _lone_labels(shapes, layout)
    widths = {target: len(label) * LABEL_CHARACTER for target, label in lone_labels.items()}
    points, inner_width = _points(layout, nodes, widths)
    loop_labels = max((len(shapes.edges[number].label or "") for number in layout.loops), default=0) * CHARACTER / 2
    width = inner_width + LANE * len(layout.loops) + loop_labels + 2 * MARGIN
    height = LAYER * (len(layout.layers) - 1) + HEIGHT + 2 * MARGIN
    lines = [
        _edge(shapes.edges[number], [points[item] for item in path], is_lone=shapes.edges[number].target in lone_labels)
        for number, path in layout.paths.items()
    ]
    loops = [
        _loop(shapes.edges[number], points, nodes, inner_width + MARGIN + LANE * lane)
        for lane, number in enumerate(layout.loops)
    ]
    boxes = [_box(node, points[node.id]) for node in shapes.nodes]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
            f'viewBox="0 0 {width:.0f} {height}" role="img"><title>{escape(shapes.name)}</title>',
            f"<style>{_STYLE}</style><defs>{_TIP}</defs>",
            '<rect class="ground" width="100%" height="100%" rx="10"/>',
            *lines,
            *loops,
            *boxes,
            "</svg>",
        ]
    )


def _lone_labels(shapes: Shapes, layout: Layout) -> dict[str, str]:
    """Return the label of each box that has only one arrow from above, by box.

    Such a label is drawn directly above the box, and any other label near the end of its arrow.
    """
    labels: dict[str, list[str]] = {}
    for number in layout.paths:
        edge = shapes.edges[number]
        labels.setdefault(edge.target, []).append(edge.label or "")
    return {target: texts[0] for target, texts in labels.items() if len(texts) == 1 and texts[0]}


def _width(node: DrawnNode) -> float:
    return max(56.0, len(node.label) * CHARACTER + 26)


def _points(
    layout: Layout, nodes: Mapping[str, DrawnNode], labels: Mapping[str, float]
) -> tuple[dict[LayerItem, Point], float]:
    """Return the centre of each item, and the width of the widest layer.

    `labels` are the widths of labels directly above boxes, by box.
    """

    def width_of(item: LayerItem) -> float:
        return max(_width(nodes[item]), labels.get(item, 0.0)) if isinstance(item, str) else 12.0

    centres, widest = centre_layers(layout, width_of, GAP)
    heights = {item: number * LAYER for number, layer in enumerate(layout.layers) for item in layer}
    points = {item: (MARGIN + x, MARGIN + heights[item] + HEIGHT / 2) for item, x in centres.items()}
    return points, widest


def _box(node: DrawnNode, centre: Point) -> str:
    x, y = centre
    width = _width(node)
    radius = HEIGHT / 2 if node.kind in ("start", "end") else 7
    return (
        f'<g class="{node.kind}"><rect x="{x - width / 2:.1f}" y="{y - HEIGHT / 2:.1f}" width="{width:.1f}" '
        f'height="{HEIGHT}" rx="{radius}"/><text x="{x:.1f}" y="{y + 4.5:.1f}">{escape(node.label)}</text></g>'
    )


def _edge(edge: DrawnEdge, points: Sequence[Point], *, is_lone: bool) -> str:
    """Return a curve from the bottom of the source to the top of the target, which is vertical at each bend."""
    ends = [(points[0][0], points[0][1] + HEIGHT / 2), *points[1:-1], (points[-1][0], points[-1][1] - HEIGHT / 2 - 1)]
    path = f"M{ends[0][0]:.1f},{ends[0][1]:.1f}" + "".join(_curves(ends))
    (x1, y1), (x2, y2) = ends[-2], ends[-1]
    label_point = (x2, y2 - 16) if is_lone else ((x1 + 2 * x2) / 3, (y1 + 2 * y2) / 3)
    return f'<path class="{edge.kind}" d="{path}"/>' + _label(edge, label_point)


def _curves(points: Sequence[Point]) -> Iterable[str]:
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (y1 + y2) / 2
        yield f" C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}"


def _loop(edge: DrawnEdge, points: Mapping[LayerItem, Point], nodes: Mapping[str, DrawnNode], lane: float) -> str:
    """Return a curve that leaves its source to the right and turns back at the x coordinate `lane`."""
    x1, y1 = points[edge.source][0] + _width(nodes[edge.source]) / 2, points[edge.source][1] + 5
    x2, y2 = points[edge.target][0] + _width(nodes[edge.target]) / 2 + 1, points[edge.target][1] - 5
    turn = max(lane, x1 + 18, x2 + 18)
    path = f"M{x1:.1f},{y1:.1f} C{turn + 14:.1f},{y1:.1f} {turn + 14:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
    return f'<path class="{edge.kind}" d="{path}"/>' + _label(edge, (turn, (y1 + y2) / 2))


def _label(edge: DrawnEdge, point: Point) -> str:
    if not edge.label:
        return ""
    text = f'x="{point[0]:.1f}" y="{point[1]:.1f}">{escape(edge.label)}</text>'
    return f'<text class="halo" {text}<text class="label" {text}'

"""Drawings as Mermaid flowcharts. Ids are generated, because names may be keywords of Mermaid."""

from __future__ import annotations

from statewright.graph.draw.shapes import DrawnEdge, DrawnNode, Shapes

_SHAPES = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "node": ("[", "]"),
    "waiting": ("[/", "/]"),
    "subgraph": ("[[", "]]"),
    "unreachable": ("[", "]"),
}

_DASHED = "stroke-dasharray:4 4,color:#888,stroke:#888"


def mermaid(shapes: Shapes, direction: str) -> str:
    """Return the flowchart, with a line for each node and each edge."""
    ids = {node.id: f"n{number}" for number, node in enumerate(shapes.nodes)}
    lines = [f"flowchart {direction}"]
    lines += [f"    {ids[node.id]}{_box(node)}" for node in shapes.nodes]
    lines += [f"    {ids[edge.source]} {_arrow(edge)} {ids[edge.target]}" for edge in shapes.edges]
    unreachable = [ids[node.id] for node in shapes.nodes if node.kind == "unreachable"]
    if unreachable:
        lines += [f"    classDef unreachable {_DASHED}", f"    class {','.join(unreachable)} unreachable"]
    return "\n".join(lines) + "\n"


def _box(node: DrawnNode) -> str:
    opening, closing = _SHAPES[node.kind]
    return f'{opening}"{_escaped(node.label)}"{closing}'


def _arrow(edge: DrawnEdge) -> str:
    line = "-.->" if edge.kind in ("conditional", "declared") else "==>" if edge.kind == "join" else "-->"
    return f'{line}|"{_escaped(edge.label)}"|' if edge.label else line


def _escaped(text: str) -> str:
    """Return text for quotes, in which Mermaid accepts entities but not backslashes."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\n", " ")

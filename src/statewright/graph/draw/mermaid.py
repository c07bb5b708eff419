"""Drawings as Mermaid flowcharts. Ids are made up, since names may be words that Mermaid knows."""

from __future__ import annotations

from statewright.graph.draw.drawing import Drawing, DrawnEdge, DrawnNode

_SHAPES = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "node": ("[", "]"),
    "waiting": ("[/", "/]"),
    "subgraph": ("[[", "]]"),
    "unreachable": ("[", "]"),
}

_DASHED = "stroke-dasharray:4 4,color:#888,stroke:#888"


def mermaid(drawing: Drawing, direction: str) -> str:
    """The flowchart, with a line a node and a line an edge."""
    ids = {node.id: f"n{place}" for place, node in enumerate(drawing.nodes)}
    lines = [f"flowchart {direction}"]
    lines += [f"    {ids[node.id]}{_box(node)}" for node in drawing.nodes]
    lines += [f"    {ids[edge.source]} {_arrow(edge)} {ids[edge.target]}" for edge in drawing.edges]
    unreachable = [ids[node.id] for node in drawing.nodes if node.kind == "unreachable"]
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
    """Text between quotes: Mermaid knows entities there, and no backslash."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\n", " ")

"""Drawings for Graphviz."""

from __future__ import annotations

from statewright.graph.draw.shapes import DrawnEdge, DrawnNode, Shapes

_SHAPES = {
    "start": "oval",
    "end": "oval",
    "node": "box",
    "waiting": "parallelogram",
    "subgraph": "box3d",
    "unreachable": "box",
}
_STYLES = {"plain": "solid", "join": "bold", "conditional": "dashed", "declared": "dotted"}


def dot(shapes: Shapes) -> str:
    """Return the digraph, with a line for each node and each edge."""
    lines = [f"digraph {_quoted(shapes.name)} {{", "    node [fontname=Helvetica style=rounded];"]
    lines += [f"    {_quoted(node.id)} [{_attributes(node)}];" for node in shapes.nodes]
    lines += [
        f"    {_quoted(edge.source)} -> {_quoted(edge.target)} [{_edge_attributes(edge)}];" for edge in shapes.edges
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _attributes(node: DrawnNode) -> str:
    style = ' style="rounded,dashed" color=gray fontcolor=gray' if node.kind == "unreachable" else ""
    return f"label={_quoted(node.label)} shape={_SHAPES[node.kind]}{style}"


def _edge_attributes(edge: DrawnEdge) -> str:
    label = f" label={_quoted(edge.label)}" if edge.label else ""
    return f"style={_STYLES[edge.kind]}{label}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'

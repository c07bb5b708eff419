"""Drawings for Graphviz."""

from __future__ import annotations

from statewright.graph.draw.drawing import Drawing, DrawnEdge, DrawnNode

_SHAPES = {
    "start": "oval",
    "end": "oval",
    "node": "box",
    "waiting": "parallelogram",
    "subgraph": "box3d",
    "unreachable": "box",
}
_STYLES = {"plain": "solid", "join": "bold", "conditional": "dashed", "declared": "dotted"}


def dot(drawing: Drawing) -> str:
    """The digraph, with a line a node and a line an edge."""
    lines = [f"digraph {_quoted(drawing.name)} {{", "    node [fontname=Helvetica style=rounded];"]
    lines += [f"    {_quoted(node.id)} [{_attributes(node)}];" for node in drawing.nodes]
    lines += [f"    {_quoted(edge.source)} -> {_quoted(edge.target)} [{_look(edge)}];" for edge in drawing.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _attributes(node: DrawnNode) -> str:
    look = ' style="rounded,dashed" color=gray fontcolor=gray' if node.kind == "unreachable" else ""
    return f"label={_quoted(node.label)} shape={_SHAPES[node.kind]}{look}"


def _look(edge: DrawnEdge) -> str:
    label = f" label={_quoted(edge.label)}" if edge.label else ""
    return f"style={_STYLES[edge.kind]}{label}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'

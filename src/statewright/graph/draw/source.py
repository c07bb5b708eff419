"""Drawings as source text for other programs: Mermaid flowcharts, and digraphs for Graphviz."""

from __future__ import annotations

from statewright.graph.draw.shapes import DrawnEdge, DrawnNode, Shapes

# -- Mermaid. Ids are generated, because the names of nodes may be keywords of Mermaid.

_BRACKETS = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "node": ("[", "]"),
    "waiting": ("[/", "/]"),
    "subgraph": ("[[", "]]"),
    "unreachable": ("[", "]"),
}
_DASHED = "stroke-dasharray:4 4,color:#888,stroke:#888"


def render_mermaid(shapes: Shapes, direction: str) -> str:
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
    opening, closing = _BRACKETS[node.kind]
    return f'{opening}"{_escaped(node.label)}"{closing}'


def _arrow(edge: DrawnEdge) -> str:
    line = "-.->" if edge.kind in ("conditional", "declared") else "==>" if edge.kind == "join" else "-->"
    return f'{line}|"{_escaped(edge.label)}"|' if edge.label else line


def _escaped(text: str) -> str:
    """Escape text that will be put in quotes. In quotes, Mermaid accepts HTML entities but not backslashes."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\n", " ")


# -- Graphviz

_DOT_SHAPES = {
    "start": "oval",
    "end": "oval",
    "node": "box",
    "waiting": "parallelogram",
    "subgraph": "box3d",
    "unreachable": "box",
}
_DOT_STYLES = {"plain": "solid", "join": "bold", "conditional": "dashed", "declared": "dotted"}


def render_dot(shapes: Shapes) -> str:
    """Return the digraph, with a line for each node and each edge."""
    lines = [f"digraph {_quoted(shapes.name)} {{", "    node [fontname=Helvetica style=rounded];"]
    lines += [f"    {_quoted(node.id)} [{_attributes(node)}];" for node in shapes.nodes]
    lines += [
        f"    {_quoted(edge.source)} -> {_quoted(edge.target)} [{_edge_attributes(edge)}];" for edge in shapes.edges
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _attributes(node: DrawnNode) -> str:
    style = ' style="rounded,dashed" color=gray fontcolor=gray' if node.kind == "unreachable" else ""
    return f"label={_quoted(node.label)} shape={_DOT_SHAPES[node.kind]}{style}"


def _edge_attributes(edge: DrawnEdge) -> str:
    label = f" label={_quoted(edge.label)}" if edge.label else ""
    return f"style={_DOT_STYLES[edge.kind]}{label}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'

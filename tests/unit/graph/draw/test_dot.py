"""The output for Graphviz."""

from __future__ import annotations

import re

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.source import render_dot

TEXT = r'"((?:[^"\\]|\\.)*)"'
HEAD = re.compile(rf"digraph {TEXT} {{")
NODE = re.compile(rf"    {TEXT} \[label={TEXT} shape=(\w+)\];")
EDGE = re.compile(rf"    {TEXT} -> {TEXT} \[style=(\w+)(?: label={TEXT})?\];")


def unescape(text: str | None) -> str:
    return re.sub(r"\\(.)", r"\1", text or "")


def parse(text: str) -> tuple[str, dict[str, tuple[str, str]], list[tuple[str, str, str, str]]]:
    """Return the name, (label, shape) by id, and edges as (source, target, style, label). Fail for any other line."""
    head, _, *lines, end = text.splitlines()
    header = HEAD.fullmatch(head)
    assert header
    assert end == "}"
    nodes = {unescape(match[1]): (unescape(match[2]), match[3]) for line in lines if (match := NODE.fullmatch(line))}
    edges = [
        (unescape(match[1]), unescape(match[2]), match[3], unescape(match[4]))
        for line in lines
        if (match := EDGE.fullmatch(line))
    ]
    assert len(lines) == len(nodes) + len(edges)
    return unescape(header[1]), nodes, edges


def test_every_node_and_edge_has_a_line(shape: Drawing) -> None:
    name, nodes, edges = parse(render_dot(shape))
    assert name == shape.name
    assert {node: label for node, (label, _) in nodes.items()} == {node.id: node.label for node in shape.nodes}
    assert [(source, target) for source, target, _, _ in edges] == [(edge.source, edge.target) for edge in shape.edges]


def test_kinds_of_edges_have_different_styles_and_edges_have_their_labels(kinds: Drawing) -> None:
    _, _, edges = parse(render_dot(kinds))
    styles = {edge.kind: parsed[2] for edge, parsed in zip(kinds.edges, edges, strict=True)}
    assert len(set(styles.values())) == 4
    assert [label for *_, label in edges] == [edge.label for edge in kinds.edges]


def test_kinds_of_nodes_have_different_shapes(kinds: Drawing) -> None:
    _, nodes, _ = parse(render_dot(kinds))
    shapes = dict(nodes.values())
    assert shapes["start"] == shapes["end"]
    assert len(set(shapes.values())) == 4


def test_special_characters_in_names_are_escaped(odd: str) -> None:
    drawing = Drawing(odd, (DrawnNode(odd, odd), DrawnNode("b", "b")), (DrawnEdge(odd, "b", "plain", odd),))
    name, nodes, edges = parse(render_dot(drawing))
    assert (name, nodes[odd][0]) == (odd, odd)
    assert edges == [(odd, "b", "solid", odd)]


def test_line_breaks_in_names_become_spaces() -> None:
    drawing = Drawing("two\nlines", (DrawnNode("a", "one\ntwo"),), (DrawnEdge("a", "a", "plain", "three\nfour"),))
    name, nodes, edges = parse(render_dot(drawing))
    assert (name, nodes["a"][0], edges[0][3]) == ("two lines", "one two", "three four")

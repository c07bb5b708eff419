"""Drawings for Graphviz."""

from __future__ import annotations

import re

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.source import dot

TEXT = r'"((?:[^"\\]|\\.)*)"'
HEAD = re.compile(rf"digraph {TEXT} {{")
NODE = re.compile(rf"    {TEXT} \[label={TEXT} shape=(\w+)\];")
EDGE = re.compile(rf"    {TEXT} -> {TEXT} \[style=(\w+)(?: label={TEXT})?\];")


def plain(text: str | None) -> str:
    return re.sub(r"\\(.)", r"\1", text or "")


def parts(text: str) -> tuple[str, dict[str, tuple[str, str]], list[tuple[str, str, str, str]]]:
    """The name, (label, shape) by id, and edges as (source, target, style, label). Every line has to be one."""
    head, _, *lines, end = text.splitlines()
    named = HEAD.fullmatch(head)
    assert named
    assert end == "}"
    nodes = {plain(found[1]): (plain(found[2]), found[3]) for line in lines if (found := NODE.fullmatch(line))}
    edges = [
        (plain(found[1]), plain(found[2]), found[3], plain(found[4]))
        for line in lines
        if (found := EDGE.fullmatch(line))
    ]
    assert len(lines) == len(nodes) + len(edges)
    return plain(named[1]), nodes, edges


def test_every_node_and_every_edge_has_a_line(shape: Drawing) -> None:
    name, nodes, edges = parts(dot(shape))
    assert name == shape.name
    assert {node: label for node, (label, _) in nodes.items()} == {node.id: node.label for node in shape.nodes}
    assert [(source, target) for source, target, _, _ in edges] == [(one.source, one.target) for one in shape.edges]


def test_kinds_of_edges_are_told_apart_and_labels_are_kept(kinds: Drawing) -> None:
    _, _, edges = parts(dot(kinds))
    styles = {edge.kind: found[2] for edge, found in zip(kinds.edges, edges, strict=True)}
    assert len(set(styles.values())) == 4
    assert [label for *_, label in edges] == [edge.label for edge in kinds.edges]


def test_kinds_of_nodes_are_told_apart(kinds: Drawing) -> None:
    _, nodes, _ = parts(dot(kinds))
    shapes = dict(nodes.values())
    assert shapes["start"] == shapes["end"]
    assert len(set(shapes.values())) == 4


def test_odd_names_stay_between_their_quotes(odd: str) -> None:
    drawing = Drawing(odd, (DrawnNode(odd, odd), DrawnNode("b", "b")), (DrawnEdge(odd, "b", "plain", odd),))
    name, nodes, edges = parts(dot(drawing))
    assert (name, nodes[odd][0]) == (odd, odd)
    assert edges == [(odd, "b", "solid", odd)]


def test_a_name_of_several_lines_stays_on_one() -> None:
    drawing = Drawing("two\nlines", (DrawnNode("a", "one\ntwo"),), (DrawnEdge("a", "a", "plain", "three\nfour"),))
    name, nodes, edges = parts(dot(drawing))
    assert (name, nodes["a"][0], edges[0][3]) == ("two lines", "one two", "three four")

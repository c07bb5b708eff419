"""Mermaid flowcharts: a line a node, a line an edge, and names that mean nothing to Mermaid."""

from __future__ import annotations

import re
from html import unescape

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.source import mermaid

NODE = re.compile(r'    (n\d+)(\(\[|\[\[|\[/|\[)"([^"]*)"(\]\)|\]\]|/\]|\])')
EDGE = re.compile(r'    (n\d+) (-->|==>|-\.->)(?:\|"([^"]*)"\|)? (n\d+)')


def parts(text: str) -> tuple[dict[str, str], list[tuple[str, str, str, str]]]:
    """The labels by id, and the edges as (source label, arrow, label, target label). Every line has to be one."""
    lines = text.splitlines()[1:]
    nodes = {found[1]: unescape(found[3]) for line in lines if (found := NODE.fullmatch(line))}
    edges = [
        (nodes[found[1]], found[2], unescape(found[3] or ""), nodes[found[4]])
        for line in lines
        if (found := EDGE.fullmatch(line))
    ]
    assert len(lines) == len(nodes) + len(edges)
    return nodes, edges


def test_every_node_and_every_edge_has_a_line(shape: Drawing) -> None:
    nodes, edges = parts(mermaid(shape, "TD"))
    assert list(nodes.values()) == [node.label for node in shape.nodes]
    assert [(one[0], one[3]) for one in edges] == [(edge.source, edge.target) for edge in shape.edges]


@pytest.mark.parametrize("direction", ["TD", "LR"])
def test_the_first_line_says_which_way_it_runs(direction: str, kinds: Drawing) -> None:
    assert kinds.draw_mermaid(direction=direction).splitlines()[0] == f"flowchart {direction}"


def test_kinds_of_edges_are_told_apart(kinds: Drawing) -> None:
    _, edges = parts(mermaid(kinds, "TD"))
    assert edges == [
        ("start", "-->", "", "plain"),
        ("plain", "-.->", "if so", "waiting"),
        ("plain", "-.->", "", "inner"),
        ("inner", "==>", "", "end"),
        ("waiting", "-.->", "once more", "plain"),
    ]


def test_kinds_of_nodes_are_told_apart(kinds: Drawing) -> None:
    found = [NODE.fullmatch(line) for line in mermaid(kinds, "TD").splitlines()]
    shapes = {one[3]: one[2] + one[4] for one in found if one}
    assert shapes["start"] == shapes["end"]
    assert len(set(shapes.values())) == 4


def test_odd_names_are_labels_and_never_ids(odd: str) -> None:
    drawing = Drawing(odd, (DrawnNode(odd, odd), DrawnNode("b", "b")), (DrawnEdge(odd, "b", "plain", odd),))
    nodes, edges = parts(mermaid(drawing, "TD"))
    assert list(nodes.values()) == [odd, "b"]
    assert edges == [(odd, "-->", odd, "b")]


def test_a_name_of_several_lines_stays_on_one() -> None:
    drawing = Drawing("lines", (DrawnNode("a", "one\ntwo"),), (DrawnEdge("a", "a", "plain", "three\nfour"),))
    nodes, edges = parts(mermaid(drawing, "TD"))
    assert list(nodes.values()) == ["one two"]
    assert edges == [("one two", "-->", "three four", "one two")]


def test_unreachable_nodes_have_a_class_of_their_own() -> None:
    drawing = Drawing("lost", (DrawnNode("a", "a"), DrawnNode("b", "b", "unreachable")), ())
    assert mermaid(drawing, "TD").splitlines()[-1] == "    class n1 unreachable"
    assert "class" not in mermaid(Drawing("fine", (DrawnNode("a", "a"),), ()), "TD")

"""The output for Mermaid: a line for each node and edge, and escaped names."""

from __future__ import annotations

import re
from html import unescape

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.source import render_mermaid

NODE = re.compile(r'    (n\d+)(\(\[|\[\[|\[/|\[)"([^"]*)"(\]\)|\]\]|/\]|\])')
EDGE = re.compile(r'    (n\d+) (-->|==>|-\.->)(?:\|"([^"]*)"\|)? (n\d+)')


def parse(text: str) -> tuple[dict[str, str], list[tuple[str, str, str, str]]]:
    """Return labels by id, and edges as (source label, arrow, label, target label). Fail for any other line."""
    lines = text.splitlines()[1:]
    nodes = {match[1]: unescape(match[3]) for line in lines if (match := NODE.fullmatch(line))}
    edges = [
        (nodes[match[1]], match[2], unescape(match[3] or ""), nodes[match[4]])
        for line in lines
        if (match := EDGE.fullmatch(line))
    ]
    assert len(lines) == len(nodes) + len(edges)
    return nodes, edges


def test_every_node_and_edge_has_a_line(shape: Drawing) -> None:
    nodes, edges = parse(render_mermaid(shape, "TD"))
    assert list(nodes.values()) == [node.label for node in shape.nodes]
    assert [(source, target) for source, _, _, target in edges] == [(edge.source, edge.target) for edge in shape.edges]


@pytest.mark.parametrize("direction", ["TD", "LR"])
def test_the_first_line_has_the_direction(direction: str, kinds: Drawing) -> None:
    assert kinds.draw_mermaid(direction=direction).splitlines()[0] == f"flowchart {direction}"


def test_kinds_of_edges_have_different_arrows(kinds: Drawing) -> None:
    _, edges = parse(render_mermaid(kinds, "TD"))
    assert edges == [
        ("start", "-->", "", "plain"),
        ("plain", "-.->", "if so", "waiting"),
        ("plain", "-.->", "", "inner"),
        ("inner", "==>", "", "end"),
        ("waiting", "-.->", "once more", "plain"),
    ]


def test_kinds_of_nodes_have_different_shapes(kinds: Drawing) -> None:
    matches = [NODE.fullmatch(line) for line in render_mermaid(kinds, "TD").splitlines()]
    shapes = {match[3]: match[2] + match[4] for match in matches if match}
    assert shapes["start"] == shapes["end"]
    assert len(set(shapes.values())) == 4


def test_names_with_special_characters_are_labels_and_not_ids(odd: str) -> None:
    drawing = Drawing(odd, (DrawnNode(odd, odd), DrawnNode("b", "b")), (DrawnEdge(odd, "b", "plain", odd),))
    nodes, edges = parse(render_mermaid(drawing, "TD"))
    assert list(nodes.values()) == [odd, "b"]
    assert edges == [(odd, "-->", odd, "b")]


def test_line_breaks_in_names_become_spaces() -> None:
    drawing = Drawing("lines", (DrawnNode("a", "one\ntwo"),), (DrawnEdge("a", "a", "plain", "three\nfour"),))
    nodes, edges = parse(render_mermaid(drawing, "TD"))
    assert list(nodes.values()) == ["one two"]
    assert edges == [("one two", "-->", "three four", "one two")]


def test_unreachable_nodes_have_a_separate_class() -> None:
    drawing = Drawing("lost", (DrawnNode("a", "a"), DrawnNode("b", "b", "unreachable")), ())
    assert render_mermaid(drawing, "TD").splitlines()[-1] == "    class n1 unreachable"
    assert "class" not in render_mermaid(Drawing("fine", (DrawnNode("a", "a"),), ()), "TD")

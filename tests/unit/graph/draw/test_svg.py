"""Drawings as SVG: XML that any reader takes, with boxes that stand apart and inside the picture."""

from __future__ import annotations

import re
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.svg import svg

NAMESPACE = "{http://www.w3.org/2000/svg}"
LETTER = 5.5
"""What a letter of a label takes up at least, at 11 pixels."""


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        beside = self.x + self.width <= other.x or other.x + other.width <= self.x
        return not (beside or self.y + self.height <= other.y or other.y + other.height <= self.y)


def parsed(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(svg(drawing))


def groups(drawing: Drawing) -> list[ElementTree.Element]:
    return parsed(drawing).findall(f"{NAMESPACE}g")


def edges(drawing: Drawing) -> list[ElementTree.Element]:
    return parsed(drawing).findall(f"{NAMESPACE}path")


def box(group: ElementTree.Element) -> Box:
    rect = group.find(f"{NAMESPACE}rect")
    assert rect is not None
    return Box(*(float(rect.get(name, "nan")) for name in ("x", "y", "width", "height")))


def label(group: ElementTree.Element) -> str:
    return group.findtext(f"{NAMESPACE}text") or ""


def numbers(path: ElementTree.Element) -> list[float]:
    return [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", path.get("d", ""))]


def test_every_node_is_a_box_with_its_label(shape: Drawing) -> None:
    assert [label(group) for group in groups(shape)] == [node.label for node in shape.nodes]


def test_every_edge_is_a_path(shape: Drawing) -> None:
    assert len(edges(shape)) == len(shape.edges)


def test_no_two_boxes_overlap(shape: Drawing) -> None:
    boxes = [box(group) for group in groups(shape)]
    assert [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])] == []


def test_boxes_stand_inside_the_picture(shape: Drawing) -> None:
    _, _, width, height = map(float, parsed(shape).get("viewBox", "").split())
    for one in map(box, groups(shape)):
        assert one.x >= 0
        assert one.y >= 0
        assert one.x + one.width <= width
        assert one.y + one.height <= height


def test_the_ends_of_a_path_touch_the_boxes_that_it_joins(shape: Drawing) -> None:
    boxes = {label(group): box(group) for group in groups(shape)}
    joined: list[tuple[str, str]] = []
    for path in edges(shape):
        x1, y1, *_, x2, y2 = numbers(path)
        ends = [
            [name for name, one in boxes.items() if Box(x - 2, y - 2, 4, 4).overlaps(one)]
            for x, y in ((x1, y1), (x2, y2))
        ]
        assert [len(found) for found in ends] == [1, 1]
        joined.append((ends[0][0], ends[1][0]))
    assert sorted(joined) == sorted((edge.source, edge.target) for edge in shape.edges)


def test_kinds_of_nodes_and_edges_are_told_apart(kinds: Drawing) -> None:
    assert {label(group): group.get("class") for group in groups(kinds)} == {
        node.label: node.kind for node in kinds.nodes
    }
    assert sorted(path.get("class", "") for path in edges(kinds)) == sorted(edge.kind for edge in kinds.edges)
    style = svg(kinds)
    assert re.search(r"\.conditional,\.declared\{stroke-dasharray", style)
    assert re.search(r"\.join\{stroke-width", style)


def test_labels_of_edges_are_shown(kinds: Drawing) -> None:
    shown = {text.text for text in parsed(kinds).findall(f"{NAMESPACE}text") if text.get("class") == "label"}
    assert shown == {"if so", "once more"}


def test_odd_names_are_text_and_no_markup(odd: str) -> None:
    drawing = Drawing(odd, (DrawnNode(odd, odd), DrawnNode("b", "b")), (DrawnEdge(odd, "b", "plain", odd),))
    assert parsed(drawing).findtext(f"{NAMESPACE}title") == odd
    assert label(groups(drawing)[0]) == odd
    assert odd in {text.text for text in parsed(drawing).findall(f"{NAMESPACE}text")}


def test_a_picture_stands_by_itself_and_brings_its_own_ground(kinds: Drawing) -> None:
    picture = parsed(kinds)
    assert (picture.tag, picture.get("role")) == (f"{NAMESPACE}svg", "img")
    assert "ground" in {rect.get("class") for rect in picture.findall(f"{NAMESPACE}rect")}
    assert not re.search(r"(href|src)=|@import|url\(http", svg(kinds))


def test_nothing_is_an_empty_picture() -> None:
    assert groups(Drawing("nothing", (), ())) == []


@pytest.mark.parametrize("sign", ["\x07", "\x1b", "\x00"])
def test_signs_that_xml_does_not_allow_break_nothing(sign: str) -> None:
    name = f"a{sign}b"
    parsed(Drawing(name, (DrawnNode(name, name),), ()))


def test_labels_of_loops_stand_inside_the_picture() -> None:
    nodes = (DrawnNode("a", "a"), DrawnNode("b", "b"))
    drawing = Drawing(
        "loop", nodes, (DrawnEdge("a", "b"), DrawnEdge("b", "a", "conditional", "once more, with feeling"))
    )
    picture = parsed(drawing)
    (text,) = (one for one in picture.findall(f"{NAMESPACE}text") if one.get("class") == "label")
    half = len(text.text or "") * LETTER / 2
    assert float(text.get("x", "nan")) + half <= float(picture.get("width", "nan"))

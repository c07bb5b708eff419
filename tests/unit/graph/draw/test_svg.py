"""The SVG output: valid XML, with separate boxes inside the picture."""

from __future__ import annotations

import re
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.svg import render_svg

NAMESPACE = "{http://www.w3.org/2000/svg}"
LETTER = 5.5
"""The minimum width of a letter of a label, at 11 pixels."""


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        side_by_side = self.x + self.width <= other.x or other.x + other.width <= self.x
        return not (side_by_side or self.y + self.height <= other.y or other.y + other.height <= self.y)


def parse(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(render_svg(drawing))


def groups(drawing: Drawing) -> list[ElementTree.Element]:
    return parse(drawing).findall(f"{NAMESPACE}g")


def edges(drawing: Drawing) -> list[ElementTree.Element]:
    return parse(drawing).findall(f"{NAMESPACE}path")


def box(group: ElementTree.Element) -> Box:
    rect = group.find(f"{NAMESPACE}rect")
    assert rect is not None
    return Box(*(float(rect.get(name, "nan")) for name in ("x", "y", "width", "height")))


def label(group: ElementTree.Element) -> str:
    return group.findtext(f"{NAMESPACE}text") or ""


def numbers(path: ElementTree.Element) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path.get("d", ""))]


def test_every_node_is_a_box_with_its_label(shape: Drawing) -> None:
    assert [label(group) for group in groups(shape)] == [node.label for node in shape.nodes]


def test_every_edge_is_a_path(shape: Drawing) -> None:
    assert len(edges(shape)) == len(shape.edges)


def test_no_two_boxes_overlap(shape: Drawing) -> None:
    boxes = [box(group) for group in groups(shape)]
    assert [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])] == []


def test_boxes_are_inside_the_picture(shape: Drawing) -> None:
    _, _, width, height = map(float, parse(shape).get("viewBox", "").split())
    for rectangle in map(box, groups(shape)):
        assert rectangle.x >= 0
        assert rectangle.y >= 0
        assert rectangle.x + rectangle.width <= width
        assert rectangle.y + rectangle.height <= height


def test_the_ends_of_a_path_touch_the_boxes_of_its_edge(shape: Drawing) -> None:
    boxes = {label(group): box(group) for group in groups(shape)}
    joined: list[tuple[str, str]] = []
    for path in edges(shape):
        x1, y1, *_, x2, y2 = numbers(path)
        ends = [
            [name for name, rectangle in boxes.items() if Box(x - 2, y - 2, 4, 4).overlaps(rectangle)]
            for x, y in ((x1, y1), (x2, y2))
        ]
        assert [len(names) for names in ends] == [1, 1]
        joined.append((ends[0][0], ends[1][0]))
    assert sorted(joined) == sorted((edge.source, edge.target) for edge in shape.edges)


def test_kinds_of_nodes_and_edges_have_different_classes(kinds: Drawing) -> None:
    assert {label(group): group.get("class") for group in groups(kinds)} == {
        node.label: node.kind for node in kinds.nodes
    }
    assert sorted(path.get("class", "") for path in edges(kinds)) == sorted(edge.kind for edge in kinds.edges)
    style = render_svg(kinds)
    assert re.search(r"\.conditional,\.declared\{stroke-dasharray", style)
    assert re.search(r"\.join\{stroke-width", style)


def test_edges_have_their_labels(kinds: Drawing) -> None:
    labels = {text.text for text in parse(kinds).findall(f"{NAMESPACE}text") if text.get("class") == "label"}
    assert labels == {"if so", "once more"}


def test_special_characters_in_names_are_escaped(odd: str) -> None:
    drawing = Drawing(odd, (DrawnNode(odd, odd), DrawnNode("b", "b")), (DrawnEdge(odd, "b", "plain", odd),))
    assert parse(drawing).findtext(f"{NAMESPACE}title") == odd
    assert label(groups(drawing)[0]) == odd
    assert odd in {text.text for text in parse(drawing).findall(f"{NAMESPACE}text")}


def test_a_picture_has_a_background_and_no_external_references(kinds: Drawing) -> None:
    picture = parse(kinds)
    assert (picture.tag, picture.get("role")) == (f"{NAMESPACE}svg", "img")
    assert "ground" in {rect.get("class") for rect in picture.findall(f"{NAMESPACE}rect")}
    assert not re.search(r"(href|src)=|@import|url\(http", render_svg(kinds))


def test_an_empty_drawing_is_an_empty_picture() -> None:
    assert groups(Drawing("nothing", (), ())) == []


@pytest.mark.parametrize("character", ["\x07", "\x1b", "\x00"])
def test_names_with_characters_invalid_in_xml_are_valid_xml(character: str) -> None:
    name = f"a{character}b"
    parse(Drawing(name, (DrawnNode(name, name),), ()))


def test_labels_of_loops_are_inside_the_picture() -> None:
    nodes = (DrawnNode("a", "a"), DrawnNode("b", "b"))
    drawing = Drawing(
        "loop", nodes, (DrawnEdge("a", "b"), DrawnEdge("b", "a", "conditional", "once more, with feeling"))
    )
    picture = parse(drawing)
    (text,) = (text for text in picture.findall(f"{NAMESPACE}text") if text.get("class") == "label")
    half = len(text.text or "") * LETTER / 2
    assert float(text.get("x", "nan")) + half <= float(picture.get("width", "nan"))

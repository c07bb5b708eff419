"""Drawings, and their output formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from itertools import pairwise
from typing import Any

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode

FORMATS: dict[str, Callable[[Drawing], str]] = {
    "ascii": lambda drawing: drawing.draw_ascii(),
    "mermaid": lambda drawing: drawing.draw_mermaid(),
    "dot": lambda drawing: drawing.draw_dot(),
    "svg": lambda drawing: drawing.draw_svg(),
    "json": lambda drawing: json.dumps(drawing.to_json()),
}


@pytest.mark.parametrize("render", FORMATS.values(), ids=list(FORMATS))
def test_every_format_contains_every_node(shape: Drawing, render: Callable[[Drawing], str]) -> None:
    output = render(shape)
    assert [node.label for node in shape.nodes if node.label not in output] == []


@pytest.mark.parametrize("render", FORMATS.values(), ids=list(FORMATS))
def test_equal_drawings_have_equal_output(shape: Drawing, render: Callable[[Drawing], str]) -> None:
    equal = Drawing(shape.name, tuple(shape.nodes), tuple(shape.edges))
    assert render(shape) == render(equal)


@pytest.mark.parametrize("render", FORMATS.values(), ids=list(FORMATS))
def test_an_empty_drawing_can_be_rendered(render: Callable[[Drawing], str]) -> None:
    assert isinstance(render(Drawing("nothing", (), ())), str)


def test_a_drawing_is_text_as_a_string_and_svg_in_notebooks(shape: Drawing) -> None:
    assert str(shape) == shape.draw_ascii()
    assert shape._repr_svg_() == shape.draw_svg()


def test_json_contains_all_nodes_and_edges(kinds: Drawing) -> None:
    data: dict[str, Any] = json.loads(json.dumps(kinds.to_json()))
    assert data["name"] == "kinds"
    assert tuple(DrawnNode(**node) for node in data["nodes"]) == kinds.nodes
    assert tuple(DrawnEdge(**edge) for edge in data["edges"]) == kinds.edges


def test_drawings_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        DrawnNode("a", "a").label = "b"  # type: ignore[misc]
    assert DrawnEdge("a", "b") == DrawnEdge("a", "b", "plain", "")


@pytest.mark.parametrize("output_format", ["ascii", "svg"])
def test_rendering_a_long_chain_needs_no_recursion(output_format: str) -> None:
    names = [f"n{number}" for number in range(1500)]
    edges = tuple(DrawnEdge(source, target) for source, target in pairwise(names))
    output = FORMATS[output_format](Drawing("long", tuple(DrawnNode(name, name) for name in names), edges))
    assert "n1499" in output

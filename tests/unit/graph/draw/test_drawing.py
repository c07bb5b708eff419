"""What is to be drawn, and the forms it can be drawn in."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from itertools import pairwise
from typing import Any

import pytest

from statewright.graph.draw import Drawing, DrawnEdge, DrawnNode

FORMS: dict[str, Callable[[Drawing], str]] = {
    "ascii": lambda drawing: drawing.draw_ascii(),
    "mermaid": lambda drawing: drawing.draw_mermaid(),
    "dot": lambda drawing: drawing.draw_dot(),
    "svg": lambda drawing: drawing.draw_svg(),
    "json": lambda drawing: json.dumps(drawing.to_json()),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_every_node_appears_in_every_form(shape: Drawing, form: Callable[[Drawing], str]) -> None:
    drawn = form(shape)
    assert [node.label for node in shape.nodes if node.label not in drawn] == []


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_the_same_drawing_gives_the_same_text(shape: Drawing, form: Callable[[Drawing], str]) -> None:
    again = Drawing(shape.name, tuple(shape.nodes), tuple(shape.edges))
    assert form(shape) == form(again)


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_nothing_at_all_can_be_drawn(form: Callable[[Drawing], str]) -> None:
    assert isinstance(form(Drawing("nothing", (), ())), str)


def test_a_drawing_is_shown_as_text_and_in_notebooks_as_a_picture(shape: Drawing) -> None:
    assert str(shape) == shape.draw_ascii()
    assert shape._repr_svg_() == shape.draw_svg()


def test_json_is_plain_data_that_holds_everything(kinds: Drawing) -> None:
    data: dict[str, Any] = json.loads(json.dumps(kinds.to_json()))
    assert data["name"] == "kinds"
    assert tuple(DrawnNode(**node) for node in data["nodes"]) == kinds.nodes
    assert tuple(DrawnEdge(**edge) for edge in data["edges"]) == kinds.edges


def test_drawings_are_facts() -> None:
    with pytest.raises(FrozenInstanceError):
        DrawnNode("a", "a").label = "b"  # type: ignore[misc]
    assert DrawnEdge("a", "b") == DrawnEdge("a", "b", "plain", "")


@pytest.mark.parametrize("form", ["ascii", "svg"])
def test_a_long_chain_is_drawn_without_recursion(form: str) -> None:
    names = [f"n{number}" for number in range(1500)]
    edges = tuple(DrawnEdge(one, other) for one, other in pairwise(names))
    drawn = FORMS[form](Drawing("long", tuple(DrawnNode(name, name) for name in names), edges))
    assert "n1499" in drawn

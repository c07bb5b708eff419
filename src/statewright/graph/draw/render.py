"""Rendering in every format. Renderers depend on shapes only, so that `Drawing` can import all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal

from statewright.graph.draw.dot import dot
from statewright.graph.draw.mermaid import mermaid
from statewright.graph.draw.shapes import Shapes
from statewright.graph.draw.svg import svg
from statewright.graph.draw.text import text

Format = Literal["ascii", "dot", "mermaid", "svg"]
RENDERERS: Final[Mapping[Format, Callable[[Shapes], str]]] = {
    "ascii": text,
    "mermaid": partial(mermaid, direction="TD"),
    "dot": dot,
    "svg": svg,
}


def render(shapes: Shapes, format: Format) -> str:  # noqa: A002  # the usual name
    """Return a drawing in a format."""
    return RENDERERS[format](shapes)

"""Drawings of graphs, with a method for each format."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from statewright.graph.draw.shapes import Shapes
from statewright.graph.draw.source import render_dot, render_mermaid
from statewright.graph.draw.svg import render_svg
from statewright.graph.draw.text import render_text


@dataclass(frozen=True, slots=True)
class Drawing(Shapes):
    """A graph that can be drawn in several formats."""

    def draw_mermaid(self, *, direction: str = "TD") -> str:
        """Return a Mermaid flowchart; `direction` is `TD` or `LR`."""
        return render_mermaid(self, direction)

    def draw_dot(self) -> str:
        """Return a digraph for Graphviz."""
        return render_dot(self)

    def draw_ascii(self) -> str:
        """Return boxes and lines as text."""
        return render_text(self)

    def draw_svg(self) -> str:
        """Return a standalone SVG element."""
        return render_svg(self)

    def to_json(self) -> dict[str, Any]:
        """Return nodes and edges as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        return self.draw_ascii()

    def _repr_svg_(self) -> str:
        return self.draw_svg()

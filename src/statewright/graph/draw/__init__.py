"""Drawings of graphs as Mermaid, DOT, SVG, text and JSON."""

from statewright.graph.draw.drawing import Drawing
from statewright.graph.draw.read import drawing_of
from statewright.graph.draw.shapes import DrawnEdge, DrawnNode

__all__ = ["Drawing", "DrawnEdge", "DrawnNode", "drawing_of"]

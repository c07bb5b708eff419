"""Graphs as drawings: Mermaid, DOT, SVG, text and JSON, from what is declared and never by simulation."""

from statewright.graph.draw.drawing import Drawing, DrawnEdge, DrawnNode
from statewright.graph.draw.read import drawing_of

__all__ = ["Drawing", "DrawnEdge", "DrawnNode", "drawing_of"]

"""What is to be drawn: boxes and arrows, in an order that is always the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

NodeKind = Literal["start", "end", "node", "waiting", "subgraph", "unreachable"]
EdgeKind = Literal["plain", "conditional", "declared", "join"]


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A box. A `waiting` node holds back until nothing can come before it; a `subgraph` could be opened by xray; an
    `unreachable` one was written, and can never run."""

    id: str
    label: str
    kind: NodeKind = "node"


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An arrow. `conditional` is taken or not, `declared` is where a Command or Send may go, `join` waits for all."""

    source: str
    target: str
    kind: EdgeKind = "plain"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph that can be drawn in several ways."""

    name: str
    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]

    def draw_mermaid(self, *, direction: str = "TD") -> str:
        """A Mermaid flowchart; `direction` is `TD` or `LR`."""
        from statewright.graph.draw.mermaid import mermaid

        return mermaid(self, direction)

    def draw_dot(self) -> str:
        """A digraph for Graphviz."""
        from statewright.graph.draw.dot import dot

        return dot(self)

    def draw_ascii(self) -> str:
        """Boxes and lines as text."""
        from statewright.graph.draw.text import text

        return text(self)

    def draw_svg(self) -> str:
        """A picture that stands by itself."""
        from statewright.graph.draw.svg import svg

        return svg(self)

    def to_json(self) -> dict[str, Any]:
        """Nodes and edges as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        return self.draw_ascii()

    def _repr_svg_(self) -> str:
        return self.draw_svg()

"""The shapes of a drawing: boxes and arrows as data, in a deterministic order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NodeKind = Literal["start", "end", "node", "waiting", "subgraph", "unreachable"]
EdgeKind = Literal["plain", "conditional", "declared", "join"]


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A box.

    A `waiting` node is deferred until other tasks have ended. A `subgraph` can be opened with `xray`. An `unreachable`
    node was declared but can never run.
    """

    id: str
    label: str
    kind: NodeKind = "node"


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An arrow.

    A `conditional` edge depends on the state. A `declared` edge is a possible target of a Command or Send. A `join`
    waits for all nodes from which an edge of this kind leads to the target.
    """

    source: str
    target: str
    kind: EdgeKind = "plain"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Shapes:
    """The boxes and arrows of a graph: the input of every renderer."""

    name: str
    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]

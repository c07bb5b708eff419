"""A frozen graph: what should run and in which order, as data. Nothing here runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from statewright.channels import Channel
from statewright.graph.command import START
from statewright.graph.node import Branch, JoinEdge, Node, TagLimits
from statewright.graph.reach import reachability
from statewright.state import Field, StateSchema


@dataclass(frozen=True, slots=True)
class Migration:
    """How the state of a thread that another version of a graph has saved becomes one of a newer version."""

    to_version: str | None
    change: Callable[[dict[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Nodes, edges and schemas, checked and in order of declaration."""

    name: str
    nodes: Mapping[str, Node]
    edges: Mapping[str, tuple[str, ...]]
    """For each source, START included, the ends of its plain edges, in order of declaration."""
    joins: tuple[JoinEdge, ...]
    branches: Mapping[str, tuple[Branch, ...]]
    schema: StateSchema
    input_schema: StateSchema
    output_schema: StateSchema
    context_schema: Any
    node_schemas: Mapping[str, StateSchema] = field(default_factory=dict[str, StateSchema])
    """The input schema of each node that reads something else than the state."""
    fields: Mapping[str, Field]
    """Every field of every schema: the channel map."""
    tag_limits: Mapping[str, TagLimits] = field(default_factory=dict[str, TagLimits])
    version: str | None = None
    """Of the graph's code: what is saved says which version saved it."""
    migrations: Mapping[str | None, Migration] = field(default_factory=dict["str | None", "Migration"])
    """By the version that they start from."""
    answers_to: str | None = None
    """The field that takes an answer at a breakpoint."""
    bare_messages: str | None = None
    """The channel that takes messages answered without a mapping."""
    saved_types: tuple[Any, ...] = ()
    """Types whose values may be saved, beside those that the schemas name."""

    @property
    def channels(self) -> dict[str, Channel]:
        return {name: one.channel for name, one in self.fields.items()}

    @cached_property
    def order(self) -> dict[str, int]:
        """The place of each node in the order of declaration."""
        return {name: place for place, name in enumerate(self.nodes)}

    @cached_property
    def joins_by_start(self) -> dict[str, tuple[JoinEdge, ...]]:
        starts = {start for join in self.joins for start in join.starts}
        return {start: tuple(join for join in self.joins if start in join.starts) for start in starts}

    @cached_property
    def ways(self) -> dict[str, frozenset[str]]:
        """For each node and START, the nodes to which its declared edges and destinations lead in one step."""
        return {source: frozenset(self._targets(source)) for source in (START, *self.nodes)}

    @cached_property
    def reach(self) -> dict[str, int]:
        """For each node and START, a bit set of all nodes that can still come after it; see `reach.py`."""
        order = [*self.nodes, START]
        return reachability(order, self.ways)

    def _targets(self, source: str) -> Iterable[str]:
        node = self.nodes.get(source)
        named = [
            *self.edges.get(source, ()),
            *(join.end for join in self.joins_by_start.get(source, ())),
            *((node.destinations or ()) if node else ()),
        ]
        for branch in self.branches.get(source, ()):
            if branch.targets is None:
                return self.nodes
            named.extend(branch.targets.values())
        if node is not None and node.undeclared:
            return self.nodes
        return (name for name in named if name in self.nodes)

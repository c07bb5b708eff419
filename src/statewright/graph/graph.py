"""Frozen graphs: nodes, edges and schemas as data, and what is derived from them, such as reachability."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from statewright.channels import Channel
from statewright.graph.command import END, START
from statewright.graph.node import Branch, JoinEdge, Node, TagLimits
from statewright.graph.reach import reachability
from statewright.state import Field, StateSchema


@dataclass(frozen=True, slots=True)
class Migration:
    """A function that converts the state of threads that another version of the graph has saved."""

    to_version: str | None
    change: Callable[[dict[str, Any]], Mapping[str, Any]]
    """Receives the saved state, and returns the state for `to_version`."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Checked nodes, edges and schemas, in order of declaration."""

    name: str
    nodes: Mapping[str, Node]
    edges: Mapping[str, tuple[str, ...]]
    """The targets of plain edges by source, which may be START, in order of declaration."""
    joins: tuple[JoinEdge, ...]
    branches: Mapping[str, tuple[Branch, ...]]
    """The conditional edges, by source."""
    schema: StateSchema
    """The schema of the state."""
    input_schema: StateSchema
    output_schema: StateSchema
    context_schema: Any
    node_schemas: Mapping[str, StateSchema] = field(default_factory=dict[str, StateSchema])
    """The schemas of nodes whose input is not the state, by node."""
    fields: Mapping[str, Field]
    """The fields of all schemas, by name."""
    tag_limits: Mapping[str, TagLimits] = field(default_factory=dict[str, TagLimits])
    """The limits that nodes with a tag share, by tag."""
    version: str | None = None
    """The version of the graph's code, saved with every checkpoint."""
    migrations: Mapping[str | None, Migration] = field(default_factory=dict["str | None", "Migration"])
    """The migrations, by the version that they migrate from."""
    answers_to: str | None = None
    """The field that receives the value of `Command(resume=...)` at a breakpoint. If it is None, a breakpoint cannot be
    answered."""
    bare_messages: str | None = None
    """The field that receives the messages that nodes return without naming a field; None if that is an error."""
    saved_types: tuple[Any, ...] = ()
    """Types whose values may be saved in addition to the types in the schemas."""

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels, by field."""
        return {name: field.channel for name, field in self.fields.items()}

    @cached_property
    def order(self) -> dict[str, int]:
        """The index of each node in the order of declaration, by name."""
        return {name: index for index, name in enumerate(self.nodes)}

    @cached_property
    def joins_by_start(self) -> dict[str, tuple[JoinEdge, ...]]:
        """The join edges in which a node is a start, by node."""
        starts = {start for join in self.joins for start in join.starts}
        return {start: tuple(join for join in self.joins if start in join.starts) for start in starts}

    @cached_property
    def successors(self) -> dict[str, frozenset[str]]:
        """The possible successors of each node and of START, from edges and destinations.

        They are all nodes if the targets of a conditional edge, or of the node's Commands, are not declared.
        """
        return {source: frozenset(self._targets(source)) for source in (START, *self.nodes)}

    @cached_property
    def reach(self) -> dict[str, int]:
        """The nodes to which each node, or START, can lead in one or more steps, as a bit set (see `reach.py`)."""
        return reachability([*self.nodes, START], self.successors)

    def without_dangling_edges(self) -> Graph:
        """Return the graph without edges to or from unknown nodes."""
        names = {*self.nodes, START, END}
        return replace(
            self,
            edges={
                start: tuple(end for end in ends if end in names)
                for start, ends in self.edges.items()
                if start in names
            },
            joins=tuple(join for join in self.joins if names.issuperset((*join.starts, join.end))),
            branches={
                source: tuple(branch.restricted_to(names) for branch in branches)
                for source, branches in self.branches.items()
                if source in names
            },
        )

    def _targets(self, source: str) -> Iterable[str]:
        node = self.nodes.get(source)
        targets = [
            *self.edges.get(source, ()),
            *(join.end for join in self.joins_by_start.get(source, ())),
            *((node.destinations or ()) if node else ()),
        ]
        for branch in self.branches.get(source, ()):
            if branch.targets is None:
                return self.nodes
            targets.extend(branch.targets.values())
        if node is not None and node.undeclared:
            return self.nodes
        return (target for target in targets if target in self.nodes)

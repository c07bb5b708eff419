"""Nodes and edges: the parts of a graph, as data."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from statewright.graph.context import SubgraphLike, is_subgraph
from statewright.graph.policy import CachePolicy, CircuitBreaker, RateLimit, RetryPolicy, TimeoutPolicy

Join = Literal["any", "idle", "reachable"]
"""When a due node starts: at once, when nothing else is due, or when no other due node can reach it."""
Memory = Literal["call", "thread", "none"]
"""The period for which a subgraph keeps its state: one call by a task, the thread, or not at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One unit of work: a function or a subgraph, with its options."""

    name: str
    action: Callable[..., Any] | SubgraphLike
    join: Join = "any"
    input_schema: Any = None
    """The schema of the node's input, if it differs from the graph's state."""
    destinations: tuple[str, ...] | None = None
    """The declared targets of its Commands and Sends; None if it declares none."""
    undeclared: bool = False
    """True if it may reach every node: it may return Commands, and does not declare their targets."""
    on: tuple[str, ...] = ()
    """Channels whose change makes the node due."""
    inline: bool = False
    """True if an async run calls this plain function on the thread of the event loop."""
    error_handler: Callable[..., Any] | None = None
    """Called with a NodeError when all attempts have failed; its result replaces that of the node."""
    retry_policy: tuple[RetryPolicy, ...] = ()
    """Retry policies; the first that matches an error decides whether, and when, the node is retried."""
    timeout: TimeoutPolicy | None = None
    cache_policy: CachePolicy | None = None
    max_concurrency: int | None = None
    """The limit of concurrent tasks of the node, over all runs of the compiled graph."""
    rate_limit: RateLimit | None = None
    circuit_breaker: CircuitBreaker | None = None
    reads: tuple[str, ...] | None = None
    """The fields that the node receives; by default all fields of its input schema."""
    writes: tuple[str, ...] | None = None
    """The fields that the node may write; by default any."""
    aliases: tuple[str, ...] = ()
    """Former names of the node, which older checkpoints may contain."""
    executor: str | None = None
    """The name of the executor that runs it in another process; None to run it in the process of the run."""
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    """Resources that its executor reserves for a task: `{"cpu": 2, "gpu": 1}`. Other names are those of the executor.
    """
    memory: Memory = "call"
    description: str | None = None
    tags: tuple[str, ...] = ()
    version: str | None = None
    """The version of the node's code, for cache keys and records."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_subgraph(self) -> bool:
        return is_subgraph(self.action)


@dataclass(frozen=True, kw_only=True, slots=True)
class TagLimits:
    """Limits shared by all nodes with a tag."""

    max_concurrency: int | None = None
    rate_limit: RateLimit | None = None
    circuit_breaker: CircuitBreaker | None = None


@dataclass(frozen=True, slots=True)
class JoinEdge:
    """An edge by which `end` becomes due once all of `starts` have run."""

    starts: tuple[str, ...]
    end: str

    @property
    def key(self) -> str:
        """The name of the edge in checkpoints."""
        return f"{' + '.join(map(repr, self.starts))} -> {self.end!r}"

    @classmethod
    def from_key(cls, key: str) -> JoinEdge:
        """Return the join edge that a checkpoint names."""
        # Names may contain anything, even " + ", so the key is parsed as Python literals.
        *starts, end = (literal_eval(text) for text in _LITERAL.findall(key))
        return cls(tuple(starts), end)


_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


@dataclass(frozen=True, slots=True)
class Branch:
    """A conditional edge: a function of the state chooses the successors of a node."""

    source: str
    path: Callable[..., Any]
    targets: Mapping[Any, str] | None
    """The target for each result of `path`; None if the results are the names of targets, and may be any node."""

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.path, "__name__", type(self.path).__name__)

    def restricted_to(self, names: Container[str]) -> Branch:
        """Return the branch without targets that are not among the names."""
        if self.targets is None:
            return self
        return Branch(self.source, self.path, {key: name for key, name in self.targets.items() if name in names})

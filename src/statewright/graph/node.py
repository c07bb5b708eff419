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
"""When a due node starts: at once, once no other task is due, or once no other due or deferred task can reach it."""
Memory = Literal["call", "thread", "none"]
"""How long a subgraph keeps its state: during one call by a task, as long as the thread exists, or not at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One unit of work: a function or a subgraph, with its options."""

    name: str
    action: Callable[..., Any] | SubgraphLike
    join: Join = "any"
    input_schema: Any = None
    """The schema of the node's input, if it is not the state schema."""
    destinations: tuple[str, ...] | None = None
    """The declared targets of the node's Commands and Sends; None if they are not declared."""
    undeclared: bool = False
    """True if every node may follow, because the return hint permits Commands or Sends without naming their targets."""
    on: tuple[str, ...] = ()
    """Channels whose changes make the node due."""
    inline: bool = False
    """True to call a plain function on the event loop in async runs, instead of on a worker thread."""
    error_handler: Callable[..., Any] | None = None
    """Called with a NodeError when all attempts have failed; its result replaces the result of the node."""
    retry_policy: tuple[RetryPolicy, ...] = ()
    """The first policy that matches an error decides whether, and when, the node is retried."""
    timeout: TimeoutPolicy | None = None
    cache_policy: CachePolicy | None = None
    max_concurrency: int | None = None
    """The maximum number of concurrent tasks of this node, in all runs of the compiled graph."""
    rate_limit: RateLimit | None = None
    circuit_breaker: CircuitBreaker | None = None
    reads: tuple[str, ...] | None = None
    """The fields that the node receives; None for all fields of its input schema."""
    writes: tuple[str, ...] | None = None
    """The fields that the node may write; None for all fields."""
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
    """Limits that all nodes with a tag share."""

    max_concurrency: int | None = None
    rate_limit: RateLimit | None = None
    circuit_breaker: CircuitBreaker | None = None


@dataclass(frozen=True, slots=True)
class JoinEdge:
    """An edge that makes `end` due once all of `starts` have run."""

    starts: tuple[str, ...]
    end: str

    @property
    def key(self) -> str:
        """The name of the edge in checkpoints."""
        return f"{' + '.join(map(repr, self.starts))} -> {self.end!r}"

    @classmethod
    def from_key(cls, key: str) -> JoinEdge:
        """Return the join edge with this key."""
        # The names of nodes may contain " + " or " -> ", so the key cannot be split at these.
        *starts, end = (literal_eval(text) for text in _STRING_LITERAL.findall(key))
        return cls(tuple(starts), end)


_STRING_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


@dataclass(frozen=True, slots=True)
class Branch:
    """A conditional edge, whose function chooses the successors of a node."""

    source: str
    path: Callable[..., Any]
    targets: Mapping[Any, str] | None
    """The target for each result of `path`. If it is None, the result is itself the name of the target, and any node
    can be a target."""

    @property
    def name(self) -> str:
        """The name of the function `path`."""
        return getattr(self.path, "__name__", type(self.path).__name__)

    def restricted_to(self, names: Container[str]) -> Branch:
        """Return a branch whose targets are limited to these names."""
        if self.targets is None:
            return self
        return Branch(self.source, self.path, {key: name for key, name in self.targets.items() if name in names})

"""Nodes and edges: the parts of a graph, as data."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from statewright.graph.context import SubgraphLike, is_subgraph
from statewright.graph.policy import CachePolicy, CircuitBreaker, RateLimit, RetryPolicy, TimeoutPolicy

Join = Literal["any", "idle", "reachable"]
"""When a node that is due may start: at once; when nothing else is due; when nothing can still reach it."""
Memory = Literal["call", "thread", "none"]
"""What a subgraph remembers: one call of its parent's task; the thread; nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One unit of work."""

    name: str
    action: Callable[..., Any] | SubgraphLike
    join: Join = "any"
    input_schema: Any = None
    """What the node reads, where that is not the graph's state."""
    destinations: tuple[str, ...] | None = None
    """Where its Commands and Sends go; None if it declares nothing and may go anywhere."""
    undeclared: bool = False
    """Whether it counts as reaching every node: it may answer Commands and does not say where they go."""
    on: tuple[str, ...] = ()
    """Channels whose change makes the node due."""
    inline: bool = False
    """Whether an async run calls this plain function on the loop's own thread."""
    error_handler: Callable[..., Any] | None = None
    """Called with the failed input and the error when all attempts have failed; its answer stands for the node's."""
    retry_policy: tuple[RetryPolicy, ...] = ()
    """The first that matches an error decides whether, and when, the node is tried again."""
    timeout: TimeoutPolicy | None = None
    cache_policy: CachePolicy | None = None
    max_concurrency: int | None = None
    """How many tasks of the node may be at work at once, over all runs of the compiled graph."""
    rate_limit: RateLimit | None = None
    circuit_breaker: CircuitBreaker | None = None
    reads: tuple[str, ...] | None = None
    """The fields that the node gets; all that its input schema has if it does not say."""
    writes: tuple[str, ...] | None = None
    """The fields that the node may write; any if it does not say."""
    aliases: tuple[str, ...] = ()
    """Former names, under which older checkpoints may know the node."""
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    """What an executor should set aside for a task: `{"cpu": 2, "gpu": 1}`."""
    memory: Memory = "call"
    description: str | None = None
    tags: tuple[str, ...] = ()
    version: str | None = None
    """Of the node's code, for cache keys and records."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_subgraph(self) -> bool:
        return is_subgraph(self.action)


@dataclass(frozen=True, kw_only=True, slots=True)
class TagLimits:
    """What all nodes with a tag share."""

    max_concurrency: int | None = None
    rate_limit: RateLimit | None = None
    circuit_breaker: CircuitBreaker | None = None


@dataclass(frozen=True, slots=True)
class JoinEdge:
    """`end` is due once when all of `starts` have arrived in this run."""

    starts: tuple[str, ...]
    end: str

    @property
    def key(self) -> str:
        """How checkpoints name it."""
        return f"{' + '.join(map(repr, self.starts))} -> {self.end!r}"

    @classmethod
    def from_key(cls, key: str) -> JoinEdge:
        """Return the join edge that a checkpoint names."""
        # Names may hold anything, " + " too, so the key is read as what it is: literals of Python.
        *starts, end = (literal_eval(text) for text in _LITERAL.findall(key))
        return cls(tuple(starts), end)


_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


@dataclass(frozen=True, slots=True)
class Branch:
    """A conditional edge: a function of the state decides what comes next."""

    source: str
    path: Callable[..., Any]
    targets: Mapping[Any, str] | None
    """What each result of `path` means; None if a result names its target, which may be any node."""

    @property
    def name(self) -> str:
        return getattr(self.path, "__name__", type(self.path).__name__)

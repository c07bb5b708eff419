"""What is asked of the service: to start a run, and which runs are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from statewright.runs import Json, RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """A run to be started. Either `graph` or `definition_id` is given."""

    graph: str | None = None
    """The name under which a graph is served; its newest version is taken."""
    definition_id: str | None = None
    input: Json = None
    thread_id: str | None = None
    """The thread to advance; one of its own if none is given."""
    idempotency_key: str | None = None
    """The same key again gives the run that it gave before."""
    on_busy: str = "reject"
    """While another run has the thread: `reject`, `enqueue`, `interrupt`, `rollback`."""
    after: datetime | None = None
    """Not before this instant."""
    timeout: float | None = None
    """Seconds after which the run has failed, however far it is."""
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    """How many runs of the workspace with the same key may be at work at once."""
    queue: str | None = None
    """Begin when the runs of the workspace that were put into the same queue before have ended."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """`recursionLimit`, `maxConcurrency`, `durability` (`sync` or `async`), `context`."""
    source: str = "api"
    parent_id: str | None = None
    parent_waits: bool = False
    run_id: str | None = None
    """The id that it is to have, where somebody must know it beforehand; else one is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs are meant: those that fit everything that is given."""

    status: Sequence[RunStatus] = ()
    graph: str | None = None
    definition_id: str | None = None
    thread_id: str | None = None
    idempotency_key: str | None = None
    parent_id: str | None = None
    tags: Sequence[str] = ()
    """All of them."""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """Entries that their metadata has; values that are no texts are compared as JSON."""
    created_from: datetime | None = None
    created_to: datetime | None = None

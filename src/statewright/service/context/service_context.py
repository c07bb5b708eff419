"""The dependencies that all parts of the service share: storage, clock, settings, spending, hub and callbacks.

The context imports neither the engine nor the operations, so that they can import the context. When `Service` starts,
it sets the callbacks that lead back to the worker: to wake the worker, and to find its current attempt at a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from statewright.async_futures import aresolve
from statewright.checkpoint import WorkspaceCheckpointer
from statewright.clock import Clock
from statewright.runs import (
    Advance,
    Announce,
    Bell,
    Change,
    Insert,
    Json,
    Ledger,
    Ring,
    Run,
    RunStatus,
    StepRun,
    UpdateAll,
)
from statewright.service.access.spending import Limits, Spending
from statewright.service.catalog.catalog import Catalog
from statewright.service.catalog.versions import Versions
from statewright.service.context.records import Records
from statewright.service.following.hub import Hub
from statewright.service.following.run_feed import RunFeeds
from statewright.service.following.run_watch import RunWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Settings of the service. The defaults suit a single machine."""

    capacity: int = 100
    """Maximum number of concurrent runs in this process; other runs wait in the ledger."""
    lease: float = 30.0
    """Seconds without a heartbeat after which a worker is considered lost. Heartbeats are sent three times as often."""
    max_losses: int = 10
    """The number of workers that may be lost while they advance one superstep of a run. Then the run fails, because it
    may be what ends their processes."""
    queues: Sequence[str] | None = None
    """The queues that this process serves; None for all."""
    queues_by_tag: Mapping[str, str] = field(default_factory=dict[str, str])
    """The queue of runs with a tag, by tag, unless the request for a run names a queue."""
    works: bool = True
    """False for a process that only starts and reads runs, and leaves them to the workers of other processes."""
    poll_interval: float = 1.0
    """Seconds between polls for work that this process was not notified of."""
    drain: float = 20.0
    """Seconds for running steps to end when the service stops. After that they are cancelled, and other workers
    execute them again."""
    durability: Literal["sync", "async"] = "sync"
    """The default durability of runs."""
    max_input: int = 1_000_000
    """Maximum size of the input of a run, in bytes of JSON."""
    max_payload: int = 256_000
    """Maximum size of a signal, an answer or an event, in bytes of JSON."""
    max_output: int = 10_000_000
    """Maximum size of the output of a run, in bytes of JSON. A run with a larger output fails."""
    max_steps: int = 1000
    """The default maximum number of supersteps of a run."""


class Meter(Protocol):
    """Receives measurements of the service. `statewright.observe.Metrics` is an implementation."""

    def record_run_start(self, run_id: str, workspace_id: str) -> None:
        """Record that a worker starts to advance a run."""
        ...

    def record_queue_time(self, seconds: float) -> None:
        """Record how many seconds a run has waited for its start since it was due."""
        ...

    def record_delivery(self, outcome: str) -> None:
        """Record an attempt to deliver a webhook message: `delivered` or `failed`."""
        ...


class LogSource(Protocol):
    """A source of the log records and the printed lines that were captured from tasks."""

    def take(self, task_id: str) -> Sequence[Mapping[str, Json]]:
        """Remove and return the log records and lines of a task as JSON, the oldest first."""
        ...


class CurrentAttempt(Protocol):
    """This process's attempt to advance a run, with the methods by which operations stop it, and ask about it."""

    def pause(self) -> None:
        """Stop before the next superstep, and pause the run."""
        ...

    def cancel(self) -> None:
        """Stop at once, because the run was cancelled."""
        ...

    def show_running(self, steps: Sequence[StepRun]) -> list[StepRun]:
        """Return steps of the run as they are now: those that wait for their turn are pending."""
        ...


@dataclass(slots=True)
class ServiceContext:
    """Shared dependencies of the service."""

    ledger: Ledger
    saver: WorkspaceCheckpointer
    """The saver of all workspaces. `saver_of` returns the saver of a single workspace."""
    catalog: Catalog
    clock: Clock
    settings: ServiceSettings
    spending_limits: Limits | None = None
    services: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Additional services for graphs: `store` and `instruments`; see `CompiledGraph.with_services`."""
    logs: LogSource | None = None
    redact: Callable[[Any], Any] | None = None
    """Removes secrets from events, errors and webhook messages."""
    meter: Meter | None = None
    bell: Bell | None = None
    """Connects this process with others that share the ledger."""
    hub: Hub = field(default_factory=Hub)
    watch: RunWatch = field(init=False)
    """Polls the ledger for changes that other processes make to followed runs."""
    feeds: RunFeeds = field(init=False)
    """Finds the changed runs of workspaces for lists that are shown live."""
    spending: Spending = field(init=False)
    versions: Versions = field(init=False)
    wake_worker: Callable[[], object] = lambda: None
    """Wakes the worker of this process. Called when a run becomes due."""
    wake_background: Callable[[], object] = lambda: None
    """Wakes the background tasks (webhook delivery, schedules)."""
    attempt_at: Callable[[str], CurrentAttempt | None] = lambda _: None
    """Returns the attempt that this process is making at a run; None if there is none."""

    def __post_init__(self) -> None:
        self.watch = RunWatch(self.ledger)
        self.feeds = RunFeeds(self.ledger, self.clock)
        self.spending = Spending(self.ledger, self.clock, self.spending_limits)
        self.versions = Versions(self.ledger, self.catalog)

    @property
    def records(self) -> Records:
        return Records(self.ledger, self.clock)

    def saver_of(self, workspace_id: str) -> WorkspaceCheckpointer:
        """Return a saver that sees only the threads of one workspace."""
        return self.saver.for_workspace(workspace_id)

    def now(self) -> datetime:
        return self.clock.now()

    def announce_due(self) -> None:
        """Wake the workers of this and of other processes, because a run has become due."""
        self.wake_worker()
        if self.bell is not None:
            self.bell.ring(Ring.DUE)

    async def write(self, changes: Sequence[Change]) -> None:
        """Write changes in one transaction, and publish them. Raises RecordConflict."""
        await aresolve(self.ledger.write(changes))
        self.publish(changes)

    def publish(self, changes: Sequence[Change]) -> None:
        """Notify listeners of changes that were written, and wake the worker and the background tasks if needed."""
        for change in changes:
            if isinstance(change, Advance):
                self.hub.publish(change.written_events)
        self.feeds.poll_soon()
        if self.bell is not None and any(isinstance(change, Advance) and change.written_events for change in changes):
            self.bell.ring(Ring.EVENTS)
        if any(_makes_due(change) for change in changes):
            self.announce_due()
        if any(isinstance(change, Announce) and change.delivery_count for change in changes):
            self.wake_background()


class Operations:
    """Base class of the groups of operations that make up `Service`."""

    def __init__(self, context: ServiceContext) -> None:
        self.context = context

    async def run(self, workspace_id: str, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        return await self.context.records.run(workspace_id, run_id)


def _makes_due(change: Change) -> bool:
    """Return True if a change may make a run due, or may unblock another run."""
    match change:
        case Insert(Run()):
            return True
        case UpdateAll(cls, _, values):
            return cls is Run and values.get("due_at") is not None
        case Advance():
            return change.values.get("due_at") is not None or change.values.get("status") is RunStatus.CANCELLED
        case _:
            return False

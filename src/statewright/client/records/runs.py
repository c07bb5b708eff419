"""Runs, and what can be seen of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from statewright.client.records.record import Shown

_ENDED: Final = ("completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Shown):
    """A run as it was when the service answered."""

    id: str
    workspace_id: str
    definition_id: str | None
    graph: str
    thread_id: str
    status: str
    """`pending`, `running`, `waiting`, `paused`, `completed`, `failed` or `cancelled`."""
    current_step_name: str | None
    input: Any
    output: Any
    error: Any
    total_cost_cents: float
    total_cost_usd: float
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    settings: Mapping[str, Any]
    idempotency_key: str | None
    on_busy: str
    concurrency_key: str | None
    concurrency_limit: int | None
    queue: str | None
    source: str
    parent_id: str | None
    version: int
    next_run_at: datetime | None
    deadline_at: datetime | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    cancelled_at: datetime | None

    @property
    def has_ended(self) -> bool:
        """True if it has completed, failed, or was cancelled."""
        return self.status in _ENDED

    @property
    def is_at_rest(self) -> bool:
        """True if it has ended, waits, or is paused."""
        return self.has_ended or self.status in ("waiting", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun(Run):
    """The result of a request to start a run."""

    created: bool
    """False if an earlier request with the same idempotency key has created the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Shown):
    """A step of a run."""

    id: str
    workflow_run_id: str
    step_name: str
    step_type: str
    status: str
    attempt: int
    superstep: int
    position: int
    output: Any
    error: Any
    wait_until: datetime | None
    signal_type: str | None
    started_at: datetime | None
    completed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWithSteps(Run):
    """A run with its steps."""

    step_runs: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told(Shown):
    """An event of a run, stored or live."""

    workflow_run_id: str
    event_type: str
    payload: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Told):
    """Something that has happened to a run."""

    id: str
    seq: int
    """Its number in the log of the run, from 1, without gaps."""
    step_run_id: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvent(Told):
    """Something that is seen as it happens and not kept, such as a piece of a message."""

    step_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall(Shown):
    """One call of a model."""

    id: str
    workflow_run_id: str
    step_run_id: str | None
    step_name: str | None
    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float
    details: Any
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(Shown):
    """Captured logs of one attempt at a step, or a part of them."""

    workflow_run_id: str
    step_run_id: str
    step_name: str
    attempt: int
    number: int
    lines: tuple[Any, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent(Shown):
    """The total cost of some model calls."""

    calls: int
    cost_usd: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost(Spent):
    """The cost of one model."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Shown):
    """The cost of a run."""

    total: Spent
    by_model: tuple[ModelCost, ...]
    calls: tuple[ModelCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSummary(Shown):
    """The cost of a workspace in a period."""

    start: datetime | None
    end: datetime | None
    total: Spent
    by_model: tuple[ModelCost, ...]

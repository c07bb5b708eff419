"""Runs, as they are shown, and what belongs to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from pydantic import Field

from statewright.runs import RunStatus, StepStatus
from statewright.server.models.base import JsonMap, Shown, Sources


def _cents(run: Any) -> float:
    return round(run.total_cost * 100, 6)


class RunShown(Shown):
    """A run."""

    SOURCES: ClassVar[Sources] = {
        "current_step_name": "current_step",
        "next_run_at": "due_at",
        "total_cost_cents": _cents,
        "total_cost_usd": "total_cost",
    }

    id: str
    workspace_id: str
    definition_id: str | None
    graph: str
    thread_id: str
    status: RunStatus
    current_step_name: str | None
    input: Any
    output: Any
    error: Any
    total_cost_cents: float
    total_cost_usd: float
    tags: list[str]
    metadata: JsonMap
    settings: JsonMap
    idempotency_key: str | None
    on_busy: str
    concurrency_key: str | None
    concurrency_limit: int | None
    queue: str | None
    """Runs with the same one begin one after another: those of a schedule whose overlap is `enqueue`."""
    source: str
    """The origin: `api`, or `schedule:`, `event:`, `run:`, `failure:` and an id."""
    parent_id: str | None
    version: int
    """Grows with every change."""
    next_run_at: datetime | None
    deadline_at: datetime | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    cancelled_at: datetime | None


class StepShown(Shown):
    """A step of a run."""

    SOURCES: ClassVar[Sources] = {"workflow_run_id": "run_id", "step_name": "name", "step_type": "type"}

    id: str
    workflow_run_id: str
    step_name: str
    step_type: str
    status: StepStatus
    attempt: int
    superstep: int
    position: int
    output: Any
    error: Any
    wait_until: datetime | None
    signal_type: str | None
    started_at: datetime | None
    completed_at: datetime | None


class StartedShown(RunShown):
    """A run, and whether this request made it."""

    created: bool


class RunWithSteps(RunShown):
    """Return a run with its steps, in the order in which they began."""

    step_runs: list[StepShown]


class EventShown(Shown):
    """Something that has happened to a run."""

    id: str
    seq: int
    """Its number in the log of the run, from 1, without gaps."""
    workflow_run_id: str
    step_run_id: str | None
    event_type: str = Field(examples=["STEP_COMPLETED"])
    payload: JsonMap
    created_at: datetime


class ModelCallShown(Shown):
    """One call of a model."""

    SOURCES: ClassVar[Sources] = {
        "workflow_run_id": "run_id",
        "step_run_id": "step_id",
        "cost_usd": "cost",
    }

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


class LogShown(Shown):
    """What one attempt at a step has logged and printed."""

    SOURCES: ClassVar[Sources] = {"workflow_run_id": "run_id", "step_run_id": "step_id"}

    workflow_run_id: str
    step_run_id: str
    step_name: str
    attempt: int
    number: int
    """Parts of one attempt follow each other by number."""
    lines: list[Any]
    created_at: datetime


class RunIds(Shown):
    """The runs that were changed."""

    run_ids: list[str]

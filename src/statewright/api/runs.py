"""Runs with their steps, events, interrupts, logs, model calls and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from statewright.api.resource import Resource

StatusName = Literal["pending", "running", "waiting", "paused", "completed", "failed", "cancelled"]
StepStatusName = Literal["pending", "running", "waiting", "completed", "failed", "skipped", "cancelled"]
OnBusy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""The policy for a new run whose thread is used by another run."""
ENDED: Final = frozenset({"completed", "failed", "cancelled"})
"""The statuses of runs that have ended."""
LONGEST_WAIT: Final = 300
"""The maximum number of seconds for which a request may ask the service to wait for a run."""


if TYPE_CHECKING:
    from statewright.runs import ActivityKind
else:
    ActivityKind = str  # so that the client need not load records and ledgers; the server knows the kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity(Resource):
    """The current activity of a run, or its outcome."""

    kind: ActivityKind
    """`waiting` stands for a wait that was not read: lists and single runs have its kind."""
    text: str
    """A sentence in English, such as `612 / 1000 migrate_table`, or the text of the question that it asks."""
    step: str | None
    done: int | None
    """The completed tasks of the current superstep, if it has several."""
    total: int | None
    attempt: int | None
    """The number of the attempt that has failed last."""
    max_attempts: int | None
    at: datetime | None
    """When it goes on: the start of a run that is scheduled, the next attempt, or the end of a wait."""
    wait_id: str | None
    """The wait that can be answered."""
    wait_count: int
    """The number of open waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Resource):
    """A run."""

    id: str
    workspace_id: str
    definition_id: str | None
    graph: str
    thread_id: str
    status: StatusName
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
    sequence: str | None
    """Runs in the same sequence start one after another, such as those of a schedule with the overlap `enqueue`."""
    queue: str = "default"
    """The queue from which workers claim the run."""
    priority: int = 0
    """Of the due runs of a queue, those with the lowest number are claimed first."""
    losses: int = 0
    """The number of workers that were lost, one after another, while they advanced the same superstep. A run that has
    failed with losses was set aside."""
    worker_id: str | None = None
    """The id of the worker that is advancing the run; null while it is not being advanced."""
    source: str
    """The origin of the run: `api`, or `schedule:`, `event:`, `run:` or `failure:` followed by an id."""
    parent_id: str | None
    version: int
    """Increases with every change."""
    next_run_at: datetime | None
    deadline_at: datetime | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    cancelled_at: datetime | None
    activity: Activity | None = None

    @property
    def has_ended(self) -> bool:
        """True if the run has completed, failed or been cancelled."""
        return self.status in ENDED

    @property
    def is_at_rest(self) -> bool:
        """True if the run has ended, is waiting or is paused."""
        return self.has_ended or self.status in ("waiting", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts(Resource):
    """The number of runs that were created in a period."""

    start: datetime
    """The beginning of the period."""
    total: int
    by_status: Mapping[str, int]
    """The number of runs with each status that any of them has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRun(Run):
    """A run that was started."""

    created: bool
    """False if an earlier request with the same idempotency key created the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Resource):
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
    """When it has begun. Null while a limit on concurrency holds it back: then its status is `pending`."""
    completed_at: datetime | None
    """When it has ended, even if it was saved later, together with the other tasks of a fan-out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWithSteps(Run):
    """A run with its steps, in the order in which they started."""

    worker_host: str | None = None
    """The name of the machine or container of the worker that is advancing the run; null while it is not being
    advanced, and for a key without the scope `workers:read`."""
    step_runs: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIds(Resource):
    """The ids of the runs that were changed."""

    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBase(Resource):
    """An event of a run, stored or live."""

    workflow_run_id: str
    event_type: str
    payload: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(EventBase):
    """An event of a run, stored in its log."""

    # The inherited fields are declared again because the API writes them in this order.
    id: str
    seq: int
    """The number of the event in the log of its run: from 1, without gaps."""
    workflow_run_id: str
    step_run_id: str | None
    event_type: str = field(metadata={"examples": ["STEP_COMPLETED"]})
    payload: Mapping[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvent(EventBase):
    """An event of a run that is sent as it happens but not stored, such as a piece of a message."""

    # Declared again because of their order, as in `Event`.
    workflow_run_id: str
    step_name: str | None
    event_type: str
    payload: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Resource):
    """A question, timer or event that a run waits for. A question is answered by its id."""

    id: str
    workflow_run_id: str
    step_run_id: str
    step_name: str
    kind: Literal["question", "timer", "event"]
    signal_type: str | None
    value: Any
    response_schema: Any
    """The JSON Schema of valid answers, if one was declared."""
    due_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Resource):
    """An approval that a run has requested."""

    id: str
    workflow_run_id: str
    step_run_id: str
    step_name: str
    content_key: str | None
    content: Any
    prompt: str
    decision: Literal["approved", "rejected", "edited", "expired", "cancelled"] | None
    """Null while the approval is undecided."""
    edited_content: Any
    decided_by: str | None
    """The approver, as named by the caller."""
    decided_by_key: str | None
    """The id of the API key that was used; null if the server requires no keys."""
    decided_at: datetime | None
    expires_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAnswer(Resource):
    """An answer to a question of a run."""

    id: str
    """The id of the question, as it was listed by `GET /interrupts`."""
    cursor: str
    """`before` of the page that begins after it."""
    workflow_run_id: str
    graph: str
    answer: Any
    by_key: str | None
    """The id of the API key that was used; null if the server requires no keys."""
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent(Resource):
    """An event that was received, with its effects."""

    id: str
    name: str
    payload: Any
    key: str | None
    started: tuple[str, ...]
    """The runs that it started."""
    woken: tuple[str, ...]
    """The waiting runs that it resumed."""
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall(Resource):
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
class Log(Resource):
    """Logs and output of one attempt at a step."""

    workflow_run_id: str
    step_run_id: str
    step_name: str
    attempt: int
    number: int
    """The log of an attempt may be stored in several parts, which are ordered by this number."""
    lines: tuple[Any, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal(Resource):
    """The number, the total cost and the tokens of several model calls."""

    calls: int
    cost_usd: float
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost(CostTotal):
    """The cost of the calls of one model."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(Resource):
    """The cost of a run: in total, by model, and by call."""

    total: CostTotal
    by_model: tuple[ModelCost, ...]
    calls: tuple[ModelCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSummary(Resource):
    """The cost of a workspace in a period."""

    start: datetime | None
    """Null if the period has no start."""
    end: datetime | None
    """The end of the period, exclusive. Null if it has none."""
    total: CostTotal
    by_model: tuple[ModelCost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyCost(Resource):
    """The cost of one model or graph on one day."""

    day: str
    """A day in UTC: `2026-01-31`."""
    name: str
    """The model or the graph."""
    count: int
    """The number of calls of the model, or of runs of the graph that have cost something."""
    cost_usd: float
    input_tokens: int | None
    """Null for graphs."""
    output_tokens: int | None

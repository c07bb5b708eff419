"""Runs, their steps and model calls, their waits, signals and approvals, and the workers that advance them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from statewright.runs.records.record import Json, Names, Record, Sealed
from statewright.runs.status import RunStatus, StepStatus

DEFAULT_QUEUE: Final = "default"
"""The queue of runs that name none."""


@dataclass(slots=True, kw_only=True)
class Run(Record):
    """One run of a graph, from its input to its end."""

    TABLE: ClassVar[str] = "workflow_runs"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "idempotency_key"),)

    workspace_id: str
    graph: str
    """The name under which the graph is served, or that of the definition."""
    definition_id: str | None = None
    """The version of the graph, which stays the same until the end of the run."""
    thread_id: str
    """The thread of its workspace that it advances; by default its own."""
    status: RunStatus = RunStatus.PENDING
    version: int = 1
    """Grows with every change of the record."""
    claim: str | None = None
    """A token of the worker that has claimed the run; None if unclaimed. Writes for the run are guarded by it."""
    worker_id: str | None = None
    due_at: datetime | None = None
    """The time from which a worker may claim the run; None if only an external change can make it due."""
    begun: bool = False
    """True once its input was saved to the thread."""
    input: Json = None
    output: Json = None
    error: Json = None
    """An object with `message` and `code`, and optionally `step` and `details`."""
    current_step: str | None = None
    total_cost: float = 0.0
    """In US dollars."""
    last_event: int = 0
    """The number of its events."""
    settings: Json = field(default_factory=dict[str, object])
    """Settings of its calls: `recursionLimit`, `maxConcurrency`, `durability`, `context`."""
    idempotency_key: str | None = None
    on_busy: str = "reject"
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    """Limit of concurrent runs with the same key."""
    sequence: str | None = None
    """A sequence of the workspace, whose runs start one after another: each when those before it have ended."""
    queue: str = DEFAULT_QUEUE
    """The name of the queue from which workers claim it."""
    priority: int = 0
    """Of the due runs of a queue, those with the lowest number are claimed first."""
    losses: int = 0
    """The number of workers that were lost, one after another, while they advanced the same superstep of the run."""
    deadline_at: datetime | None = None
    """The instant at which the run fails if it has not ended."""
    source: str = "api"
    """The origin: `api`, or `schedule:`, `event:`, `run:`, `failure:` and an id."""
    parent_id: str | None = None
    """The run that has started it, whose cancellation also cancels this one."""
    parent_waits: bool = False
    """True if the parent waits for the end of this run."""
    tags: Json = field(default_factory=list[str])
    metadata: Json = field(default_factory=dict[str, object])
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    cancelled_at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class RunLabel(Record):
    """A tag of a run, or an entry of its metadata, as a row that can be searched."""

    TABLE: ClassVar[str] = "run_labels"

    run_id: str
    name: str
    """Empty for a tag."""
    value: str


@dataclass(slots=True, kw_only=True)
class StepRun(Record):
    """One task of a run's graph."""

    TABLE: ClassVar[str] = "step_runs"

    run_id: str
    task_id: str
    name: str
    type: str
    """The type of a step in JSON; `node` or `subgraph` for other graphs."""
    status: StepStatus = StepStatus.PENDING
    superstep: int = 0
    position: int = 0
    """Its position among the tasks of its superstep."""
    attempt: int = 1
    output: Json = None
    error: Json = None
    wait_until: datetime | None = None
    signal_type: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class ModelCall(Record):
    """One call of a chat model by a run."""

    TABLE: ClassVar[str] = "model_calls"

    run_id: str
    workspace_id: str
    step_id: str | None = None
    step_name: str | None = None
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """In US dollars."""
    details: Json = None
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class StepLog(Record):
    """Captured logs of one attempt at a step: a list of maps, the oldest first."""

    TABLE: ClassVar[str] = "step_logs"

    run_id: str
    step_id: str
    step_name: str
    attempt: int = 1
    number: int = 0
    """Parts of one attempt follow each other by number."""
    lines: Json = field(default_factory=list[object])
    created_at: datetime


# -- waits


@dataclass(slots=True, kw_only=True)
class Wait(Record):
    """An open wait of a run; deleted when it is over."""

    TABLE: ClassVar[str] = "waits"

    run_id: str
    interrupt_id: str
    """The id in the graph; not unique, because a run may continue from a fork of another one."""
    workspace_id: str
    step_id: str
    step_name: str
    kind: str
    """`question`, `timer` or `event`."""
    event: str | None = None
    """The type of signal that it waits for."""
    value: Json = None
    schema: Json = None
    """The JSON Schema that an answer must have."""
    due_at: datetime | None = None
    """The time at which the wait times out."""
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Signal(Record):
    """A signal or an answer for a run, kept in an inbox until a step waits for it."""

    TABLE: ClassVar[str] = "signals"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("run_id", "key"),)

    run_id: str
    type: str
    """The type of a signal; empty for an answer to the one interrupt that it names."""
    interrupt_id: str | None = None
    payload: Json = None
    key: str | None = None
    """The sender's id, which makes sending it idempotent."""
    taken: bool = False
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Approval(Record):
    """A request for a human decision, kept after it; it has the id of the wait."""

    TABLE: ClassVar[str] = "approval_requests"

    run_id: str
    workspace_id: str
    step_id: str
    step_name: str
    content_key: str | None = None
    content: Json = None
    prompt: Sealed = ""
    decision: str | None = None
    """`approved`, `rejected`, `edited`; `expired` or `cancelled` without a decision."""
    edited_content: Json = None
    decided_by: Sealed | None = None
    """The name of the person who decided, as given by the caller."""
    decided_by_key: str | None = None
    """The id of the key with which it was decided; None if no keys are required."""
    decided_at: datetime | None = None
    expires_at: datetime | None = None
    created_at: datetime


# -- workers


@dataclass(slots=True, kw_only=True)
class Worker(Record):
    """A process that claims and advances runs."""

    TABLE: ClassVar[str] = "workers"

    place: str
    """The scope of its pid: the machine since its last boot, and the container on it."""
    pid: int
    process_started: str
    """The start time of the process, because the system reuses pids."""
    capacity: int
    until: datetime
    """The end of its lease, which it extends while it lives. Other workers may claim its runs afterwards."""
    started_at: datetime
    host: str = ""
    """The name of its machine, for people."""
    draining: bool = False
    """True once it was asked to stop: it ends its runs, and claims no more."""
    queues: Names = None
    """The queues that it serves; None for all."""
    versions: Names = field(default_factory=list[str])
    """The versions of graphs that it serves: definition ids. Other workers leave their runs to it."""

"""Runs, their steps and model calls, their waits, signals and approvals, and the workers that advance them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final

from statewright.runs.records.record import Json, Names, Record, Sealed
from statewright.runs.status import RunStatus, StepStatus

DEFAULT_QUEUE: Final = "default"
"""The queue of runs that name none."""
_QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}")


def is_queue_name(name: str) -> bool:
    """Return whether a queue may have a name: 1 to 63 ASCII letters, digits, hyphens, dots and underscores."""
    return _QUEUE_NAME.fullmatch(name) is not None


@dataclass(slots=True, kw_only=True)
class Run(Record):
    """One run of a graph, from its input to its end."""

    TABLE: ClassVar[str] = "workflow_runs"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "idempotency_key"),)

    workspace_id: str
    graph: str
    """The name under which the graph is served, or the name of the definition."""
    definition_id: str | None = None
    """The id of the version of the graph. The run keeps this version until it ends."""
    thread_id: str
    """The thread that the run advances; by default a new thread whose id is the id of the run."""
    status: RunStatus = RunStatus.PENDING
    version: int = 1
    """Increases with every change of the record."""
    claim: str | None = None
    """A token that is new for each claim, and guards the writes of the worker; None if no worker has a claim."""
    worker_id: str | None = None
    due_at: datetime | None = None
    """The time from which a worker may claim the run; None if only an external change can make it due."""
    begun: bool = False
    """True once the input of the run was saved to the thread."""
    input: Json = None
    output: Json = None
    error: Json = None
    """An object with `message` and `code`, and optionally `step` and `details`."""
    current_step: str | None = None
    progress: Json = None
    """The progress of the current superstep or attempt, in addition to `current_step`: see `Progress`."""
    total_cost: float = 0.0
    """In US dollars."""
    last_event: int = 0
    """The number of the last event, and so the number of events."""
    settings: Json = field(default_factory=dict[str, object])
    """Options of the caller (`recursionLimit`, `maxConcurrency`, `durability`, `context`), and state that the service
    adds, such as `pause` and `retries`."""
    idempotency_key: str | None = None
    on_busy: str = "reject"
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    """The maximum number of concurrent runs with the same key."""
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
    """The origin: `api`, or `schedule:`, `event:`, `run:` or `failure:` followed by an id."""
    parent_id: str | None = None
    """The id of the run that has started this one. If the parent is cancelled, this run is cancelled, too."""
    parent_waits: bool = False
    """True if the parent waits until this run has ended."""
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
    """A tag or a metadata entry of a run, in a record that can be searched."""

    TABLE: ClassVar[str] = "run_labels"

    run_id: str
    name: str
    """The key of a metadata entry; empty for a tag."""
    value: str


@dataclass(slots=True, kw_only=True)
class StepRun(Record):
    """The record of one task of a run."""

    TABLE: ClassVar[str] = "step_runs"

    run_id: str
    task_id: str
    name: str
    type: str
    """The type of the step in a JSON workflow; `node` or `subgraph` in other graphs."""
    status: StepStatus = StepStatus.PENDING
    superstep: int = 0
    position: int = 0
    """The index of the task within its superstep."""
    attempt: int = 1
    output: Json = None
    error: Json = None
    wait_until: datetime | None = None
    signal_type: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class ModelCall(Record):
    """A run's call of a chat model."""

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
    """Log records and printed lines that were captured during one attempt at a step."""

    TABLE: ClassVar[str] = "step_logs"

    run_id: str
    step_id: str
    step_name: str
    attempt: int = 1
    number: int = 0
    """The log of an attempt may be stored in several records, which are ordered by this number."""
    lines: Json = field(default_factory=list[object])
    """A list of maps, the oldest first."""
    created_at: datetime


# -- waits


@dataclass(slots=True, kw_only=True)
class Wait(Record):
    """An open wait of a run. The record is deleted when the wait ends."""

    TABLE: ClassVar[str] = "waits"

    run_id: str
    interrupt_id: str
    """The id of the interrupt on the thread. It is not unique, because runs on forks may have equal interrupt ids."""
    workspace_id: str
    step_id: str
    step_name: str
    kind: str
    """`question`, `timer` or `event`."""
    event: str | None = None
    """The type of signal that ends the wait."""
    value: Json = None
    """The question."""
    schema: Json = None
    """The JSON Schema of valid answers."""
    due_at: datetime | None = None
    """The time at which the wait times out."""
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Signal(Record):
    """A signal or an answer for a run, which stays in the run's inbox until a step waits for it."""

    TABLE: ClassVar[str] = "signals"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("run_id", "key"),)

    run_id: str
    type: str
    """The type of a signal; empty for an answer."""
    interrupt_id: str | None = None
    """For an answer, the id of the interrupt that it answers."""
    payload: Json = None
    key: str | None = None
    """An id chosen by the sender, which makes sending the signal idempotent."""
    sent_by_key: str | None = None
    """The id of the API key that was used; None if callers need no key, or if a run has sent it."""
    taken: bool = False
    """True once a worker has processed the signal."""
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Approval(Record):
    """A request for a human decision, which is kept after the decision. Its id is the id of the wait."""

    TABLE: ClassVar[str] = "approval_requests"

    run_id: str
    workspace_id: str
    step_id: str
    step_name: str
    content_key: str | None = None
    content: Json = None
    prompt: Sealed = ""
    decision: str | None = None
    """`approved`, `rejected` or `edited`; `expired` or `cancelled` if nobody decided in time; None while it is open."""
    edited_content: Json = None
    decided_by: Sealed | None = None
    """The name of the person who decided, as given by the caller."""
    decided_by_key: str | None = None
    """The id of the API key that was used; None if callers need no key."""
    decided_at: datetime | None = None
    expires_at: datetime | None = None
    created_at: datetime


# -- workers


@dataclass(slots=True, kw_only=True)
class Worker(Record):
    """A process that claims and advances runs."""

    TABLE: ClassVar[str] = "workers"

    place: str
    """The scope in which the pid is unique: the machine since its last boot, and the container on it."""
    pid: int
    process_started: str
    """The start time of the process, because the system reuses pids."""
    capacity: int
    until: datetime
    """The end of the worker's lease, which it renews while it is alive. After that, other workers release its runs."""
    started_at: datetime
    host: str = ""
    """The name of its machine, for people."""
    draining: bool = False
    """True once it was asked to stop: it ends its runs, and claims no more."""
    queues: Names = None
    """The queues that it serves; None for all."""
    versions: Names = field(default_factory=list[str])
    """The versions of graphs that it serves: definition ids. Other workers leave their runs to it."""

"""The representation of each class of records in the API, and the name of its schema in the OpenAPI document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final, Literal

from pydantic import BaseModel

from statewright.api import access, automation, definitions, runs, traces, workers
from statewright.runs import ActivityKind, RunStatus, StepStatus
from statewright.server.http.representation import Representation
from statewright.service.operations.activity import describe_activity

# -- runs


ACTIVITY: Final = Representation(runs.Activity, "ActivityShown", {"kind": ActivityKind})
RUN: Final = Representation(
    runs.Run,
    "RunShown",
    {"status": RunStatus},
    current_step_name="current_step",
    next_run_at="due_at",
    total_cost_cents=lambda run: round(run.total_cost * 100, 6),
    total_cost_usd="total_cost",
    activity=lambda run: ACTIVITY.encode(describe_activity(run)),
)
RUN_COUNTS: Final = Representation(runs.RunCounts, "RunCounts", {"by_status": dict[RunStatus, int]})
STEP: Final = Representation(
    runs.Step, "StepShown", {"status": StepStatus}, workflow_run_id="run_id", step_name="name", step_type="type"
)
STARTED_RUN: Final = Representation(runs.StartedRun, "StartedShown", {"status": RunStatus})
RUN_WITH_STEPS: Final = Representation(runs.RunWithSteps, "RunWithSteps", {"status": RunStatus})
RUN_IDS: Final = Representation(runs.RunIds, "RunIds")
EVENT: Final = Representation(
    runs.Event,
    "EventShown",
    id=lambda event: f"{event.run_id}:{event.seq}",
    workflow_run_id="run_id",
    step_run_id="step_id",
    event_type="type",
    created_at="at",
)
LIVE_EVENT: Final = Representation(
    runs.LiveEvent, "LiveEvent", workflow_run_id="run_id", step_name="step", event_type="type"
)
LOG: Final = Representation(runs.Log, "LogShown", workflow_run_id="run_id", step_run_id="step_id")
MODEL_CALL: Final = Representation(
    runs.ModelCall, "ModelCallShown", workflow_run_id="run_id", step_run_id="step_id", cost_usd="cost"
)
COST_TOTAL: Final = Representation(runs.CostTotal, "Spent", cost_usd="cost")
MODEL_COST: Final = Representation(runs.ModelCost, "ModelCost", cost_usd="cost", model="name")
COST: Final = Representation(
    runs.Cost,
    "CostShown",
    total=lambda cost: COST_TOTAL.encode(cost.total),
    by_model=lambda cost: MODEL_COST.encode_all(cost.by_model),
    calls=lambda cost: MODEL_CALL.encode_all(cost.calls),
)
COST_SUMMARY: Final = Representation(
    runs.CostSummary,
    "CostSummaryShown",
    total=lambda summary: COST_TOTAL.encode(summary.total),
    by_model=lambda summary: MODEL_COST.encode_all(summary.by_model),
)

DAILY_COST: Final = Representation(runs.DailyCost, "DailyCost", cost_usd="cost")

# -- traces

ATTEMPT: Final = Representation(traces.Attempt, "Attempt")
PAST_WAIT: Final = Representation(traces.PastWait, "PastWait")
TRACED_CALL: Final = Representation(traces.TracedCall, "TracedCall", cost_usd="cost")
INNER_STEP: Final = Representation(
    traces.InnerStep,
    "InnerStep",
    {"status": StepStatus},
    attempts=lambda inner: ATTEMPT.encode_all(inner.attempts),
    calls=lambda inner: TRACED_CALL.encode_all(inner.calls),
)
TRACED_STEP: Final = Representation(
    traces.TracedStep,
    "TracedStep",
    {"status": StepStatus},
    **{name: f"step.{STEP.sources[name]}" for name in STEP.sources},
    attempts=lambda traced: ATTEMPT.encode_all(traced.attempts),
    waits=lambda traced: PAST_WAIT.encode_all(traced.waits),
    calls=lambda traced: TRACED_CALL.encode_all(traced.calls),
    inner_steps=lambda traced: INNER_STEP.encode_all(traced.inner_steps),
)
QUEUED: Final = Representation(traces.Queued, "Queued")
TRACE: Final = Representation(
    traces.Trace,
    "TraceShown",
    workflow_run_id="run.id",
    steps=lambda trace: TRACED_STEP.encode_all(trace.steps),
    queued=lambda trace: QUEUED.encode_all(trace.queued),
    complete="is_complete",
)
STEP_STATES: Final = Representation(
    traces.StepStates,
    "StepStatesShown",
    step_run_id="step.id",
    superstep="step.superstep",
    before_checkpoint_id="checkpoint_before",
    after_checkpoint_id="checkpoint_after",
)
SOURCE: Final = Representation(traces.Source, "SourceShown")
DIAGRAM: Final = Representation(
    traces.Diagram,
    "DiagramShown",
    nodes=lambda drawing: [asdict(node) for node in drawing.nodes],
    edges=lambda drawing: [asdict(edge) for edge in drawing.edges],
)

# -- interrupts, definitions and threads

WAIT: Final = Representation(
    runs.Wait,
    "WaitShown",
    workflow_run_id="run_id",
    step_run_id="step_id",
    signal_type="event",
    response_schema="schema",
)
APPROVAL: Final = Representation(runs.Approval, "ApprovalShown", workflow_run_id="run_id", step_run_id="step_id")
PAST_ANSWER: Final = Representation(runs.PastAnswer, "PastAnswerShown", workflow_run_id="run_id")
RECEIVED_EVENT: Final = Representation(runs.ReceivedEvent, "ReceivedEventShown")
DEFINITION: Final = Representation(definitions.Definition, "DefinitionShown")
DEFINITION_WITH_BODY: Final = Representation(definitions.DefinitionWithBody, "DefinitionWithBody", definition="body")
GRAPH: Final = Representation(definitions.Graph, "GraphShown")
GRAPH_DESCRIPTION: Final = Representation(
    definitions.GraphDescription,
    "GraphDescriptionShown",
    **{name: f"served.{name}" for name in ("name", "kind", "description", "version", "definition_id")},
    drawing="mermaid",
)
LOAD_PROBLEM: Final = Representation(definitions.LoadProblem, "LoadProblem")
RELOAD: Final = Representation(definitions.Reload, "Reload")
THREAD: Final = Representation(definitions.Thread, "ThreadShown")
CHECKPOINT: Final = Representation(
    definitions.Checkpoint,
    "CheckpointShown",
    checkpoint_id="id",
    parent_checkpoint_id="parent_id",
    branch="branch_key.branch",
    step="checkpoint.step",
    nodes=lambda saved: list(saved.metadata.get("nodes") or ()),
    next=lambda saved: [
        *(task.node for task in saved.checkpoint.frontier),
        *(deferred.task.node for deferred in saved.checkpoint.deferred),
    ],
)
THREAD_IN_LIST: Final = Representation(
    definitions.ThreadInList,
    "ThreadInList",
    {"status": RunStatus},
    run_id="run.id",
    graph="run.graph",
    status="run.status",
)

# -- schedules, triggers and webhooks

SCHEDULE: Final = Representation(automation.Schedule, "ScheduleShown")
PREVIEW: Final = Representation(automation.Preview, "Preview")
TRIGGER: Final = Representation(automation.Trigger, "TriggerShown")
WEBHOOK: Final = Representation(automation.Webhook, "WebhookShown")
WEBHOOK_WITH_SECRET: Final = Representation(automation.WebhookWithSecret, "WebhookWithSecret")
DELIVERY: Final = Representation(automation.Delivery, "DeliveryShown", workflow_run_id="run_id")

# -- workspaces and keys

KEY: Final = Representation(access.Key, "KeyShown")
NEW_KEY: Final = Representation(access.NewKey, "NewKey")
SESSION: Final = Representation(access.Session, "SessionShown")
WORKSPACE: Final = Representation(access.Workspace, "WorkspaceShown")
NEW_WORKSPACE: Final = Representation(access.NewWorkspace, "NewWorkspace")
SPENDING_LIMITS: Final = Representation(access.SpendingLimits, "SpendingLimitsShown")
SPENDING: Final = Representation(
    access.Spending,
    "SpendingShown",
    **{
        name: f"spent.{name}"
        for name in ("workspace_id", "day", "ends_at", "requests", "input_tokens", "output_tokens", "tokens")
    },
    cost_usd="spent.cost",
    limits=lambda report: None if report.limits is None else SPENDING_LIMITS.encode(report.limits),
)

# -- workers and queues

WORKER: Final = Representation(
    workers.Worker,
    "WorkerShown",
    **{
        name: f"worker.{name}"
        for name in ("id", "host", "pid", "capacity", "queues", "versions", "started_at", "until")
    },
)
QUEUE: Final = Representation(workers.Queue, "QueueShown")


# -- the health of the service


class Checks(BaseModel):
    """The results of the health checks."""

    database: access.CheckResult
    """`ok` if the database can be read."""
    writes: access.CheckResult
    """`ok` if the database accepted a write within the last few seconds."""
    queue: access.CheckResult
    """`ok` if the service of this process is running, with or without a worker."""


HEALTH: Final = Representation(access.Health, "Health", {"checks": Checks})


class Liveness(BaseModel):
    """Whether the process works, whatever the state of its database."""

    status: Literal["live", "stuck"]


class Readiness(BaseModel):
    """Whether the server accepts requests."""

    status: Literal["ready", "starting", "stopping"]

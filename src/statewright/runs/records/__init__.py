"""The records of the ledger."""

from statewright.ids import DEFAULT_WORKSPACE
from statewright.runs.records.record import Column, ColumnKind, Json, Record, columns_of
from statewright.runs.records.run import (
    DEFAULT_QUEUE,
    Approval,
    ModelCall,
    Run,
    RunLabel,
    Signal,
    StepLog,
    StepRun,
    Wait,
    Worker,
    is_queue_name,
)
from statewright.runs.records.workspace import (
    ApiKey,
    DailySpending,
    Delivery,
    Queue,
    ReceivedEvent,
    Schedule,
    Session,
    StoredDefinition,
    Trigger,
    Webhook,
    Workspace,
)

RECORDS: tuple[type[Record], ...] = (
    Run,
    RunLabel,
    StepRun,
    ModelCall,
    DailySpending,
    StepLog,
    Wait,
    Signal,
    Approval,
    StoredDefinition,
    Worker,
    Webhook,
    Delivery,
    Schedule,
    Trigger,
    ReceivedEvent,
    Workspace,
    Queue,
    ApiKey,
    Session,
)
"""Every class of records."""
OF_RUNS: tuple[type[Record], ...] = (RunLabel, StepRun, ModelCall, StepLog, Wait, Signal, Approval)
"""The classes of records that belong to a run by their `run_id`, and are deleted with the run."""

__all__ = [
    "DEFAULT_QUEUE",
    "DEFAULT_WORKSPACE",
    "OF_RUNS",
    "RECORDS",
    "ApiKey",
    "Approval",
    "Column",
    "ColumnKind",
    "DailySpending",
    "Delivery",
    "Json",
    "ModelCall",
    "Queue",
    "ReceivedEvent",
    "Record",
    "Run",
    "RunLabel",
    "Schedule",
    "Session",
    "Signal",
    "StepLog",
    "StepRun",
    "StoredDefinition",
    "Trigger",
    "Wait",
    "Webhook",
    "Worker",
    "Workspace",
    "columns_of",
    "is_queue_name",
]

"""Persistence of threads: the port, its model, and the in-memory implementation."""

from statewright.checkpoint.checkpointer import Checkpointer, check_value
from statewright.checkpoint.holders import (
    add_holder,
    checked_lease,
    discard_holder,
    is_holder_gone,
    new_owner,
    owner_name,
    run_of,
    short_owner,
)
from statewright.checkpoint.lease import Lease, LeaseRequest
from statewright.checkpoint.memory import InMemorySaver
from statewright.checkpoint.model import (
    NO_ARG,
    NO_JOINS,
    BranchKey,
    Checkpoint,
    Commit,
    DeferredTask,
    Interrupt,
    InterruptKind,
    Joins,
    JournalEntry,
    JournalKey,
    Pending,
    SavedCheckpoint,
    Source,
    Task,
    TaskResult,
    TimedTask,
    TimeLimit,
    Values,
    step_id,
)
from statewright.checkpoint.retention import Pruned, PrunePolicy, ThreadEntry
from statewright.checkpoint.workspaces import WorkspaceCheckpointer, check_workspace, scope_of
from statewright.futures import MaybeFuture
from statewright.ids import DEFAULT_WORKSPACE
from statewright.serde.annotations import schema_form
from statewright.serde.codecs import stored_as

__all__ = [
    "DEFAULT_WORKSPACE",
    "NO_ARG",
    "NO_JOINS",
    "BranchKey",
    "Checkpoint",
    "Checkpointer",
    "Commit",
    "DeferredTask",
    "InMemorySaver",
    "Interrupt",
    "InterruptKind",
    "Joins",
    "JournalEntry",
    "JournalKey",
    "Lease",
    "LeaseRequest",
    "MaybeFuture",
    "Pending",
    "PrunePolicy",
    "Pruned",
    "SavedCheckpoint",
    "Source",
    "Task",
    "TaskResult",
    "ThreadEntry",
    "TimeLimit",
    "TimedTask",
    "Values",
    "WorkspaceCheckpointer",
    "add_holder",
    "check_value",
    "check_workspace",
    "checked_lease",
    "discard_holder",
    "is_holder_gone",
    "new_owner",
    "owner_name",
    "run_of",
    "schema_form",
    "scope_of",
    "short_owner",
    "step_id",
    "stored_as",
]

"""The port of the memory of threads, its model, and its in-memory implementation."""

from statewright.checkpoint.annotations import schema_form
from statewright.checkpoint.checkpointer import Checkpointer
from statewright.checkpoint.codecs import stored_as
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
from statewright.checkpoint.memory import InMemorySaver
from statewright.checkpoint.model import (
    NO_ARG,
    NO_JOINS,
    Checkpoint,
    Commit,
    Held,
    Hold,
    Interrupt,
    InterruptKind,
    Joins,
    JournalEntry,
    JournalKey,
    Lease,
    Line,
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
from statewright.ids import DEFAULT_WORKSPACE
from statewright.promise import Answered

__all__ = [
    "DEFAULT_WORKSPACE",
    "NO_ARG",
    "NO_JOINS",
    "Answered",
    "Checkpoint",
    "Checkpointer",
    "Commit",
    "Held",
    "Hold",
    "InMemorySaver",
    "Interrupt",
    "InterruptKind",
    "Joins",
    "JournalEntry",
    "JournalKey",
    "Lease",
    "Line",
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

"""The port of the memory of threads, its model, and its in-memory implementation."""

from statewright.checkpoint.checkpointer import Answered, Checkpointer
from statewright.checkpoint.memory import InMemorySaver
from statewright.checkpoint.model import (
    NO_ARG,
    NO_JOINS,
    Checkpoint,
    Commit,
    Held,
    Interrupt,
    Joins,
    JournalEntry,
    JournalKey,
    Line,
    Pending,
    SavedCheckpoint,
    Source,
    Task,
    TaskResult,
    Values,
)

__all__ = [
    "NO_ARG",
    "NO_JOINS",
    "Answered",
    "Checkpoint",
    "Checkpointer",
    "Commit",
    "Held",
    "InMemorySaver",
    "Interrupt",
    "Joins",
    "JournalEntry",
    "JournalKey",
    "Line",
    "Pending",
    "SavedCheckpoint",
    "Source",
    "Task",
    "TaskResult",
    "Values",
]

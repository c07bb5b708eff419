"""Errors of savers, stores and ledgers, and of the database behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from statewright.errors.base import StatewrightError


class StorageError(StatewrightError):
    """Data could not be read or written."""


class CheckpointConflict(StorageError):
    """Another run has moved the head of the thread since this run read it."""

    exit_code: ClassVar[int] = 2

    def __init__(self, thread_id: str, expected: str | None, found: str | None) -> None:
        self.thread_id = thread_id
        self.expected = expected
        self.found = found
        change = f"is at checkpoint {found or 'none'}, and {expected or 'none'} was read: another run has moved it"
        if expected == found:  # the head is the same, but the epoch of the lease has changed
            change = f"was claimed or written to by another caller after checkpoint {found or 'none'} was read"
        super().__init__(f"Thread {thread_id!r} {change}. Nothing was written; load the thread and try again.")


class ThreadBusy(StorageError):
    """Another run is advancing the thread."""

    def __init__(self, thread_id: str, owner: str, until: object) -> None:
        self.thread_id = thread_id
        self.owner = owner
        super().__init__(
            f"Thread {thread_id!r} is being advanced by run {owner.partition('@')[0]!r} (its lease ends at {until}). "
            f"Nothing was written. Wait for it, or pass on_busy='enqueue', 'interrupt' or 'rollback'."
        )


class LeaseLost(StorageError):
    """The run no longer holds its thread: its lease expired or was released, and another run may hold the thread."""

    def __init__(self, thread_id: str, owner: str, found: str | None) -> None:
        self.thread_id = thread_id
        self.owner = owner
        self.found = found
        holder = f"run {found.partition('@')[0]!r} has taken it over" if found else "no run does"
        super().__init__(
            f"Run {owner.partition('@')[0]!r} no longer holds thread {thread_id!r}: {holder}. "
            f"Nothing was written. Load the thread to see its current state."
        )


class JournalConflict(StorageError):
    """The result of a step was recorded twice. The first record is kept."""

    def __init__(self, task_id: str, name: str, ordinal: int) -> None:
        self.task_id = task_id
        self.name = name
        self.ordinal = ordinal
        super().__init__(
            f"Step {name!r} (call {ordinal + 1}) of task {task_id} already has a recorded result, which is kept; this "
            f"one was not saved. Run the task again to continue with the recorded result."
        )


class NamespaceBusy(StorageError):
    """Two concurrent calls of a subgraph would write to the same memory."""

    def __init__(self, namespace: str, node: str) -> None:
        self.namespace = namespace
        super().__init__(
            f"Node {node!r} calls a subgraph with memory='thread' while another call in {namespace!r} is not finished. "
            f"Give each call its own call_key, or use memory='call'."
        )


class CheckpointNotFound(StorageError):
    """The thread, branch or checkpoint does not exist."""

    exit_code: ClassVar[int] = 2


class SerdeError(StorageError):
    """A value cannot be serialized, or stored data cannot be deserialized."""

    def __init__(self, key_path: str, reason: str) -> None:
        self.key_path = key_path
        super().__init__(f"{key_path} cannot be stored or read: {reason}.")


class StorageUnavailable(StorageError):
    """The database cannot be read or written at the moment. Earlier commits are safe."""


class StorageFull(StorageUnavailable):
    """The disk is full. Earlier commits are safe."""


class StorageLocked(StorageUnavailable):
    """Another process has locked the database for longer than the lock timeout."""


class DamagedDatabase(StorageError):
    """Stored data differs from what was written: the file was truncated, overwritten, or is not a database."""

    def __init__(self, damage: str, *, where: str | None = None) -> None:
        self.where = where
        """The path of the database, if it is known."""
        super().__init__(
            f"The database{f' {where}' if where else ''} is damaged: {damage}. "
            f"Restore a copy of it; `statewright db check` reports which threads can still be read."
        )


class RecordConflict(StorageError):
    """A record of the ledger is missing or has changed since it was read, because another caller was faster."""

    def __init__(self, table: str, record_id: str, expected: Sequence[Any] = ()) -> None:
        self.table = table
        self.id = record_id
        conditions = _format_conditions(expected)
        super().__init__(
            f"The record {record_id!r} of {table} does not exist"
            + (f" with {conditions}: another caller has changed it. Read it again." if conditions else ".")
        )


class RecordPresent(RecordConflict):
    """A record exists although the change requires that it does not, because another caller was faster."""

    def __init__(self, table: str, conditions: Sequence[Any]) -> None:
        super().__init__(table, "")
        self.args = (f"A record of {table} with {_format_conditions(conditions)} exists, but must not. Read it again.",)


def _format_conditions(conditions: Sequence[Any]) -> str:
    return " and ".join(f"{name} {operator} {value!r}" for name, operator, value in conditions)


class DuplicateRecord(RecordConflict):
    """A record with the same id, or the same unique values, already exists."""

    def __init__(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> None:
        super().__init__(table, "")
        self.columns = tuple(columns)
        duplicate = " and ".join(f"{name} {value!r}" for name, value in zip(columns, values, strict=True))
        self.args = (f"A record of {table} with {duplicate} already exists. Choose another value.",)


class WrongEncryptionKey(StorageError):
    """The database is encrypted with another key, or is not encrypted."""

    exit_code: ClassVar[int] = 2


class NewerFormat(StorageError):
    """The database was written by a newer version of Statewright."""

    def __init__(self, where: str, found: int, supported: int) -> None:
        self.found = found
        """The number of the database's format."""
        super().__init__(
            f"The database {where} has format {found}, and this version of Statewright reads up to {supported}. "
            f"Use the version that wrote it, or a newer one."
        )


class StoredError(StorageError):
    """A saved exception that is not restored as its own class, because that is not a class of Python or Statewright."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        """The module and the name of the exception's own class, joined by a dot."""
        super().__init__(text)

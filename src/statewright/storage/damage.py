"""Detection of damaged data. This library only writes bytes that it can decode, so a decoding error means damage."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TypeVar

from statewright.errors import DamagedDatabase, SerdeError, StorageError
from statewright.storage.database import Connection, Job

T = TypeVar("T")
UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""The exceptions that decoding damaged bytes can raise."""


@contextmanager
def report_damage(subject: str) -> Generator[None]:
    """Convert decoding errors in the block to DamagedDatabase. `subject` describes the data in the message."""
    try:
        yield
    except UNREADABLE as error:
        raise damage_error(subject, error) from error


def with_damage_report(function: Job[T], thread_id: str | None) -> Job[T]:
    """Return a job that calls `function` and converts decoding errors as `report_damage` does.

    `thread_id` is the thread that the job reads or writes; None if there are several.
    """

    def call_function(connection: Connection) -> T:
        try:  # not `report_damage`, because every commit of a superstep runs this, and a context manager is slower
            return function(connection)
        except UNREADABLE as error:
            raise damage_error("a thread" if thread_id is None else f"thread {thread_id!r}", error) from error

    return call_function


def damage_error(subject: str, error: Exception) -> StorageError:
    """Return the error for stored data that cannot be decoded; `subject` describes the data.

    If the cause is a parameter of a query that is not valid Unicode, this is not damage, and the error is a SerdeError.
    """
    if isinstance(error, UnicodeEncodeError):  # raised only for parameters, because reading stored data only decodes
        return SerdeError(subject, f"the name is not valid Unicode: {error}")
    return DamagedDatabase(f"the stored data of {subject} cannot be decoded: {error}")

"""Damaged data: this library does not write bytes that it cannot decode, so an error of decoding means damage."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TypeVar

from statewright.errors import DamagedDatabase, SerdeError, StorageError
from statewright.storage.database import Connection, Job

T = TypeVar("T")
UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions of decoding damaged bytes."""


@contextmanager
def reading(subject: str) -> Generator[None]:
    """Turn errors of decoding into DamagedDatabase. `subject` names the data in the message."""
    try:
        yield
    except UNREADABLE as error:
        raise damaged(subject, error) from error


def with_damage_report(function: Job[T], thread_id: str | None) -> Job[T]:
    """Return a job that reads or writes a thread, or several (None), and turns errors of decoding as `reading` does."""

    def reported(connection: Connection) -> T:
        try:  # not `reading`: each superstep commits through here, and a context manager costs more
            return function(connection)
        except UNREADABLE as error:
            raise damaged("a thread" if thread_id is None else f"thread {thread_id!r}", error) from error

    return reported


def damaged(subject: str, error: Exception) -> StorageError:
    """Return the error for stored data that cannot be decoded.

    A name that is not valid Unicode, passed as a parameter of a query, is not damage: it gives a SerdeError.
    """
    if isinstance(error, UnicodeEncodeError):  # raised for a parameter of the query; reading stored data only decodes
        return SerdeError(subject, f"the name is not valid Unicode: {error}")
    return DamagedDatabase(f"the stored data of {subject} cannot be decoded: {error}")

"""A process is forked between transactions, never in the middle of one.

SQLite notes in memory which locks on a file its process holds. A child gets a copy of the notes: if they say that
somebody writes, nothing in the child can ever write to that file, long after the parent has committed. So a fork waits
for the transactions that are under way.
"""

from __future__ import annotations

import os
import threading
from typing import Final, Protocol
from weakref import WeakValueDictionary

PATIENCE: Final = 10.0
"""Seconds for which a fork waits for one transaction. It is not for ever, since the thread that forks may itself be in
the middle of one: in a job, or in a signal handler."""


class Writer(Protocol):
    """Something that writes, only while it holds its lock."""

    @property
    def write_lock(self) -> threading.Lock:
        """The lock of this moment: a forked process has another one."""
        ...


_writers: WeakValueDictionary[int, Writer] = WeakValueDictionary()
_held = threading.local()
"""The locks that a thread holds while it forks."""


def fork_between_writes(writer: Writer) -> None:
    """Let forks wait for what a writer does, as long as there is one."""
    _writers[id(writer)] = writer


def _take_locks() -> None:
    locks: list[threading.Lock] = []
    _held.locks = locks
    for reference in _writers.valuerefs():
        writer = reference()
        if writer is not None and (lock := writer.write_lock).acquire(timeout=PATIENCE):
            locks.append(lock)


def _release_locks() -> None:
    for lock in _held.__dict__.pop("locks", ()):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_locks, after_in_parent=_release_locks, after_in_child=_release_locks)

"""Prevention of forks in the middle of a transaction.

SQLite records in memory which locks on a file its process holds. A child process gets a copy of that record: if it was
forked during a transaction, the write lock counts as taken in the child forever, and nothing there can write to the
file. So a fork waits for the end of open transactions.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from operator import methodcaller
from typing import Final, Protocol
from weakref import WeakValueDictionary

PATIENCE: Final = 10.0
"""Seconds to wait for a transaction. The fork proceeds after that, because the transaction may be open in the forking
thread itself, in a job or a signal handler, and would never end."""


class Writer(Protocol):
    """Writes to a file in transactions under a lock."""

    @property
    def transaction_lock(self) -> threading.Lock:
        """The current lock: a forked process has another one."""
        ...


_writers: WeakValueDictionary[int, Writer] = WeakValueDictionary()
_held = threading.local()
"""Locks that a thread holds while it forks."""


def defer_forks(writer: Writer) -> None:
    """Make forks of this process wait for the end of the open transaction of a writer, as long as the writer exists."""
    _writers[id(writer)] = writer


def _take_locks() -> None:
    open_writers = [reference() for reference in _writers.valuerefs()]
    locks = [writer.transaction_lock for writer in open_writers if writer is not None]
    held: list[threading.Lock] = []
    _held.locks = held
    # A single call of C, so that no signal handler can raise between taking a lock and adding it to the list.
    held.extend(filter(methodcaller("acquire", True, PATIENCE), locks))


def _release_locks() -> None:
    deque(map(methodcaller("release"), _held.__dict__.pop("locks", ())), maxlen=0)  # a single call of C again


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_locks, after_in_parent=_release_locks, after_in_child=_release_locks)

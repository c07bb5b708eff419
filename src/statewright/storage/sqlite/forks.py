"""Keeps a process from being forked in the middle of a transaction.

SQLite records in memory which locks on a file its own process holds. A child gets a copy of that record: if it was made
during a transaction, the write lock counts as taken in the child for ever, and nothing there can write to the file. So
a fork waits for the end of the transactions that are open.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from operator import methodcaller
from typing import Final, Protocol
from weakref import WeakValueDictionary

PATIENCE: Final = 10.0
"""Seconds for which a fork waits for a transaction. After that it goes on: the transaction may be open in the very
thread that forks, in a job or in a signal handler, and would never end."""


class Writer(Protocol):
    """Writes to a file in transactions, each under its lock."""

    @property
    def transaction_lock(self) -> threading.Lock:
        """Its present lock: a forked process has another one."""
        ...


_writers: WeakValueDictionary[int, Writer] = WeakValueDictionary()
_held = threading.local()
"""The locks that a thread holds while it forks."""


def fork_between_transactions(writer: Writer) -> None:
    """Let every fork of this process wait for the open transaction of a writer, as long as the writer exists."""
    _writers[id(writer)] = writer


def _take_locks() -> None:
    open_writers = [reference() for reference in _writers.valuerefs()]
    locks = [writer.transaction_lock for writer in open_writers if writer is not None]
    held: list[threading.Lock] = []
    _held.locks = held
    # One call of C: no signal handler can raise after a lock is taken and before it is in the list.
    held.extend(filter(methodcaller("acquire", True, PATIENCE), locks))


def _release_locks() -> None:
    deque(map(methodcaller("release"), _held.__dict__.pop("locks", ())), maxlen=0)  # one call of C again


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_locks, after_in_parent=_release_locks, after_in_child=_release_locks)

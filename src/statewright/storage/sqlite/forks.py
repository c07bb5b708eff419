"""Prevention of forks in the middle of a transaction.

SQLite records in memory which locks on a file the process holds, and a child process gets a copy of these records. If
it was forked during a transaction, the write lock would seem to be held in the child forever, and the child could not
write to the file. A fork therefore waits until open transactions have ended.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from operator import methodcaller
from typing import Final, Protocol
from weakref import WeakValueDictionary

PATIENCE: Final = 10.0
"""The maximum number of seconds to wait for a transaction. The fork proceeds after that, because the transaction may
have been begun by the forking thread itself, for example if a job or a signal handler forks, and would never end."""


class Writer(Protocol):
    """An object that writes to a file in transactions, and holds a lock during each of them."""

    @property
    def transaction_lock(self) -> threading.Lock:
        """The lock. In a forked process, it is another lock."""
        ...


_writers: WeakValueDictionary[int, Writer] = WeakValueDictionary()
"""The writers for whose transactions forks wait, by object id."""
_held = threading.local()
"""`_held.locks` are the locks that an OS thread holds while it forks."""


def defer_forks(writer: Writer) -> None:
    """Make forks of this process wait until the open transaction of a writer has ended, while the writer exists."""
    _writers[id(writer)] = writer


def _acquire_locks() -> None:
    open_writers = [reference() for reference in _writers.valuerefs()]
    locks = [writer.transaction_lock for writer in open_writers if writer is not None]
    held: list[threading.Lock] = []
    _held.locks = held
    # One call of a C function, so that no signal handler can run between acquiring a lock and adding it to the list.
    held.extend(filter(methodcaller("acquire", True, PATIENCE), locks))


def _release_locks() -> None:
    deque(map(methodcaller("release"), _held.__dict__.pop("locks", ())), maxlen=0)  # one call of a C function, as above


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_acquire_locks, after_in_parent=_release_locks, after_in_child=_release_locks)

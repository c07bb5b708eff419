"""Names of lease holders, and whether a holder still exists.

Each run holds its thread under a unique owner name. The name ends with the process that generated it
(`name@host.pid.start.nonce`), so the lease of a killed holder need not be waited for: on the same host it can be seen
that the process has ended, and within one process the set of live holders shows which runs have ended without a last
write (the disk was full, the stream was dropped). A name without a process is trusted until its lease lapses.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Final

from statewright.clock import Duration, as_seconds
from statewright.errors import InvalidConfig
from statewright.process_identity import host_key, is_process_gone, started_at

_live: Final[set[str]] = set()
"""The owners of this process whose runs have not ended. `add` and `discard` are atomic, so finalisers may call them."""
_process: tuple[int, str] = (0, "")
"""The process id and the suffix of owner names for it; both change in a forked child."""


def new_owner(name: str) -> str:
    """Return an owner name for a run of this process; `name` must be unique."""
    return f"{name}@{_process_key()}"


def short_owner(owner: str) -> str:
    """Return the name of an owner without its process, for messages."""
    return owner.rpartition("@")[0] or owner


def owner_name(run_id: str, unique_id: str) -> str:
    """Return a name for a run as a holder; `unique_id` distinguishes it from other holders with the same run id."""
    return new_owner(run_id if run_id == unique_id else f"{run_id}/{unique_id}")


def run_of(owner: str) -> str:
    """Return the id of the run that holds a thread under a name from `owner_name`."""
    name = short_owner(owner)
    return name.rpartition("/")[0] or name


def add_holder(owner: str) -> None:
    """Record that a run of this process may hold a thread from now on."""
    _live.add(owner)


def discard_holder(owner: str) -> None:
    """Record that a run of this process has ended, which voids its lease. May be called by a finaliser."""
    _live.discard(owner)


def is_holder_gone(owner: str) -> bool:
    """Return whether a holder certainly does not exist any more, so that its lease need not be waited for."""
    name, _, process = owner.rpartition("@")
    if not name:
        return False
    if process == _process_key():
        return owner not in _live
    host, pid, started, _ = process.split(".")
    return is_process_gone(host, int(pid), started)


def _process_key() -> str:
    global _process
    pid = os.getpid()
    if _process[0] != pid:
        _live.clear()  # in a forked child, whose parent still has these runs
        # The nonce distinguishes processes with the same id where the kernel does not report their start times.
        _process = pid, f"{host_key()}.{pid}.{started_at(pid) or ''}.{os.urandom(4).hex()}"
    return _process[1]


def checked_lease(lease: Duration | None) -> timedelta | None:
    """Return the duration of a lease. Raises InvalidConfig for one that is not positive."""
    if lease is None:
        return None
    seconds = as_seconds(lease)
    if not seconds > 0:
        raise InvalidConfig(f"lease= is {lease!r}. Give a time greater than zero, in seconds or as a timedelta.")
    return timedelta(seconds=seconds)

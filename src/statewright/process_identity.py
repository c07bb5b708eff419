"""The identity of this process, and whether another process on the same machine has ended.

A killed process does not release its leases, and other processes would have to wait until the leases expire. Processes
on the same machine can see that the killed process is gone: its id is no longer in use, or belongs to a process that
started at another time.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final

_PROC: Final = "/proc"
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


@cache
def host_id() -> str:
    """Return the scope in which process ids are unique: the host name, the boot and the container."""
    from socket import gethostname  # slow to import, and needed only once a run holds a thread

    try:
        with open(_BOOT_ID, encoding="utf-8") as file:
            boot = file.read().strip()
        container = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot, container = "", ""
    return f"{gethostname()} {boot} {container}".strip()


@cache
def host_key() -> str:
    """Return a short digest of `host_id`, for names that are stored."""
    from hashlib import sha256  # slow to import; see `host_id`

    return sha256(host_id().encode()).hexdigest()[:12]


def started_at(pid: int) -> str | None:
    """Return the start time of a process in clock ticks since the boot; None if it is not running, or without /proc."""
    try:
        return _read_start(pid)
    except OSError:
        return None


def _read_start(pid: int) -> str | None:
    """Return the start time of a process; None if it has ended, and its parent has not noticed it yet.

    Raises OSError if that cannot be read.
    """
    with open(f"{_PROC}/{pid}/stat", encoding="utf-8", errors="replace") as file:
        stat = file.read()
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]  # a zombie has ended; see proc(5) for the indexes


def is_process_gone(host: str, pid: int, started: str) -> bool:
    """Return True if a process has ended, and False if that is unknown.

    It is unknown if the process ran on another host, has no start time, or cannot be read: for example, because no file
    descriptor is free, or /proc hides the processes of other users. `host` is the result of `host_id` or `host_key` in
    that process, and `started` that of `started_at`.
    """
    if host not in (host_id(), host_key()) or not started:
        return False
    try:
        return _read_start(pid) != started
    except (FileNotFoundError, ProcessLookupError):
        return not _has_process(pid)
    except OSError:
        return False


def _has_process(pid: int) -> bool:
    """Return whether a process exists, of whatever user."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True

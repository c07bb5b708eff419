"""The identity of this process, and whether another process on the same machine has ended.

A killed process does not release its leases, and other processes would have to wait until the leases expire. Processes
on the same machine can see that the killed process is gone: its id is no longer in use, or belongs to a process that
started at another time.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@cache
def host_id() -> str:
    """Return the scope in which process ids are unique: the host name, the boot and the container."""
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
        container = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot, container = "", ""
    return f"{socket.gethostname()} {boot} {container}".strip()


@cache
def host_key() -> str:
    """Return a short digest of `host_id`, for names that are stored."""
    return sha256(host_id().encode()).hexdigest()[:12]


def started_at(pid: int) -> str | None:
    """Return the start time of a process in clock ticks since the boot; None if it is not running, or without /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]  # a zombie has ended; see proc(5) for the indexes


def is_process_gone(host: str, pid: int, started: str) -> bool:
    """Return True if a process has ended, and False if that is unknown: it ran on another host, or has no start time.

    `host` is the result of `host_id` or `host_key` in that process, and `started` that of `started_at`.
    """
    if host not in (host_id(), host_key()) or not started:
        return False
    return started_at(pid) != started

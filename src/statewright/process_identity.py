"""Which process this is, and whether another one of the same machine still runs.

A process that was killed releases nothing, and others would have to wait until its lease has lapsed. On its own
machine it can be seen at once that it is gone: process ids mean the same there, and a process that began at another
instant is another process.
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
    """Return the scope in which process ids are unique: a machine since its last boot, and the container on it."""
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
    """Return when a process of this machine began, in the kernel's count; None if it does not run or is unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]  # a zombie runs no more; see proc(5) for the numbers


def is_process_gone(host: str, pid: int, started: str) -> bool:
    """Return whether a process certainly runs no more: one of another host, or without a start time, may.

    `host` is what `host_id` or `host_key` returned in that process.
    """
    if host not in (host_id(), host_key()) or not started:
        return False
    return started_at(pid) != started

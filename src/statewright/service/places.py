"""Which process this is, and whether another one of the same machine still lives.

A worker that was killed says nothing any more, and others would have to wait until its time is over. On its own
machine it can be seen at once that it is gone.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path
from typing import Final

from statewright.runs import Worker

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@cache
def this_place() -> str:
    """Where numbers of processes mean the same: the machine, since it was started, and the container on it."""
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
        container = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot, container = "", ""
    return f"{socket.gethostname()} {boot} {container}".strip()


def started_of(pid: int) -> str | None:
    """When a process of this machine began, as the machine counts it; None if there is none, or it can't be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]  # a zombie runs no more; see proc(5) for the numbers


def is_gone(worker: Worker) -> bool:
    """Whether the process of a worker certainly lives no more."""
    if worker.place != this_place() or not worker.process_started:
        return False
    return started_of(worker.pid) != worker.process_started

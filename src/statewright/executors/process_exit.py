"""The exit of a process, as something to wait for, and the end of all processes that it has started.

The pipes of a process do not show that it has exited: a child that it has forked holds them open. Linux reports the
exit on a file descriptor of the process. Elsewhere, the process has to be polled.

A worker leads a process group of its own, so that what a node has started (a program, a pool of its own) ends with the
worker, unless it has left the group.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Final

POLL_SECONDS: Final = 1.0
"""The polling interval if the exit of a process is not reported."""


def open_exit(pid: int) -> int | None:
    """Return a file descriptor that is readable once a process has exited; None if the system has none."""
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):  # an old kernel, or a sandbox
            return os.pidfd_open(pid)
    return None


def lead_group() -> None:
    """Make this process the leader of a group. It leaves the terminal, whose Ctrl-C is for its parent."""
    if hasattr(os, "setsid"):
        with suppress(OSError):  # it leads one already
            os.setsid()


def kill_group(pid: int) -> None:
    """Kill the processes that a leader has started, and the leader, which may have exited."""
    if hasattr(os, "killpg"):
        with suppress(OSError):  # the group is empty, or the process has not begun to lead it
            os.killpg(pid, signal.SIGKILL)


def exit_with_group() -> None:
    """Exit at once, with all processes that this one has started."""
    if hasattr(os, "getpgrp") and os.getpgrp() == os.getpid():
        kill_group(os.getpid())
    os._exit(1)

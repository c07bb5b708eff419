"""One attempt at a task, and the heartbeats that keep it from timing out."""

from __future__ import annotations

from collections.abc import Callable

from statewright.checkpoint import Task
from statewright.clock import Clock


class Attempt:
    """One attempt at a task with policies: its number, and whether its outcome is still awaited."""

    __slots__ = (
        "_last_beat",
        "abandoned",
        "again",
        "clock",
        "failed_task",
        "heartbeat_only",
        "number",
        "on_begin",
        "outer",
    )

    def __init__(
        self,
        number: int,
        clock: Clock,
        *,
        again: bool = False,
        heartbeat_only: bool = False,
        outer: Attempt | None = None,
    ) -> None:
        self.number = number
        """Counted from 1; 0 if the result comes from a cache."""
        self.again = again
        """True if this call has made an attempt before."""
        self.abandoned = False
        """True once the attempt has been given up, though it may still run: its later effects are ignored."""
        self.failed_task: Task | None = None
        """The task, once this attempt has failed and will be retried."""
        self.clock = clock
        self.heartbeat_only = heartbeat_only
        """True if only explicit heartbeats count as progress; otherwise stream writes and steps count too."""
        self.outer = outer
        """For the call of a `@task` function: the attempt at the caller. If that is abandoned, so is this one."""
        self.on_begin: Callable[[], object] | None = None
        """Called when a worker in another process begins with the call, if its time limit counts from then."""
        self._last_beat: float | None = None

    def is_over_for(self, task: Task | None) -> bool:
        """Return whether this or an outer attempt has ended, so that side effects of `task` must be rejected.

        Threads and asyncio tasks that outlive a failed attempt must not record steps for the retry. Steps and `@task`
        calls in progress have task ids of their own and may finish.
        """
        return self.has_ended_for(task) or (self.outer is not None and self.outer.is_over_for(task))

    def has_ended_for(self, task: Task | None) -> bool:
        """Like `is_over_for`, without the outer attempts."""
        return self.abandoned or (self.failed_task is not None and self.failed_task is task)

    def beat(self) -> None:
        """Record a heartbeat."""
        self._last_beat = self.clock.monotonic()

    def idle_since(self, begin: float) -> float:
        """Return the time of the last heartbeat, or `begin` if there was none."""
        return begin if self._last_beat is None else self._last_beat

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
        "clock",
        "failed_task",
        "heartbeat_only",
        "is_repeat",
        "number",
        "on_begin",
        "outer",
    )

    def __init__(
        self,
        number: int,
        clock: Clock,
        *,
        is_repeat: bool = False,
        heartbeat_only: bool = False,
        outer: Attempt | None = None,
    ) -> None:
        self.number = number
        """Counted from 1; 0 if the result comes from a cache."""
        self.is_repeat = is_repeat
        """True if the same run has already made an attempt at the task."""
        self.abandoned = False
        """True once the attempt has been given up. Its code may still be running, but has no further effect."""
        self.failed_task: Task | None = None
        """The task, once this attempt has failed and will be retried."""
        self.clock = clock
        self.heartbeat_only = heartbeat_only
        """True if only explicit heartbeats reset the idle timeout; otherwise stream writes and steps reset it too."""
        self.outer = outer
        """For a call of a `@task` function: the attempt that made the call. If it is abandoned, so is this attempt."""
        self.on_begin: Callable[[], object] | None = None
        """Called when a worker in another process begins with the call, if its time limit counts from then."""
        self._last_beat: float | None = None
        """The time of the last heartbeat, by `Clock.monotonic`; None if there was none."""

    def is_over_for(self, task: Task | None) -> bool:
        """Return whether this attempt or an outer one has ended, so that side effects of `task` must be rejected.

        Threads and asyncio tasks that outlive a failed attempt must not record steps for the next one. Steps and
        `@task` calls that are in progress may finish, because they have tasks of their own.
        """
        return self.has_ended_for(task) or (self.outer is not None and self.outer.is_over_for(task))

    def has_ended_for(self, task: Task | None) -> bool:
        """Return the same as `is_over_for`, but without regard to outer attempts."""
        return self.abandoned or (self.failed_task is not None and self.failed_task is task)

    def beat(self) -> None:
        """Record a heartbeat, which resets the idle timeout."""
        self._last_beat = self.clock.monotonic()

    def idle_since(self, begin: float) -> float:
        """Return the time of the last heartbeat, or `begin` if there was none, by `Clock.monotonic`."""
        return begin if self._last_beat is None else self._last_beat

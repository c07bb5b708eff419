"""Limits that attempts share: how many run at once, how often they start, and whether they start at all.

One object of these serves every run of a compiled graph, on whatever thread or loop: none of them waits, they say
when to try again or call back. `runtime/tasks/retries.py` asks them; the performers of its effects wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from statewright.clock import as_seconds
from statewright.errors import CircuitOpen, RateLimited
from statewright.graph import CircuitBreaker, RateLimit

Waiter = Callable[[], bool]
"""Called when a slot is free for whoever waits; False if nobody waits there any more."""


class Slots:
    """So many may be at work at once; the others wait in the order in which they came."""

    __slots__ = ("_free", "_lock", "_waiters")

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._lock = threading.Lock()
        self._waiters: deque[Waiter] = deque()

    def acquire(self, waiter: Waiter) -> bool:
        """Take a slot if one is free; otherwise `waiter` is called once with one, later."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return True
            self._waiters.append(waiter)
            return False

    def overdraw(self) -> None:
        """Take a slot though none may be free, where nothing may wait: the next that is given back pays for it."""
        with self._lock:
            self._free -= 1

    def release(self) -> None:
        """Give a slot back: to the first that still waits, or to whoever comes."""
        while True:
            with self._lock:
                if self._free < 0 or not self._waiters:
                    self._free += 1
                    return
                waiter = self._waiters.popleft()
            if waiter():
                return


class Rate:
    """A token bucket: `limit` tokens flow in every `per` seconds, and at most `burst` lie ready."""

    __slots__ = ("_lock", "_policy", "_seen", "_tokens", "_who")

    def __init__(self, policy: RateLimit, who: str) -> None:
        self._policy = policy
        self._who = who
        self._tokens = float(policy.burst or policy.limit)
        self._seen: float | None = None
        self._lock = threading.Lock()

    def reserve(self, now: float) -> float:
        """Take a token; how many seconds until it is there. Raises RateLimited if the policy refuses to wait.

        `now` is in seconds of a clock that never goes back.
        """
        policy = self._policy
        per = as_seconds(policy.per)
        with self._lock:
            flow = policy.limit / per
            passed = now - self._seen if self._seen is not None else 0.0
            self._tokens = min(float(policy.burst or policy.limit), self._tokens + passed * flow)
            self._seen = now
            missing = max(0.0, (1.0 - self._tokens) / flow)
            if missing > 0 and policy.on_limit == "refuse":
                raise RateLimited(self._who, policy.limit, per, missing)
            self._tokens -= 1.0  # below zero: those who wait have each their own place in time
        return missing

    def refund(self) -> None:
        """Return a token that was not used. Callers that wait behind it keep their time."""
        with self._lock:
            self._tokens += 1.0


class Circuit:
    """Counts failures in a row; open after too many, then let one through to see whether things are better."""

    __slots__ = ("_failures", "_lock", "_opened_at", "_policy", "_probing", "_who")

    def __init__(self, policy: CircuitBreaker, who: str) -> None:
        self._policy = policy
        self._who = who
        self._failures = 0
        self._opened_at: float | None = None
        self._probing = False
        self._lock = threading.Lock()

    def enter(self, now: float) -> None:
        """Ask to make an attempt. Raises CircuitOpen."""
        with self._lock:
            if self._opened_at is None:
                return
            remaining = self._opened_at + as_seconds(self._policy.reset_after) - now
            if remaining > 0 or self._probing:
                raise CircuitOpen(self._who, self._failures, max(remaining, 0.0))
            self._probing = True

    def record(self, error: BaseException | None, now: float) -> None:
        """Say how an attempt ended; None for well, or for no fault of what was called."""
        with self._lock:
            self._probing = False
            if error is None or not self._policy.counted(error):
                self._failures, self._opened_at = 0, None
                return
            self._failures += 1
            if self._failures >= self._policy.failure_threshold:
                self._opened_at = now

    def let_go(self) -> None:
        """Forget an attempt of which nobody can say how it ended: the next one is let through."""
        with self._lock:
            self._probing = False

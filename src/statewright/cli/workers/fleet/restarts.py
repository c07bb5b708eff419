"""When a fleet may replace workers that were lost: after a delay that grows with each loss.

A worker that dies at once, because its machine has no memory left or its code is broken, would otherwise be started
again and again. The delay is one of the whole fleet. Ten workers that are lost together, with their machine, count
once.
"""

from __future__ import annotations

import math
from typing import Final

from statewright.clock import backoff

FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 60.0
CALM_SECONDS: Final = 2 * LONGEST_DELAY
"""Seconds without a loss after which the delay is reset."""


class RestartBackoff:
    """The delay until lost workers may be replaced. Times are seconds of a clock that never decreases."""

    def __init__(self) -> None:
        self._losses = 0
        self._lost_at = -math.inf
        self._may_start_at = -math.inf

    def record_loss(self, now: float) -> float:
        """Record that one or more workers were lost, and return the seconds until they may be replaced."""
        self._losses = 1 if now - self._lost_at >= CALM_SECONDS else self._losses + 1
        self._lost_at = now
        delay = backoff(self._losses, initial=FIRST_DELAY, longest=LONGEST_DELAY)
        self._may_start_at = now + delay
        return delay

    def may_start(self, now: float) -> bool:
        """Return True if workers may be started now."""
        return now >= self._may_start_at

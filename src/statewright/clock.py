"""The port through which Statewright reads the time.

Only drivers and adapters hold a clock; the core is handed instants. Tests use `statewright.testing.FakeClock`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Where instants come from."""

    def now(self) -> datetime:
        """The present instant, with its time zone."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

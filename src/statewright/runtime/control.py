"""The handle by which a run is asked to stop at the next superstep boundary."""

from __future__ import annotations


class RunControl:
    """Give one to a call as `control=`, and ask it to drain from any thread. A flag without a lock."""

    __slots__ = ("drain_reason",)

    def __init__(self) -> None:
        self.drain_reason: str | None = None
        """Why the run should stop; None while it should not."""

    def request_drain(self, reason: str = "drain requested") -> None:
        """Stop before the next superstep. What was done is kept; `invoke(None)` on the thread goes on."""
        self.drain_reason = reason

    @property
    def drain_requested(self) -> bool:
        return self.drain_reason is not None

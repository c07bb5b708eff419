"""The handle by which a run is asked to stop: at the next superstep boundary, or at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from statewright.promise import SafeEvent


class RunControl:
    """Give one to a call as `control=`, and ask it to stop from any thread, or from a signal handler.

    The whole tree of subgraphs shares it.
    """

    # No lock: a signal handler may ask while the thread that it interrupts is anywhere in here, and a suspended run
    # may be dropped anywhere. Each operation on the dict and on the deque is atomic by itself.
    __slots__ = ("__weakref__", "_calls", "_waiters", "cancel_reason", "drain_reason")

    def __init__(self) -> None:
        self.drain_reason: str | None = None
        """Why the run should stop before its next superstep; None while it should not."""
        self.cancel_reason: str | None = None
        """Why the run should stop at once; None while it should not."""
        self._calls: dict[int, Callable[[], object]] = {}
        self._waiters: deque[SafeEvent] = deque()

    def request_drain(self, reason: str = "drain requested") -> None:
        """Stop before the next superstep. What was done is kept; `invoke(None)` on the thread goes on."""
        self.drain_reason = reason

    def request_cancel(self, reason: str = "cancel requested") -> None:
        """Stop at once, in all subgraphs too.

        Coroutines are cancelled; plain functions cannot be stopped, but nobody waits for them and what they still
        write is ignored. Results that had landed are kept; `invoke(None)` on the thread goes on with the rest.
        """
        self.cancel_reason = reason
        for key, call in self._calls.copy().items():
            try:
                call()
            except RuntimeError:
                if key in self._calls:
                    raise
                # Its block has ended in between, and the event loop that it would have woken is closed.

    @property
    def drain_requested(self) -> bool:
        return self.drain_reason is not None

    @property
    def cancel_requested(self) -> bool:
        return self.cancel_reason is not None

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Generator[None]:
        """While the block runs, call back when the run is cancelled; at once if it was."""
        self._calls[id(callback)] = callback
        try:
            if self.cancel_reason is not None:
                callback()
            yield
        finally:
            self._calls.pop(id(callback), None)
            while not self._calls and self._waiters:
                with suppress(IndexError):  # another block ends at the same time
                    self._waiters.popleft().set()

    @property
    def has_stopped(self) -> bool:
        """Whether nothing is under way that a cancellation would stop."""
        return not self._calls

    def wait_until_stopped(self) -> None:
        """Wait until everything that a cancellation stops has cleaned up; all of it ends by itself."""
        while self._calls:
            stopped = SafeEvent()
            self._waiters.append(stopped)
            if self._calls:  # still: the block that ends next sets the event
                stopped.wait()

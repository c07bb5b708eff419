"""The handle to stop a run from outside: before the next superstep, or at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from statewright.futures import SafeEvent


class RunControl:
    """Stops the call that receives it as `control=`, with all its subgraphs, from any thread or a signal handler."""

    # No lock: a signal handler may stop the run while the thread that it interrupts executes one of these methods, and
    # a suspended run may be dropped at any time. Each operation on the dict and the deque is atomic.
    __slots__ = ("__weakref__", "_calls", "_waiters", "cancel_reason", "drain_reason")

    def __init__(self) -> None:
        self.drain_reason: str | None = None
        """The reason to stop before the next superstep; None if no drain was requested."""
        self.cancel_reason: str | None = None
        """The reason to stop at once; None if no cancellation was requested."""
        self._waiters: deque[SafeEvent] = deque()
        self._calls: dict[object, tuple[Callable[[], object], object]] = {}
        """The callbacks of `calling`, each with the run to which it belongs."""

    def request_drain(self, reason: str = "drain requested") -> None:
        """Stop before the next superstep. Completed supersteps are kept; `invoke(None)` on the thread continues."""
        self.drain_reason = reason

    def request_cancel(self, reason: str = "cancel requested") -> None:
        """Stop at once, in all subgraphs too.

        Coroutines are cancelled. Plain functions cannot be stopped, but the run does not wait for them, and ignores
        what they write later. The results of tasks that have ended are kept; `invoke(None)` on the thread executes the
        others.
        """
        self.cancel_reason = reason
        first_error: Exception | None = None
        for key, (call, _) in self._calls.copy().items():
            try:
                call()
            except Exception as error:  # raised after the other callbacks have been called
                # A RuntimeError after the end of its block only means that the event loop to wake is closed.
                if key in self._calls or not isinstance(error, RuntimeError):
                    first_error = first_error or error
        if first_error is not None:
            raise first_error

    def wake(self, run: object) -> None:
        """Call the callbacks of one run, because it has ended without `request_cancel`."""
        for call, owner in self._calls.copy().values():
            if owner is run:
                with suppress(RuntimeError):  # its block has ended and its event loop is closed
                    call()

    @property
    def drain_requested(self) -> bool:
        return self.drain_reason is not None

    @property
    def cancel_requested(self) -> bool:
        return self.cancel_reason is not None

    @contextmanager
    def on_cancel(self, callback: Callable[[], object], run: object = None) -> Generator[None]:
        """During the block, call back when the run is cancelled; at once if it already is.

        `run` is the run to which the block belongs: runs may share a control, and each waits only for its own blocks.
        """
        key = object()
        self._calls[key] = callback, run
        try:
            if self.cancel_reason is not None:
                callback()
            yield
        finally:
            self._calls.pop(key, None)
            while self._waiters:
                with suppress(IndexError):  # another block ends at the same time
                    self._waiters.popleft().set()

    @property
    def has_stopped(self) -> bool:
        """True if nothing is running that a cancellation would stop."""
        return not self._calls

    def wait_until_stopped(self, run: object = None) -> None:
        """Wait until all `calling` blocks of a run have ended, which they do by themselves."""
        while self._has_calls(run):
            stopped = SafeEvent()
            self._waiters.append(stopped)
            if self._has_calls(run):  # checked again, because only a block that ends from now on sets the event
                stopped.wait()

    def _has_calls(self, run: object) -> bool:
        return any(owner is run for _, owner in self._calls.copy().values())


class LinkedControl(RunControl):
    """A control for one call, which is also cancelled or drained together with the user's control."""

    __slots__ = ("_source",)

    def __init__(self, source: RunControl) -> None:
        super().__init__()
        self._source = source

    @property
    def drain_requested(self) -> bool:
        if self.drain_reason is None:  # there are no callbacks for a drain: waiting code polls this property
            self.drain_reason = self._source.drain_reason
        return self.drain_reason is not None

    @contextmanager
    def linked(self) -> Generator[None]:
        """Forward cancellations of the user's control during the block."""
        with self._source.on_cancel(lambda: self.request_cancel(self._source.cancel_reason or "cancel requested")):
            yield

"""The handle to stop a run from outside: before the next superstep, or at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from statewright.futures import SafeEvent


class RunControl:
    """Stops a run and its subgraphs, from any thread or a signal handler. Pass it as `control=` to the call of a graph.

    "Cancel" means to stop at once, "drain" to stop before the next superstep.
    """

    # No lock: a signal handler may stop the run while the thread that it interrupts is executing one of these methods,
    # and a suspended run may be dropped at any time. Each operation on the dict and the deque is atomic.
    __slots__ = ("__weakref__", "_callbacks", "_waiters", "cancel_reason", "drain_reason")

    def __init__(self) -> None:
        self.drain_reason: str | None = None
        """The reason to stop before the next superstep; None if no drain was requested."""
        self.cancel_reason: str | None = None
        """The reason to stop at once; None if no cancellation was requested."""
        self._waiters: deque[SafeEvent] = deque()
        """One event for each thread that is in `wait_until_stopped`."""
        self._callbacks: dict[object, tuple[Callable[[], object], object]] = {}
        """For each `on_cancel` block that has not ended: its callback, and the run to which the block belongs."""

    def request_drain(self, reason: str = "drain requested") -> None:
        """Stop before the next superstep. Completed supersteps are kept, and `invoke(None)` continues the thread."""
        self.drain_reason = reason

    def request_cancel(self, reason: str = "cancel requested") -> None:
        """Stop at once, in all subgraphs too.

        Coroutines are cancelled. Plain functions cannot be stopped, but the run does not wait for them, and ignores
        what they write later. The results of tasks that have ended are kept, so `invoke(None)` continues the thread
        with the other tasks.
        """
        self.cancel_reason = reason
        first_error: Exception | None = None
        for key, (callback, _) in self._callbacks.copy().items():
            try:
                callback()
            except Exception as error:  # raised after the other callbacks have been called
                # If the block has ended meanwhile, a RuntimeError only means that the event loop to wake is closed.
                if key in self._callbacks or not isinstance(error, RuntimeError):
                    first_error = first_error or error
        if first_error is not None:
            raise first_error

    def wake(self, run: object) -> None:
        """Call the callbacks of one run, which was cancelled by other means than `request_cancel`."""
        for callback, owner in self._callbacks.copy().values():
            if owner is run:
                with suppress(RuntimeError):  # the block has ended, and its event loop is closed
                    callback()

    @property
    def drain_requested(self) -> bool:
        return self.drain_reason is not None

    @property
    def cancel_requested(self) -> bool:
        return self.cancel_reason is not None

    @contextmanager
    def on_cancel(self, callback: Callable[[], object], run: object = None) -> Generator[None]:
        """During the block, call `callback` when a cancellation is requested, or at once if it already was.

        `run` is the root run to which the block belongs. Runs may share a control, and `wait_until_stopped` waits only
        for the blocks of one of them.
        """
        key = object()
        self._callbacks[key] = callback, run
        try:
            if self.cancel_reason is not None:
                callback()
            yield
        finally:
            self._callbacks.pop(key, None)
            while self._waiters:
                with suppress(IndexError):  # another thread, whose block ends at the same time, has taken the last one
                    self._waiters.popleft().set()

    @property
    def has_stopped(self) -> bool:
        """True if nothing is running that a cancellation would stop."""
        return not self._callbacks

    def wait_until_stopped(self, run: object = None) -> None:
        """Wait until all `on_cancel` blocks of a run have ended. After a cancellation they end by themselves."""
        while self._has_blocks(run):
            block_ended = SafeEvent()
            self._waiters.append(block_ended)
            if self._has_blocks(run):  # checked again, because only a block that ends from now on sets the event
                block_ended.wait()

    def _has_blocks(self, run: object) -> bool:
        return any(owner is run for _, owner in self._callbacks.copy().values())


class LinkedControl(RunControl):
    """A control for one call. It can be cancelled by itself, and follows the control that the user has passed."""

    __slots__ = ("_user_control",)

    def __init__(self, user_control: RunControl) -> None:
        super().__init__()
        self._user_control = user_control

    @property
    def drain_requested(self) -> bool:
        if self.drain_reason is None:  # a drain has no callbacks: code that waits polls this property
            self.drain_reason = self._user_control.drain_reason
        return self.drain_reason is not None

    @contextmanager
    def linked(self) -> Generator[None]:
        """During the block, cancel this control too when the user's control is cancelled."""
        user_control = self._user_control
        with user_control.on_cancel(lambda: self.request_cancel(user_control.cancel_reason or "cancel requested")):
            yield

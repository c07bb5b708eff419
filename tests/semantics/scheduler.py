"""A scheduler that decides which of several callers continues, at each of their calls to the storage or the clock.

Each caller runs in a thread of its own and stops at a gate before and after each call of its saver, and wherever it
would wait for time. The scheduler opens one gate at a time, so that an order is a list of choices: the same seed
gives the same interleaving on every machine.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from statewright.checkpoint import JournalKey
from statewright.clock import Alarm, SystemClock
from statewright.errors import StorageUnavailable
from statewright.futures import resolve
from statewright.ids import TaskId
from statewright.runtime.lifecycle.thread_lease import LONGEST_POLL

GUARD = 600.0
"""Seconds after which a caller is considered to hang."""


class Killed(BaseException):
    """Ends a caller whose process was killed: none of its later calls reaches the storage."""


class Caller(threading.Thread):
    """A caller: its action, and its result or error."""

    def __init__(self, scheduler: Scheduler, name: str, act: Callable[[], Any]) -> None:
        super().__init__(name=name, daemon=True)
        self.result: Any = None
        self.error: BaseException | None = None
        self.open = threading.Event()
        self.stops_left: int | None = None
        """The number of gates that it will pass before it is killed; None if it is not killed."""
        self.interruptions: set[int] = set()
        """The numbers of the gates at which a KeyboardInterrupt is raised, as by Ctrl-C."""
        self.gates = 0
        """The number of gates that it has passed."""
        self._scheduler = scheduler
        self._act = act

    @property
    def is_killed(self) -> bool:
        return self.stops_left is not None and self.stops_left < 0

    def pass_gate(self) -> None:
        """Raises Killed or KeyboardInterrupt if the caller is killed or interrupted at this gate."""
        if self.stops_left is not None:
            self.stops_left -= 1
            if self.is_killed:
                raise Killed
        self.gates += 1
        if self.gates in self.interruptions:
            raise KeyboardInterrupt

    def run(self) -> None:
        try:
            self._scheduler.stop_here()
            self.result = self._act()
        except BaseException as error:
            self.error = error
        self._scheduler.leave(self)


class Scheduler:
    """Lets one caller continue at a time, chosen by a seeded generator.

    If it is `uneven`, some callers are chosen rarely for a while, so that others make many steps meanwhile.
    """

    def __init__(self, seed: int, *, uneven: bool = False) -> None:
        self._random = random.Random(seed)
        self._uneven = uneven
        self._weights: dict[str, float] = {}
        self._callers: list[Caller] = []
        self._parked: dict[Caller, None] = {}
        self._changed = threading.Condition()

    def add(self, name: str, act: Callable[[], Any]) -> Caller:
        caller = Caller(self, name, act)
        self._callers.append(caller)
        return caller

    def stop_here(self) -> None:
        """Wait until the calling thread is chosen. Return at once on threads that are not callers.

        Raises Killed if the caller is killed at this gate, or was before, and KeyboardInterrupt if it is interrupted.
        """
        caller = threading.current_thread()
        if not isinstance(caller, Caller):
            return
        if caller.is_killed:
            raise Killed
        caller.open.clear()
        with self._changed:
            self._parked[caller] = None
            self._changed.notify_all()
        assert caller.open.wait(GUARD), f"{caller.name} was never chosen"
        caller.pass_gate()

    def start(self, name: str, act: Callable[[], Any]) -> None:
        """Add a caller while others run."""
        caller = Caller(self, name, act)
        with self._changed:
            self._callers.append(caller)
        caller.start()

    def has_others(self) -> bool:
        """Return whether a caller is left beside the one that asks."""
        return len(self._callers) > 1

    def leave(self, caller: Caller) -> None:
        with self._changed:
            self._callers.remove(caller)
            self._changed.notify_all()

    def run(self) -> None:
        """Run all callers to their ends."""
        callers = list(self._callers)
        for caller in callers:
            caller.start()
        while True:
            with self._changed:
                all_stopped = self._changed.wait_for(lambda: len(self._parked) == len(self._callers), GUARD)
                assert all_stopped, (
                    f"hanging outside a gate: {[c.name for c in self._callers if c not in self._parked]}"
                )
                if not self._callers:
                    break
                chosen = self._choose(sorted(self._parked, key=lambda caller: caller.name))
                del self._parked[chosen]
            chosen.open.set()
        for caller in callers:
            caller.join(GUARD)
            assert not caller.is_alive()

    def _choose(self, callers: Sequence[Caller]) -> Caller:
        if not self._uneven:
            return self._random.choice(callers)
        for caller in callers:
            if caller.name not in self._weights or self._random.random() < 0.01:
                self._weights[caller.name] = self._random.choice([0.003, 0.05, 1.0])
        return self._random.choices(callers, [self._weights[caller.name] for caller in callers])[0]


class GatedSaver:
    """A saver whose callers stop before and after each call."""

    CALLS: Sequence[str] = ("load", "commit", "save_results", "renew", "lease", "want")

    def __init__(self, saver: Any, scheduler: Scheduler) -> None:
        self._saver = saver
        self._scheduler = scheduler
        self.caller: Caller | None = None
        """The caller that uses this saver, also on other threads; None if it is never killed."""
        self.recorded: Callable[[TaskId], object] = lambda task: None
        """Called with the task of a step whose result is saved."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._saver, name)
        if name not in self.CALLS:
            return method

        def call(*args: Any, **options: Any) -> Any:
            self._scheduler.stop_here()
            if self.caller is not None and self.caller.is_killed:  # on a thread that releases what was abandoned
                raise StorageUnavailable("The process was killed.")
            try:
                reply = method(*args, **options)
                if self.caller is not None:
                    resolve(reply)  # what a process has submitted arrives before its death, or not at all
                if name == "save_results":
                    self._report_recorded(reply, args[2].journal)
                return reply
            finally:
                self._scheduler.stop_here()

        return call

    def _report_recorded(self, reply: Any, journal: Iterable[JournalKey]) -> None:
        resolve(reply)
        for task, _, _ in journal:
            self.recorded(task)


class GatedClock(SystemClock):
    """A clock without waits: a caller that would wait stops at a gate and checks its condition again."""

    def __init__(self, scheduler: Scheduler, now: Callable[[], datetime] | None = None) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._now = now

    def now(self) -> datetime:
        return self._now() if self._now is not None else super().now()

    def wait(self, woken: threading.Event, seconds: float) -> None:
        self._scheduler.stop_here()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Any:
        """Stop at a gate and call at once, except for the renewal of a lease, which is called when it is due."""
        if seconds > LONGEST_POLL:
            return super().call_later(seconds, callback)
        self._scheduler.stop_here()
        callback()
        return Alarm(0, 0, callback)

"""What tasks have logged and printed, kept until somebody takes it: bounded in every direction."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from statewright.redaction import Redactor
from statewright.terminal_text import cut, plain

CapturedLine = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLimits:
    """How much is kept of what tasks log and print."""

    lines: int = 1000
    """Of one attempt."""
    size: int = 64_000
    """Bytes of one attempt."""
    line: int = 4000
    """Signs of one line; one that is longer loses its middle."""
    total: int = 32_000_000
    """Bytes of all tasks together, roughly; the one goes first that has been silent for longest."""
    tasks: int = 10_000
    """Tasks of which something is kept."""


class Place(NamedTuple):
    """Who says something."""

    task_id: str
    node: str
    attempt: int


_OF_A_LINE: Final = 500
"""Bytes that a line takes besides its text, roughly."""


@dataclass(slots=True)
class _Attempt:
    """The lines of one attempt."""

    place: Place
    lines: list[CapturedLine] = field(default_factory=list[CapturedLine])
    size: int = 0
    left_out: int = 0
    unfinished: dict[str, str] = field(default_factory=dict[str, str])
    """What was written to each stream since the last end of a line."""

    @property
    def weight(self) -> int:
        """Bytes of memory, roughly."""
        return self.size + _OF_A_LINE * len(self.lines)

    def is_full(self, limits: CaptureLimits) -> bool:
        return len(self.lines) >= limits.lines or self.size >= limits.size

    def all_lines(self) -> list[CapturedLine]:
        """The lines, with one that says how many are missing."""
        if not self.left_out:
            return self.lines
        many = "1 more line was" if self.left_out == 1 else f"{self.left_out} more lines were"
        last: CapturedLine = {
            **(self.lines[-1] if self.lines else {}),
            "level": "warning",
            "logger": __package__,
            "stream": "log",
        }
        return [*self.lines, {**last, "node": self.place.node, "message": f"{many} left out."}]


class Captured:
    """The lines of tasks. Everything may be called from any thread, also while the same thread is at it."""

    def __init__(self, limits: CaptureLimits, redactor: Redactor) -> None:
        self._limits = limits
        self._redactor = redactor
        self._tasks: OrderedDict[str, dict[int, _Attempt]] = OrderedDict()
        self._total = 0
        self._lock = threading.RLock()  # a signal may come while it is held, and its handler may print

    def add(self, place: Place, text: str, told: CapturedLine) -> None:
        """Keep one message, which may have several lines; `told` is what else there is to say of it."""
        with self._lock:
            attempt = self._attempt(place)
            if attempt.is_full(self._limits):
                attempt.left_out += 1
            else:
                self._keep(attempt, self._shown(text), told)

    def write(self, place: Place, stream: str, text: str, told: CapturedLine) -> None:
        """Keep what is written to a stream, a line at a time."""
        with self._lock:
            attempt = self._attempt(place)
            finished, end, rest = (attempt.unfinished.pop(stream, "") + text).rpartition("\n")
            if end:
                self._keep_lines(attempt, finished, told)
            if rest and not attempt.is_full(self._limits):
                attempt.unfinished[stream] = kept = rest.rpartition("\r")[2] or rest
                if len(kept) > self._longest:
                    self._finish(attempt, stream, told)

    def take(self, task_id: str, at: str) -> list[CapturedLine]:
        """All lines of a task, attempt by attempt, which are forgotten. `at` is the present instant."""
        with self._lock:
            attempts = self._tasks.pop(task_id, {})
            for attempt in attempts.values():
                for stream in tuple(attempt.unfinished):
                    self._finish(attempt, stream, {"at": at, "level": None, "logger": None, "stream": stream})
                self._total -= attempt.weight
        return [line for number in sorted(attempts) for line in attempts[number].all_lines()]

    @property
    def _longest(self) -> int:
        """Signs of a text that are looked at: more than are kept, so that no half of a secret is."""
        return 4 * self._limits.line

    def _attempt(self, place: Place) -> _Attempt:
        attempts = self._tasks.setdefault(place.task_id, {})
        self._tasks.move_to_end(place.task_id)
        if place.attempt not in attempts:
            attempts[place.attempt] = _Attempt(place)
            self._forget_some()
        return attempts[place.attempt]

    def _forget_some(self) -> None:
        """Let go of the tasks that have been silent for longest, if there is too much of all."""
        limits = self._limits
        while len(self._tasks) > limits.tasks or (self._total > limits.total and len(self._tasks) > 1):
            _, oldest = self._tasks.popitem(last=False)
            self._total -= sum(one.weight for one in oldest.values())

    def _finish(self, attempt: _Attempt, stream: str, told: CapturedLine) -> None:
        """Take what was written last to a stream as a line."""
        self._keep_lines(attempt, attempt.unfinished.pop(stream), told)

    def _keep_lines(self, attempt: _Attempt, text: str, told: CapturedLine) -> None:
        """Keep lines that were written together: a secret may go over several."""
        if attempt.is_full(self._limits):
            attempt.left_out += text.count("\n") + 1
            return
        seen = text[: 4 * self._limits.size]
        for line in self._redactor.text(plain(seen)).split("\n"):
            if attempt.is_full(self._limits):
                attempt.left_out += 1
            else:
                self._keep(attempt, line, told)
        attempt.left_out += text.count("\n", len(seen))

    def _shown(self, text: str) -> str:
        return self._redactor.text(plain(cut(text, self._longest)))

    def _keep(self, attempt: _Attempt, text: str, told: CapturedLine) -> None:
        message = cut(text, self._limits.line)
        size = len(message.encode())
        attempt.lines.append({**told, "message": message, "node": attempt.place.node, "attempt": attempt.place.attempt})
        attempt.size += size
        self._total += size + _OF_A_LINE
        self._forget_some()

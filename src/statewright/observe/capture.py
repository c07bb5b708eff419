"""What nodes log and print, kept by task and attempt.

A record or a line belongs to the task that is at work where it is made. Outside of tasks nothing is kept, and
everything that was logged or printed before goes where it went.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TextIO, cast

from statewright.clock import Clock, SystemClock
from statewright.redaction import Redactor
from statewright.runtime.scope import Scope, current_scope
from statewright.terminal_text import cut, plain

_is_passing_on: ContextVar[bool] = ContextVar("statewright_log_passes_on", default=False)


class LogCapture:
    """Listens to the root logger and to stdout and stderr while it is installed; also as a context manager.

    Loggers that do not propagate are not heard. `level` is set for the root logger meanwhile, so that what is less
    important is not even made; None leaves it as it is. Secrets are redacted.
    """

    def __init__(
        self,
        *,
        limits: CaptureLimits | None = None,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        level: int | None = None,
    ) -> None:
        self._captured = CaptureBuffer(limits or CaptureLimits(), redactor or Redactor())
        self._clock = clock or SystemClock()
        self._level = level
        self._handler = _Handler(self)
        self._level_before: int | None = None
        self._streams: dict[str, Tee] = {}

    def install(self) -> Self:
        """Begin to listen; nothing happens if it does already."""
        root = logging.getLogger()
        if self._handler in root.handlers:
            return self
        root.addHandler(self._handler)
        if self._level is not None:
            self._level_before = root.level
            root.setLevel(self._level)
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None:  # a program without a console has none
                tee = self._streams[name] = Tee(stream, self._listener(name))
                setattr(sys, name, tee)
        return self

    def uninstall(self) -> None:
        """Listen no more, and put back what was there. What was kept can still be taken."""
        root = logging.getLogger()
        root.removeHandler(self._handler)
        if self._level_before is not None and root.level == self._level:
            root.setLevel(self._level_before)
        self._level_before = None
        for name, tee in self._streams.items():
            tee.stop()
            if getattr(sys, name) is tee:  # if somebody else stands there now, it stays
                setattr(sys, name, tee.original)
        self._streams.clear()

    def __enter__(self) -> Self:
        return self.install()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.uninstall()

    def take(self, task_id: str) -> list[CapturedLine]:
        """What a task of a run's own graph has said since it was taken last, attempt by attempt; it is forgotten here.

        Each line has `at`, `level`, `logger`, `message`, `stream` (`log`, `stdout` or `stderr`), `node` and `attempt`.
        Where some were left out the last line says how many.
        """
        return self._captured.take(task_id, self._now())

    def _listener(self, stream: str) -> Any:
        def heard(text: str) -> None:
            place = current_task() if text and not _is_passing_on.get() else None
            if place is not None:
                told = {"at": self._now(), "level": None, "logger": None, "stream": stream}
                self._captured.write(place, stream, text, told)

        return heard

    def logged(self, record: logging.LogRecord) -> None:
        """Keep a record, if a task has made it."""
        place = current_task()
        if place is not None:
            told = {"at": self._now(), "level": record.levelname.lower(), "logger": record.name, "stream": "log"}
            self._captured.add(place, _format_record(record), told)

    def _now(self) -> str:
        return self._clock.now().astimezone(UTC).isoformat().replace("+00:00", "Z")


class _Handler(logging.Handler):
    """Hands records on, and does the part of logging's last resort: having a handler must not silence anybody."""

    def __init__(self, capture: LogCapture) -> None:
        super().__init__()
        self._capture = capture

    def emit(self, record: logging.LogRecord) -> None:
        self._capture.logged(record)
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and self._is_alone(record.name):
            token = _is_passing_on.set(True)  # the record is kept already
            try:
                last.handle(record)
            finally:
                _is_passing_on.reset(token)

    def _is_alone(self, name: str) -> bool:
        """Whether no other handler hears of what a logger says."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True


def _format_record(record: logging.LogRecord) -> str:
    """The message, with the error if there is one."""
    try:
        message = record.getMessage()
    except Exception:  # the arguments do not fit: logging itself complains of it elsewhere
        message = str(record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        message = f"{message}\n{logging.Formatter().formatException(record.exc_info)}"
    return message


# -- What tasks have logged and printed, kept until somebody takes it: bounded in every direction.

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


class TaskAttempt(NamedTuple):
    """Who says something."""

    task_id: str
    node: str
    attempt: int


_OF_A_LINE: Final = 500
"""Bytes that a line takes besides its text, roughly."""


@dataclass(slots=True)
class _AttemptLines:
    """The lines of one attempt."""

    place: TaskAttempt
    lines: list[CapturedLine] = field(default_factory=list[CapturedLine])
    size: int = 0
    dropped: int = 0
    partial_lines: dict[str, str] = field(default_factory=dict[str, str])
    """What was written to each stream since the last end of a line."""

    @property
    def weight(self) -> int:
        """Bytes of memory, roughly."""
        return self.size + _OF_A_LINE * len(self.lines)

    def is_full(self, limits: CaptureLimits) -> bool:
        return len(self.lines) >= limits.lines or self.size >= limits.size

    def all_lines(self) -> list[CapturedLine]:
        """The lines, with one that says how many are missing."""
        if not self.dropped:
            return self.lines
        many = "1 more line was" if self.dropped == 1 else f"{self.dropped} more lines were"
        last: CapturedLine = {
            **(self.lines[-1] if self.lines else {}),
            "level": "warning",
            "logger": __package__,
            "stream": "log",
        }
        return [*self.lines, {**last, "node": self.place.node, "message": f"{many} left out."}]


class CaptureBuffer:
    """The lines of tasks. Everything may be called from any thread, also while the same thread is at it."""

    def __init__(self, limits: CaptureLimits, redactor: Redactor) -> None:
        self._limits = limits
        self._redactor = redactor
        self._tasks: OrderedDict[str, dict[int, _AttemptLines]] = OrderedDict()
        self._total = 0
        self._lock = threading.RLock()  # a signal may come while it is held, and its handler may print

    def add(self, place: TaskAttempt, text: str, told: CapturedLine) -> None:
        """Keep one message, which may have several lines; `told` is what else there is to say of it."""
        with self._lock:
            attempt = self._attempt(place)
            if attempt.is_full(self._limits):
                attempt.dropped += 1
            else:
                self._keep(attempt, self._shown(text), told)

    def write(self, place: TaskAttempt, stream: str, text: str, told: CapturedLine) -> None:
        """Keep what is written to a stream, a line at a time."""
        with self._lock:
            attempt = self._attempt(place)
            finished, end, rest = (attempt.partial_lines.pop(stream, "") + text).rpartition("\n")
            if end:
                self._keep_lines(attempt, finished, told)
            if rest and not attempt.is_full(self._limits):
                attempt.partial_lines[stream] = kept = rest.rpartition("\r")[2] or rest
                if len(kept) > self._longest:
                    self._finish(attempt, stream, told)

    def take(self, task_id: str, at: str) -> list[CapturedLine]:
        """All lines of a task, attempt by attempt, which are forgotten. `at` is the present instant."""
        with self._lock:
            attempts = self._tasks.pop(task_id, {})
            for attempt in attempts.values():
                for stream in tuple(attempt.partial_lines):
                    self._finish(attempt, stream, {"at": at, "level": None, "logger": None, "stream": stream})
                self._total -= attempt.weight
        return [line for number in sorted(attempts) for line in attempts[number].all_lines()]

    @property
    def _longest(self) -> int:
        """Signs of a text that are looked at: more than are kept, so that no half of a secret is."""
        return 4 * self._limits.line

    def _attempt(self, place: TaskAttempt) -> _AttemptLines:
        attempts = self._tasks.setdefault(place.task_id, {})
        self._tasks.move_to_end(place.task_id)
        if place.attempt not in attempts:
            attempts[place.attempt] = _AttemptLines(place)
            self._forget_some()
        return attempts[place.attempt]

    def _forget_some(self) -> None:
        """Let go of the tasks that have been silent for longest, if there is too much of all."""
        limits = self._limits
        while len(self._tasks) > limits.tasks or (self._total > limits.total and len(self._tasks) > 1):
            _, oldest = self._tasks.popitem(last=False)
            self._total -= sum(one.weight for one in oldest.values())

    def _finish(self, attempt: _AttemptLines, stream: str, told: CapturedLine) -> None:
        """Take what was written last to a stream as a line."""
        self._keep_lines(attempt, attempt.partial_lines.pop(stream), told)

    def _keep_lines(self, attempt: _AttemptLines, text: str, told: CapturedLine) -> None:
        """Keep lines that were written together: a secret may go over several."""
        if attempt.is_full(self._limits):
            attempt.dropped += text.count("\n") + 1
            return
        seen = text[: 4 * self._limits.size]
        for line in self._redactor.text(plain(seen)).split("\n"):
            if attempt.is_full(self._limits):
                attempt.dropped += 1
            else:
                self._keep(attempt, line, told)
        attempt.dropped += text.count("\n", len(seen))

    def _shown(self, text: str) -> str:
        return self._redactor.text(plain(cut(text, self._longest)))

    def _keep(self, attempt: _AttemptLines, text: str, told: CapturedLine) -> None:
        message = cut(text, self._limits.line)
        size = len(message.encode())
        attempt.lines.append({**told, "message": message, "node": attempt.place.node, "attempt": attempt.place.attempt})
        attempt.size += size
        self._total += size + _OF_A_LINE
        self._forget_some()


# -- Who is at work on the present thread, or in the present asyncio task.


def current_task() -> TaskAttempt | None:
    """The task of the run's own graph that is at work; None outside tasks, and for an attempt that was given up.

    What a subgraph does is done by the task that called it, under the name of the node inside.
    """
    scope = current_scope()
    if scope is None or scope.task is None or scope.abandoned:
        return None
    node, outer = scope.task.node, scope
    while outer.run.nested and outer.run.caller is not None:
        outer = outer.run.caller
    task_id = _task_id(outer)
    number = outer.attempt.number if outer.attempt is not None else 1
    return TaskAttempt(task_id, node, number) if task_id else None


def _task_id(scope: Scope) -> str:
    """The id of a task, or of the one for which a called task does its part. A call that saves nothing knows no more
    of its caller than its namespace says."""
    if scope.run.nested:
        segment = scope.run.namespace.split("|")[0].split(":")
        return segment[1] if len(segment) > 1 else ""
    return scope.task.id.partition(":")[0] if scope.task is not None else ""


# -- A stream that somebody listens to: what is written goes on to where it went before.

Listener = Callable[[str], object]


class Tee:
    """Stands in the place of a text stream. Everything but writing is what the stream itself does."""

    def __init__(self, stream: TextIO, heard: Listener) -> None:
        self._stream = stream
        self._heard: Listener | None = heard

    @property
    def original(self) -> TextIO:
        """Where everything goes on to."""
        return self._stream

    def write(self, text: str) -> int:
        if self._heard is not None and isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            with suppress(Exception):  # whoever prints must not suffer from it
                self._heard(text)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def stop(self) -> None:
        """Listen no more: somebody may keep the stream for longer."""
        self._heard = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Any:
        return iter(self._stream)

    def __enter__(self) -> Tee:
        self._stream.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stream.__exit__(*raised)


def untapped(stream: Any) -> TextIO:
    """The stream itself, without those who listen to it."""
    while isinstance(stream, Tee):
        stream = stream.original
    return cast(TextIO, stream)

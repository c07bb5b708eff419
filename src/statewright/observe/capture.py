"""Capture of the log records and printed lines of nodes, by task and attempt.

A log record or a printed line belongs to the task that runs in the current context; outside of tasks nothing is
captured. All output still reaches its original destination. Captured lines are kept until they are taken, up to the
limits of `CaptureLimits`.
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
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TextIO, cast

from statewright.checkpoint.model import outermost_task_id
from statewright.clock import Clock, SystemClock, iso
from statewright.redaction import Redactor
from statewright.runtime.invocation.run import CallingTask
from statewright.runtime.tasks.scope import observed_scope
from statewright.terminal_text import cut_middle, without_control_characters

_is_relaying: ContextVar[bool] = ContextVar("statewright_is_relaying", default=False)
"""True while a captured record is written to a stream, where it must not be captured again."""


class LogCapture:
    """Captures the root logger, stdout and stderr while it is installed, for example by `with`.

    Loggers that do not propagate are not captured. `level` is the level of the root logger while it is installed; None
    leaves it unchanged. Secrets are redacted.
    """

    def __init__(
        self,
        *,
        limits: CaptureLimits | None = None,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        level: int | None = None,
    ) -> None:
        self._buffer = CaptureBuffer(limits or CaptureLimits(), redactor or Redactor())
        self._clock = clock or SystemClock()
        self._level = level
        self._handler = _Handler(self._capture_record)
        self._level_before: int | None = None
        self._streams: dict[str, Tee] = {}

    def install(self) -> Self:
        """Start capturing. Has no effect if the capture is installed already."""
        root = logging.getLogger()
        if self._handler in root.handlers:
            return self
        root.addHandler(self._handler)
        if self._level is not None:
            self._level_before = root.level
            root.setLevel(self._level)
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None:  # None in a program without a console
                tee = self._streams[name] = Tee(stream, self._listener(name))
                setattr(sys, name, tee)
        return self

    def uninstall(self) -> None:
        """Stop capturing, and restore the streams. Captured lines can still be taken."""
        root = logging.getLogger()
        root.removeHandler(self._handler)
        if self._level_before is not None and root.level == self._level:
            root.setLevel(self._level_before)
        self._level_before = None
        for name, tee in self._streams.items():
            tee.stop()
            if getattr(sys, name) is tee:  # otherwise other code has replaced the stream since
                setattr(sys, name, tee.original)
        self._streams.clear()

    def __enter__(self) -> Self:
        return self.install()

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self.uninstall()

    def take(self, task_id: str) -> list[CapturedLine]:
        """Remove and return the lines of a task of the root graph, in the order of its attempts.

        Each line has `at`, `level`, `logger`, `message`, `stream` (`log`, `stdout` or `stderr`), `node` and `attempt`.
        If lines of an attempt were dropped, the last line of the attempt says how many.
        """
        return self._buffer.take(task_id, self._now())

    def _listener(self, stream: str) -> Listener:
        """Return a listener that captures text written to a stream, if a task is running."""

        def capture(text: str) -> None:
            attempt_key = current_attempt() if text and not _is_relaying.get() else None
            if attempt_key is not None:
                fields = {"at": self._now(), "level": None, "logger": None, "stream": stream}
                self._buffer.write(attempt_key, stream, text, fields)

        return capture

    def _capture_record(self, record: logging.LogRecord) -> None:
        """Capture a record if a task is running."""
        attempt_key = current_attempt()
        if attempt_key is not None:
            fields = {"at": self._now(), "level": record.levelname.lower(), "logger": record.name, "stream": "log"}
            self._buffer.add(attempt_key, _format_record(record), fields)

    def _now(self) -> str:
        return iso(self._clock.now())


class _Handler(logging.Handler):
    """Passes records to the capture, and to `logging.lastResort` if there is no other handler.

    The logging module itself uses `lastResort` only for loggers without any handler, and this handler is one.
    """

    def __init__(self, capture: Callable[[logging.LogRecord], object]) -> None:
        super().__init__()
        self._capture = capture

    def emit(self, record: logging.LogRecord) -> None:
        self._capture(record)
        last_resort = logging.lastResort
        if last_resort is not None and record.levelno >= last_resort.level and self._is_only_handler(record.name):
            token = _is_relaying.set(True)
            try:
                last_resort.handle(record)
            finally:
                _is_relaying.reset(token)

    def _is_only_handler(self, name: str) -> bool:
        """Return True if no other handler receives the records of a logger."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True


def _format_record(record: logging.LogRecord) -> str:
    """Return the message of a record, with its traceback if there is one."""
    try:
        message = record.getMessage()
    except Exception:  # the arguments do not match the format; the logging module reports that itself
        message = str(record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        message = f"{message}\n{logging.Formatter().formatException(record.exc_info)}"
    return message


# -- the buffer of captured lines

CapturedLine = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureLimits:
    """Limits on captured output."""

    lines: int = 1000
    """Maximum number of lines per attempt."""
    size: int = 64_000
    """Maximum number of bytes per attempt."""
    line: int = 4000
    """Maximum number of characters per line. The middle of a longer line is cut out."""
    total: int = 32_000_000
    """Approximate maximum number of bytes of all tasks together. The tasks whose last output is oldest are dropped."""
    tasks: int = 10_000
    """Maximum number of tasks with captured lines."""


class TaskAttempt(NamedTuple):
    """The attempt of a task to which output belongs."""

    task_id: str
    node: str
    attempt: int


_LINE_OVERHEAD: Final = 500
"""Approximate size of a line in memory in addition to its text, in bytes."""


@dataclass(slots=True)
class _AttemptLines:
    """The captured lines of one attempt."""

    key: TaskAttempt
    lines: list[CapturedLine] = field(default_factory=list[CapturedLine])
    size: int = 0
    dropped: int = 0
    partial_lines: dict[str, str] = field(default_factory=dict[str, str])
    """The unfinished line of each stream."""

    @property
    def weight(self) -> int:
        """The approximate size in memory, in bytes."""
        return self.size + _LINE_OVERHEAD * len(self.lines)

    def is_full(self, limits: CaptureLimits) -> bool:
        return len(self.lines) >= limits.lines or self.size >= limits.size

    def all_lines(self) -> list[CapturedLine]:
        """Return the lines, followed by one with the number of dropped lines if there are any."""
        if not self.dropped:
            return self.lines
        number = "1 more line was" if self.dropped == 1 else f"{self.dropped} more lines were"
        notice: CapturedLine = {
            **(self.lines[-1] if self.lines else {}),
            "level": "warning",
            "logger": __package__,
            "stream": "log",
            "node": self.key.node,
            "message": f"{number} dropped.",
        }
        return [*self.lines, notice]


class CaptureBuffer:
    """Captured lines, by task and attempt. Thread-safe and reentrant."""

    def __init__(self, limits: CaptureLimits, redactor: Redactor) -> None:
        self._limits = limits
        self._redactor = redactor
        self._tasks: OrderedDict[str, dict[int, _AttemptLines]] = OrderedDict()
        self._total = 0
        self._lock = threading.RLock()  # reentrant, because a signal handler may print while the lock is held

    def add(self, attempt_key: TaskAttempt, text: str, fields: CapturedLine) -> None:
        """Add a message, which may have several lines, with further fields."""
        with self._lock:
            attempt = self._attempt(attempt_key)
            if attempt.is_full(self._limits):
                attempt.dropped += 1
            else:
                self._append(
                    attempt,
                    self._redactor.text(without_control_characters(cut_middle(text, self._max_redacted_length))),
                    fields,
                )

    def write(self, attempt_key: TaskAttempt, stream: str, text: str, fields: CapturedLine) -> None:
        """Add the lines of text that was written to a stream. An unfinished line is added when it is complete."""
        with self._lock:
            attempt = self._attempt(attempt_key)
            complete_lines, line_break, remainder = (attempt.partial_lines.pop(stream, "") + text).rpartition("\n")
            if line_break:
                self._append_lines(attempt, complete_lines, fields)
            if remainder and not attempt.is_full(self._limits):
                attempt.partial_lines[stream] = partial_line = remainder.rpartition("\r")[2] or remainder
                if len(partial_line) > self._max_redacted_length:
                    self._end_partial_line(attempt, stream, fields)

    def take(self, task_id: str, at: str) -> list[CapturedLine]:
        """Remove and return the lines of a task, in the order of its attempts.

        `at` is the current time, which becomes that of unfinished lines.
        """
        with self._lock:
            attempts = self._tasks.pop(task_id, {})
            for attempt in attempts.values():
                for stream in tuple(attempt.partial_lines):
                    self._end_partial_line(attempt, stream, {"at": at, "level": None, "logger": None, "stream": stream})
                self._total -= attempt.weight
        return [line for number in sorted(attempts) for line in attempts[number].all_lines()]

    @property
    def _max_redacted_length(self) -> int:
        """Maximum length of a text that is redacted, in characters.

        It is greater than the length of a line that is kept, so that no part of a secret that was cut off remains.
        """
        return 4 * self._limits.line

    def _attempt(self, attempt_key: TaskAttempt) -> _AttemptLines:
        attempts = self._tasks.setdefault(attempt_key.task_id, {})
        self._tasks.move_to_end(attempt_key.task_id)
        if attempt_key.attempt not in attempts:
            attempts[attempt_key.attempt] = _AttemptLines(attempt_key)
            self._drop_oldest()
        return attempts[attempt_key.attempt]

    def _drop_oldest(self) -> None:
        """Drop the tasks whose last output is oldest, until no limit is exceeded."""
        limits = self._limits
        while len(self._tasks) > limits.tasks or (self._total > limits.total and len(self._tasks) > 1):
            _, oldest = self._tasks.popitem(last=False)
            self._total -= sum(lines.weight for lines in oldest.values())

    def _end_partial_line(self, attempt: _AttemptLines, stream: str, fields: CapturedLine) -> None:
        """Add the unfinished line of a stream."""
        self._append_lines(attempt, attempt.partial_lines.pop(stream), fields)

    def _append_lines(self, attempt: _AttemptLines, text: str, fields: CapturedLine) -> None:
        """Add lines that were written at once. They are redacted together, because a secret may span several lines."""
        if attempt.is_full(self._limits):
            attempt.dropped += text.count("\n") + 1
            return
        limited_text = text[: 4 * self._limits.size]
        for line in self._redactor.text(without_control_characters(limited_text)).split("\n"):
            if attempt.is_full(self._limits):
                attempt.dropped += 1
            else:
                self._append(attempt, line, fields)
        attempt.dropped += text.count("\n", len(limited_text))

    def _append(self, attempt: _AttemptLines, text: str, fields: CapturedLine) -> None:
        message = cut_middle(text, self._limits.line)
        size = len(message.encode())
        attempt.lines.append({**fields, "message": message, "node": attempt.key.node, "attempt": attempt.key.attempt})
        attempt.size += size
        self._total += size + _LINE_OVERHEAD
        self._drop_oldest()


# -- the current task


def current_attempt() -> TaskAttempt | None:
    """Return the running attempt of a task of the root graph; None outside of tasks, and in an abandoned attempt.

    Within a subgraph, it is the attempt of the root graph's task that called the subgraph, but its `node` is the node
    of the subgraph.
    """
    scope = observed_scope()
    if scope is None or scope.task is None or scope.abandoned:
        return None
    node = scope.task.node
    outermost_scope: CallingTask = scope
    while outermost_scope.run.nested and outermost_scope.run.caller is not None:
        outermost_scope = outermost_scope.run.caller
    task_id = _task_id(outermost_scope)
    number = outermost_scope.attempt.number if outermost_scope.attempt is not None else 1
    return TaskAttempt(task_id, node, number) if task_id else None


def _task_id(scope: CallingTask) -> str:
    """Return the id of a scope's task in the root graph.

    A subgraph that saves nothing may have no reference to its caller, so the id is read from the subgraph's namespace.
    """
    if scope.run.nested:
        segment = scope.run.namespace.split("|")[0].split(":")
        return segment[1] if len(segment) > 1 else ""
    return outermost_task_id(scope.task.id) if scope.task is not None else ""


# -- the stream that copies output to a listener

Listener = Callable[[str], object]


class Tee:
    """A replacement for a text stream that passes text both to the stream and to a listener.

    All other methods and attributes are those of the stream.
    """

    def __init__(self, stream: TextIO, listener: Listener) -> None:
        self._stream = stream
        self._listener: Listener | None = listener

    @property
    def original(self) -> TextIO:
        """The replaced stream."""
        return self._stream

    def write(self, text: str) -> int:
        if self._listener is not None and isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            with suppress(Exception):  # an error of the listener must not reach the code that prints
                self._listener(text)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def stop(self) -> None:
        """Stop passing text to the listener; other code may still hold a reference to this stream."""
        self._listener = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Any:
        return iter(self._stream)

    def __enter__(self) -> Tee:
        self._stream.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stream.__exit__(*raised)


def original_stream(stream: Any) -> TextIO:
    """Return the stream behind any number of tees."""
    while isinstance(stream, Tee):
        stream = stream.original
    return cast(TextIO, stream)

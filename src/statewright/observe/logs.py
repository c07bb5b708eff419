"""What nodes log and print, kept by task and attempt.

A record or a line belongs to the task that is at work where it is made. Outside of tasks nothing is kept, and
everything that was logged or printed before goes where it went.
"""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from datetime import UTC
from types import TracebackType
from typing import Any, Self

from statewright.clock import Clock, SystemClock
from statewright.observe.captured import Captured, CapturedLine, CaptureLimits
from statewright.observe.speaker import current_task
from statewright.observe.tee import Tee
from statewright.redaction import Redactor

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
        self._captured = Captured(limits or CaptureLimits(), redactor or Redactor())
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
            self._captured.add(place, _said(record), told)

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


def _said(record: logging.LogRecord) -> str:
    """The message, with the error if there is one."""
    try:
        message = record.getMessage()
    except Exception:  # the arguments do not fit: logging itself complains of it elsewhere
        message = str(record.msg)
    if record.exc_info and record.exc_info[0] is not None:
        message = f"{message}\n{logging.Formatter().formatException(record.exc_info)}"
    return message

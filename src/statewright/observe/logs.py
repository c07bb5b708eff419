"""Structured logs, one event per line, as JSON or as readable text.

`configure_logging` adds a handler to loggers of the standard library.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, Self, TextIO

from statewright.errors import InvalidConfig, ServiceError, code_of, suggestion
from statewright.extras import optional
from statewright.observe.capture import original_stream
from statewright.redaction import Redactor
from statewright.runtime.tasks.scope import observed_scope

LogFormat = Literal["json", "console"]
_OF_STRUCTLOG: Final = frozenset({"_record", "_from_structlog"})
"""Keys that structlog itself removes at the end."""
_COPIES: Final = frozenset({"color_message"})
"""Fields that repeat the event: uvicorn adds its message with escape sequences for colours."""
_FORMATS: Final[tuple[LogFormat, ...]] = ("json", "console")
_LEVELS: Final = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
_Event = MutableMapping[str, Any]
_Processor = Callable[[Any, str, _Event], _Event]


class ConfiguredLogging:
    """Loggers to which a handler was added. `undo` removes it, and so does the end of a `with` block."""

    def __init__(self, handler: logging.Handler, names: Iterable[str], level: int) -> None:
        self._handler = handler
        self._loggers = [logging.getLogger(name) for name in names]
        self._previous_levels = [logger.level for logger in self._loggers]
        self._level = level
        for logger in self._loggers:
            logger.addHandler(handler)
            logger.setLevel(level)

    def undo(self) -> None:
        """Restore the loggers, except for levels that other code has set since."""
        for logger, level in zip(self._loggers, self._previous_levels, strict=True):
            logger.removeHandler(self._handler)
            if logger.level == self._level:
                logger.setLevel(level)
        self._loggers, self._previous_levels = [], []
        self._handler.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self.undo()


def configure_logging(
    format: LogFormat = "json",  # noqa: A002  # the usual name
    *,
    level: str | int = "INFO",
    stream: TextIO | None = None,
    loggers: Iterable[str] = ("statewright",),
    redactor: Redactor | None = None,
) -> ConfiguredLogging:
    """Make loggers write structured events to a stream, by default stderr, until `undo` is called.

    An event has `timestamp`, `level`, `logger`, `event`, the fields of `extra` and `bound`, the `run_id`, `thread_id`,
    `node` and `attempt` of the running task, and `error_code` with the error if there is one. Secrets are redacted.
    `loggers` are names of loggers; the empty name is the root logger. Raises InvalidConfig for an unknown format or
    level, and if structlog is not installed.
    """
    if format not in _FORMATS:
        raise InvalidConfig(f"format cannot be {format!r}. " + suggestion(str(format), _FORMATS, noun="Formats"))
    target = original_stream(stream or sys.stderr)
    handler = logging.StreamHandler(target)
    handler.setFormatter(_formatter(format, target, redactor or Redactor()))
    return ConfiguredLogging(handler, loggers, _level(level))


def _level(level: str | int) -> int:
    if isinstance(level, int):
        return level
    if level.upper() not in _LEVELS:
        raise InvalidConfig(f"level cannot be {level!r}. " + suggestion(level.upper(), _LEVELS, noun="Levels"))
    return logging.getLevelNamesMapping()[level.upper()]


def _formatter(log_format: LogFormat, stream: TextIO, redactor: Redactor) -> logging.Formatter:
    with optional("Structured logs need", extra="server"):
        import structlog
    redact = _redaction_processor(redactor)
    chain: list[Any] = [_add_head, structlog.stdlib.ExtraAdder(), _drop_private, _add_fields, _add_error, redact]
    if log_format == "json":
        renderer: Any = structlog.processors.JSONRenderer(json.dumps, default=str)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty())
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=chain, processors=[remove_meta, renderer])


def _add_head(_: Any, __: str, event: _Event) -> _Event:
    """Add the time, the level and the name of the logger."""
    record: logging.LogRecord = event["_record"]
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"timestamp": at, "level": record.levelname.lower(), "logger": record.name, **event}


def _drop_private(_: Any, __: str, event: _Event) -> _Event:
    """Drop what libraries add to records for themselves, such as `_ray_timestamp_ns`, and copies of the event."""
    return {
        key: value
        for key, value in event.items()
        if key in _OF_STRUCTLOG or not (key.startswith("_") or key in _COPIES)
    }


def _add_fields(_: Any, __: str, event: _Event) -> _Event:
    """Add the fields of the current context; the event's own fields take precedence."""
    return {**event, **{key: value for key, value in current_fields().items() if key not in event}}


def _add_error(_: Any, __: str, event: _Event) -> _Event:
    """Add the error of a log record, with its traceback as text."""
    exc_info = event.pop("exc_info", None)
    if not exc_info or exc_info[1] is None:
        return event
    return {**event, **error_fields(exc_info[1]), "exception": logging.Formatter().formatException(exc_info)}


def _redaction_processor(redactor: Redactor) -> _Processor:
    """Return a processor that removes secrets from an event."""

    def redact(_: Any, __: str, event: _Event) -> _Event:
        private = {key: value for key, value in event.items() if key.startswith("_")}  # objects of structlog
        public = redactor.value({key: value for key, value in event.items() if key not in private})
        return {**public, **private}

    return redact


# -- the fields of the current context

_bound: ContextVar[Mapping[str, Any] | None] = ContextVar("statewright_log_fields", default=None)


@contextmanager
def bound(**fields: Any) -> Generator[None]:
    """Add fields such as `request_id` to all events logged within the block. Inner values take precedence."""
    token = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def current_fields() -> dict[str, Any]:
    """Return the fields of `bound`, and those that describe the running task."""
    fields, scope = dict(_bound.get() or {}), observed_scope()
    if scope is None:
        return fields
    fields["run_id"] = scope.run.run_id
    if scope.run.settings.thread_id is not None:
        fields["thread_id"] = scope.run.settings.thread_id
    if scope.task is not None:
        fields["node"] = scope.task.node
        fields["attempt"] = scope.attempt.number if scope.attempt is not None else 1
    return fields


def error_fields(error: BaseException) -> dict[str, Any]:
    """Return the code and the message of an error as fields. They are the codes that run records and the API use."""
    fields = {"error_code": code_of(error), "error": f"{type(error).__name__}: {error}"}
    return {**fields, "api_code": error.api_code} if isinstance(error, ServiceError) else fields

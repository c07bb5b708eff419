"""What is known where something is logged: the run and the node at work, and what a server says of its request."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from statewright.errors import ServiceError
from statewright.observe.event_error import code_of
from statewright.runtime.tasks.scope import current_scope

_bound: ContextVar[Mapping[str, Any] | None] = ContextVar("statewright_log_fields", default=None)


@contextmanager
def bound(**fields: Any) -> Generator[None]:
    """Give fields to everything that is logged within, such as `request_id`; those that are given inside win."""
    token = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def present_fields() -> dict[str, Any]:
    """The fields that were bound, and those of the task that is at work."""
    fields, scope = dict(_bound.get() or {}), current_scope()
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
    """What programs tell an error by: its code, the same as in the API and in records of runs."""
    fields = {"error_code": code_of(error), "error": f"{type(error).__name__}: {error}"}
    return {**fields, "api_code": error.api_code} if isinstance(error, ServiceError) else fields

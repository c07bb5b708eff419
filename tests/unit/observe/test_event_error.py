"""The errors that events report."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from statewright import START, Instrument, RetryPolicy, StateGraph
from statewright.errors import InvalidUpdateError, NotFound, RunCancelled, code_of
from statewright.events import Event
from statewright.observe.event_facts import error_of, is_failure
from statewright.runtime.tasks.interrupt import Paused


class ErrorRecorder(Instrument):
    def __init__(self) -> None:
        self.errors: list[tuple[str, Any, str | None]] = []

    def _record(self, event: Event) -> None:
        error, node = error_of(event)
        self.errors.append((event.kind, type(error).__name__ if error else None, node))

    on_task_finished = on_run_finished = on_attempt_failed = _record


def record_errors(node: Any, **options: Any) -> list[tuple[str, Any, str | None]]:
    recorder = ErrorRecorder()
    graph = StateGraph({"x": int}).add_node("node", node, **options).add_edge(START, "node")
    with suppress(ValueError):
        graph.compile(instruments=[recorder]).invoke({"x": 1})
    return recorder.errors


def failing(state: Any) -> None:
    raise ValueError("no")


def test_failed_attempts_tasks_and_runs_report_their_error() -> None:
    policy = RetryPolicy(max_attempts=2, initial_interval=0.0, jitter=False, retry_on=ValueError)
    assert record_errors(failing, retry_policy=policy) == [
        ("attempt_failed", "ValueError", "node"),
        ("task_finished", "ValueError", "node"),
        ("run_finished", "ValueError", "node"),
    ]


def test_an_error_passed_to_a_handler_is_reported() -> None:
    assert record_errors(failing, error_handler=lambda error: None)[0] == ("task_finished", "ValueError", "node")


def test_successful_events_have_no_error() -> None:
    assert record_errors(lambda state: {"x": 2}) == [("task_finished", None, "node"), ("run_finished", None, None)]
    assert error_of(Event("custom", "x")) == (None, None)


@pytest.mark.parametrize(
    ("error", "is_failed"), [(ValueError(), True), (None, False), (RunCancelled("x"), False), (Paused(), False)]
)
def test_signals_and_cancellations_are_not_failures(error: Any, is_failed: bool) -> None:
    assert is_failure(error) is is_failed


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidUpdateError("x"), "SW-invalid-update-error"), (NotFound("x"), "SW-not-found"), (KeyError(), "KeyError")],
)
def test_every_error_has_a_code(error: Exception, code: str) -> None:
    assert code_of(error) == code

"""Wait requests and their interrupts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.errors import InternalError
from statewright.workflow.steps.execution import WaitRequest, find_open_interrupt, get_caller_run_id


@pytest.mark.parametrize(
    ("wait_request", "kind", "event"),
    [
        (WaitRequest(1), "question", None),
        (WaitRequest(1, signal="paid"), "event", "paid"),
        (WaitRequest(1, signal="paid", until=datetime(2026, 1, 1, tzinfo=UTC)), "event", "paid"),
        (WaitRequest(1, is_timer=True, delay=1), "timer", None),
    ],
)
def test_a_wait_request_becomes_an_interrupt_of_its_kind(
    wait_request: WaitRequest, kind: str, event: str | None
) -> None:
    interrupt = wait_request.to_interrupt()
    assert interrupt["value"] == 1
    assert (interrupt.get("kind", "question"), interrupt.get("event")) == (kind, event)
    assert ("schema" in interrupt) is (kind != "timer")


def test_there_is_no_open_interrupt_outside_a_node() -> None:
    runtime: Any = None
    with pytest.raises(InternalError):
        find_open_interrupt("key", runtime)
    assert get_caller_run_id() is None

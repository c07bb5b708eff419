"""Questions, as the runtime asks them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.errors import InternalError
from statewright.workflow.steps.execution import WaitRequest, find_open_interrupt, get_caller_run_id


@pytest.mark.parametrize(
    ("question", "kind", "event"),
    [
        (WaitRequest(1), "question", None),
        (WaitRequest(1, signal="paid"), "event", "paid"),
        (WaitRequest(1, signal="paid", until=datetime(2026, 1, 1, tzinfo=UTC)), "event", "paid"),
        (WaitRequest(1, is_timer=True, delay=1), "timer", None),
    ],
)
def test_what_a_question_waits_for(question: WaitRequest, kind: str, event: str | None) -> None:
    described = question.to_interrupt()
    assert described["value"] == 1
    assert (described.get("kind", "question"), described.get("event")) == (kind, event)
    assert ("schema" in described) is (kind != "timer")


def test_outside_a_node_nothing_was_asked() -> None:
    nobody: Any = None
    with pytest.raises(InternalError):
        find_open_interrupt("key", nobody)
    assert get_caller_run_id() is None

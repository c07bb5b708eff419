"""The event types that webhooks can subscribe to."""

from __future__ import annotations

import pytest

from statewright.errors import InvalidRequest
from statewright.service.webhooks.registry import EVENT_TYPES, TEST_EVENT, validate_event_types


def test_event_types_are_stored_once_and_in_order() -> None:
    assert validate_event_types(["workflow.failed", "workflow.completed", "workflow.failed"]) == [
        "workflow.completed",
        "workflow.failed",
    ]
    assert validate_event_types([]) == []
    assert validate_event_types(EVENT_TYPES) == list(EVENT_TYPES)


@pytest.mark.parametrize(("found", "meant"), [("workflow.complete", "workflow.completed"), ("approval.request", "app")])
def test_a_similar_type_is_suggested(found: str, meant: str) -> None:
    with pytest.raises(InvalidRequest, match=f"cannot subscribe to '{found}'. Did you mean '{meant}"):
        validate_event_types([found])


@pytest.mark.parametrize("found", [TEST_EVENT, "", "*", "WORKFLOW.COMPLETED"])
def test_others_are_refused(found: str) -> None:
    with pytest.raises(InvalidRequest, match=r"Event types: approval\.decided, "):
        validate_event_types([found])


def test_a_text_is_no_list() -> None:
    with pytest.raises(InvalidRequest, match=r"Write \['workflow.failed'\]"):
        validate_event_types("workflow.failed")

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


@pytest.mark.parametrize(
    ("event_type", "suggestion"), [("workflow.complete", "workflow.completed"), ("approval.request", "app")]
)
def test_a_similar_type_is_suggested(event_type: str, suggestion: str) -> None:
    with pytest.raises(InvalidRequest, match=f"cannot subscribe to '{event_type}'. Did you mean '{suggestion}"):
        validate_event_types([event_type])


@pytest.mark.parametrize("event_type", [TEST_EVENT, "", "*", "WORKFLOW.COMPLETED"])
def test_unknown_event_types_are_refused(event_type: str) -> None:
    with pytest.raises(InvalidRequest, match=r"Event types: approval\.decided, "):
        validate_event_types([event_type])


def test_a_string_is_not_a_list_of_event_types() -> None:
    with pytest.raises(InvalidRequest, match=r"Write \['workflow.failed'\]"):
        validate_event_types("workflow.failed")

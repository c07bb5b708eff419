"""The types of events of which webhooks can be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from statewright.errors import InvalidRequest, suggestion

EVENT_TYPES: Final = (
    "workflow.completed",
    "workflow.failed",
    "workflow.cancelled",
    "approval.requested",
    "approval.decided",
)
"""What a webhook can subscribe to."""
TEST_EVENT: Final = "webhook.test"
"""The type of a message that tries a webhook out. It is sent to whichever webhook was named, and once only."""


def read_event_types(found: Sequence[str]) -> list[str]:
    """The types that are meant, each once. Raises InvalidRequest for one that is not known."""
    if isinstance(found, str):
        raise InvalidRequest(f"The events of a webhook are a list of types, not the text {found!r}. Write [{found!r}].")
    for name in found:
        if name not in EVENT_TYPES:
            raise InvalidRequest(
                f"A webhook cannot subscribe to {name!r}. {suggestion(str(name), EVENT_TYPES, noun='Types of events')}",
                details={"field": "events", "found": name},
            )
    return [name for name in EVENT_TYPES if name in found]

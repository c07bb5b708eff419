"""What runs wait for: questions, timers, events, approvals."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from statewright.server.models.base import Body, JsonMap, Name, Shown, Sources


class WaitShown(Shown):
    """Something that a run waits for. Answers to questions are sent under its id."""

    SOURCES: ClassVar[Sources] = {
        "workflow_run_id": "run_id",
        "step_run_id": "step_id",
        "signal_type": "event",
        "response_schema": "schema",
    }

    id: str
    workflow_run_id: str
    step_run_id: str
    step_name: str
    kind: Literal["question", "timer", "event"]
    signal_type: str | None
    value: Any
    response_schema: Any
    """The JSON Schema that an answer must have, if one was declared."""
    due_at: datetime | None
    created_at: datetime


class ApprovalShown(Shown):
    """A request to agree to something."""

    SOURCES: ClassVar[Sources] = {
        "workflow_run_id": "run_id",
        "step_run_id": "step_id",
    }

    id: str
    workflow_run_id: str
    step_run_id: str
    step_name: str
    content_key: str | None
    content: Any
    prompt: str
    decision: Literal["approved", "rejected", "edited", "expired", "cancelled"] | None
    """None as long as nobody has decided."""
    edited_content: Any
    decided_by: str | None
    """The note of the caller about who has decided."""
    decided_by_key: str | None
    """The id of the key that has decided; None where no keys are asked for."""
    decided_at: datetime | None
    expires_at: datetime | None
    created_at: datetime


class DecideBody(Body):
    """A decision."""

    decision: Literal["approved", "rejected", "edited"]
    edited_content: Any = None
    """What takes the place of the content; required if the decision is `edited`."""
    decided_by: Annotated[str, Field(max_length=200)] | None = None
    """A note about who has decided, kept beside the key with which the request came."""

    @model_validator(mode="after")
    def _edited_has_content(self) -> DecideBody:
        given = "edited_content" in self.model_fields_set
        if (self.decision == "edited") != given:
            raise ValueError("editedContent goes with the decision 'edited', and with no other")
        return self


class SendEventBody(Body):
    """An event for whoever waits for it, or starts by it."""

    name: Name
    payload: JsonMap = Field(default_factory=dict)
    key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """The sender's id, which makes sending it idempotent."""


class ReceivedEventShown(Shown):
    """An event, and what it did."""

    id: str
    name: str
    payload: Any
    key: str | None
    started: list[str]
    """The runs that it has started."""
    woken: list[str]
    """The runs that it has woken."""
    created_at: datetime

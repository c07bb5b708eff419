"""Waits, approvals and received events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from statewright.api.resource import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Resource):
    """Something that a run waits for. Answers to questions are sent under its id."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Resource):
    """A request to agree to something."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent(Resource):
    """An event, and what it did."""

    id: str
    name: str
    payload: Any
    key: str | None
    started: tuple[str, ...]
    """The runs that it has started."""
    woken: tuple[str, ...]
    """The runs that it has woken."""
    created_at: datetime

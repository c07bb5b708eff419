"""Waits, approvals and received events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from statewright.client.records.record import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Shown):
    """Something that a run waits for. Answers to questions are sent under its id."""

    id: str
    workflow_run_id: str
    step_run_id: str
    step_name: str
    kind: str
    """`question`, `timer` or `event`."""
    signal_type: str | None
    value: Any
    response_schema: Any
    due_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval(Shown):
    """A request to agree to something."""

    id: str
    workflow_run_id: str
    step_run_id: str
    step_name: str
    content_key: str | None
    content: Any
    prompt: str
    decision: str | None
    """`approved`, `rejected`, `edited`, `expired` or `cancelled`; None while pending."""
    edited_content: Any
    decided_by: str | None
    """The note of the caller about who has decided."""
    decided_by_key: str | None
    """The id of the key that has decided."""
    decided_at: datetime | None
    expires_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent(Shown):
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

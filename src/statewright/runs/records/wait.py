"""Waits, signals and approvals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from statewright.runs.records.record import Json, Record, Sealed


@dataclass(slots=True, kw_only=True)
class Wait(Record):
    """An open wait of a run; deleted when it is over."""

    TABLE: ClassVar[str] = "waits"

    run_id: str
    interrupt_id: str
    """The id in the graph; not unique, because a run may continue from a fork of another one."""
    workspace_id: str
    step_id: str
    step_name: str
    kind: str
    """`question`, `timer` or `event`."""
    event: str | None = None
    """The type of signal that it waits for."""
    value: Json = None
    schema: Json = None
    """The JSON Schema that an answer must have."""
    due_at: datetime | None = None
    """The time at which the wait times out."""
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Signal(Record):
    """A signal or an answer for a run, kept in an inbox until a step waits for it."""

    TABLE: ClassVar[str] = "signals"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("run_id", "key"),)

    run_id: str
    type: str
    """The type of a signal; empty for an answer to the one interrupt that it names."""
    interrupt_id: str | None = None
    payload: Json = None
    key: str | None = None
    """The sender's id, which makes sending it idempotent."""
    taken: bool = False
    created_at: datetime


@dataclass(slots=True, kw_only=True)
class Approval(Record):
    """A request for a human decision, kept after it; it has the id of the wait."""

    TABLE: ClassVar[str] = "approval_requests"

    run_id: str
    workspace_id: str
    step_id: str
    step_name: str
    content_key: str | None = None
    content: Json = None
    prompt: Sealed = ""
    decision: str | None = None
    """`approved`, `rejected`, `edited`; `expired` or `cancelled` without a decision."""
    edited_content: Json = None
    decided_by: Sealed | None = None
    """The name of the person who decided, as given by the caller."""
    decided_by_key: str | None = None
    """The id of the key with which it was decided; None if no keys are required."""
    decided_at: datetime | None = None
    expires_at: datetime | None = None
    created_at: datetime

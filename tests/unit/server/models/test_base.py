"""Records are shown as models say, and bodies are taken as they are written."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from statewright.runs import Approval, Delivery, ModelCall, Run, Schedule, StepLog, StepRun, Trigger, Wait, Webhook
from statewright.server.models.base import Instant, Shown, all_shown, shown
from statewright.server.models.interrupts import ApprovalShown, WaitShown
from statewright.server.models.runs import LogShown, ModelCallShown, RunShown, StepShown
from statewright.server.models.schedules import ScheduleShown, TriggerShown
from statewright.server.models.webhooks import DeliveryShown, WebhookShown

AT = datetime(2026, 1, 2, tzinfo=UTC)
HIDDEN: dict[type[Any], set[str]] = {
    Run: {"claim", "worker_id", "begun", "last_event", "parent_waits", "total_cost"},
    StepRun: {"task_id"},
    ModelCall: {"workspace_id"},
    StepLog: {"id"},
    Wait: {"interrupt_id", "workspace_id"},
    Approval: {"workspace_id"},
    Webhook: {"secret", "workspace_id"},
    Delivery: {"claim", "workspace_id"},
    Schedule: {"workspace_id"},
    Trigger: {"workspace_id"},
}
PAIRS = [
    (Run, RunShown),
    (StepRun, StepShown),
    (ModelCall, ModelCallShown),
    (StepLog, LogShown),
    (Wait, WaitShown),
    (Approval, ApprovalShown),
    (Webhook, WebhookShown),
    (Delivery, DeliveryShown),
    (Schedule, ScheduleShown),
    (Trigger, TriggerShown),
]


@pytest.mark.parametrize(("record", "model"), PAIRS)
def test_every_field_of_a_record_is_shown_or_hidden_on_purpose(record: type[Any], model: type[Shown]):
    sources = {model.SOURCES.get(name, name) for name in model.model_fields}
    shown_fields = {one for one in sources if isinstance(one, str)}
    assert {one.name for one in fields(record)} - HIDDEN[record] <= shown_fields


def test_a_run_as_it_is_shown():
    run = Run(id="r", workspace_id="w", graph="g", thread_id="t", created_at=AT, updated_at=AT, total_cost=0.0123)
    found = shown(RunShown, run)
    assert (found["totalCostUsd"], found["totalCostCents"], found["nextRunAt"]) == (0.0123, 1.23, None)
    assert RunShown.model_validate(found).workspace_id == "w"
    assert all_shown(RunShown, [run, run]) == [found, found]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-01-31T09:00:00Z", datetime(2026, 1, 31, 9, tzinfo=UTC)),
        ("2026-01-31T09:00:00.5+01:00", datetime(2026, 1, 31, 8, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31 09:00Z", datetime(2026, 1, 31, 9, tzinfo=UTC)),
    ],
)
def test_instants_are_in_utc(given: str, expected: datetime):
    assert TypeAdapter(Instant).validate_python(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        "2026-01-31T09:00:00",
        "2026-01-31",
        "1700000000",
        1700000000,
        1.5,
        True,
        "",
        "tomorrow",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "2026-13-01T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "٢٠٢٦-01-01T00:00:00Z",
    ],
)
def test_what_is_no_instant_is_refused(given: Any):
    with pytest.raises(ValidationError):
        TypeAdapter(Instant).validate_python(given)

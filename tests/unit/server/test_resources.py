"""Every record of the ledger has a representation in the API."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.api import runs
from statewright.runs import Approval, Delivery, ModelCall, Run, Schedule, StepLog, StepRun, Trigger, Wait, Webhook
from statewright.server.http.representation import Representation
from statewright.server.resources import (
    APPROVAL,
    DELIVERY,
    LOG,
    MODEL_CALL,
    RUN,
    SCHEDULE,
    STEP,
    TRIGGER,
    WAIT,
    WEBHOOK,
)

AT = datetime(2026, 1, 2, tzinfo=UTC)
HIDDEN: dict[type[Any], set[str]] = {
    Run: {"claim", "worker_id", "begun", "last_event", "parent_waits", "total_cost", "progress"},
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
    (Run, RUN),
    (StepRun, STEP),
    (ModelCall, MODEL_CALL),
    (StepLog, LOG),
    (Wait, WAIT),
    (Approval, APPROVAL),
    (Webhook, WEBHOOK),
    (Delivery, DELIVERY),
    (Schedule, SCHEDULE),
    (Trigger, TRIGGER),
]


@pytest.mark.parametrize(("record", "representation"), PAIRS)
def test_every_field_of_a_record_is_encoded_or_listed_as_hidden(record: type[Any], representation: Representation):
    encoded = {source for source in representation.sources.values() if isinstance(source, str)}
    assert {item.name for item in fields(record)} - HIDDEN[record] <= encoded


def test_an_encoded_run_can_be_parsed_and_has_the_cost_in_cents():
    run = Run(id="r", workspace_id="w", graph="g", thread_id="t", created_at=AT, updated_at=AT, total_cost=0.0123)
    content = RUN.encode(run)
    assert (content["totalCostUsd"], content["totalCostCents"], content["nextRunAt"]) == (0.0123, 1.23, None)
    assert RUN.encode_all([run, run]) == [content, content]
    parsed = runs.Run.from_json({**content, "createdAt": AT.isoformat(), "updatedAt": AT.isoformat()})
    assert (parsed.workspace_id, parsed.status, parsed.created_at) == ("w", "pending", AT)

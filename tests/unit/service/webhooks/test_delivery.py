"""The content of deliveries, and the consequences of responses."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from statewright.errors import RecordConflict
from statewright.runs import Delivery, InMemoryLedger, Insert, Webhook
from statewright.service.webhooks import Answer, WebhookSettings, verify
from statewright.service.webhooks.delivery import (
    body_of,
    claim_change,
    event_changes,
    headers_of,
    outcome_changes,
    outcome_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = WebhookSettings()
BODY = {"id": "dlv_1", "type": "workflow.completed", "createdAt": "2026-01-01T00:00:00Z", "data": {"näme": "\ud800"}}
DELIVERY = Delivery(
    id="dlv_1",
    webhook_id="whk_1",
    workspace_id="a",
    run_id="run_1",
    event_type="workflow.completed",
    body=BODY,
    due_at=NOW,
    created_at=NOW,
)
WEBHOOK = Webhook(id="whk_1", workspace_id="a", url="https://a.example", secret={"current": "whsec_1"}, created_at=NOW)
DOWN = Answer(503, "The receiver answered 503.")


def test_a_message_is_json_and_signed_for_each_attempt() -> None:
    body = body_of(DELIVERY)
    assert json.loads(body) == {**BODY, "data": {"näme": "?"}}
    headers = headers_of(DELIVERY, WEBHOOK, body, NOW)
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("statewright/")
    assert (headers["statewright-event"], headers["statewright-delivery"]) == ("workflow.completed", "dlv_1")
    verify("whsec_1", headers["statewright-signature"], body, now=NOW)
    later = headers_of(DELIVERY, WEBHOOK, body, NOW + timedelta(hours=1))
    assert later["statewright-signature"] != headers["statewright-signature"]


def test_pauses_grow_as_documented_with_jitter() -> None:
    pauses = (60, 300, 1800, 7200, 21600)
    for attempts, pause in enumerate(pauses):
        outcome = outcome_of(replace(DELIVERY, attempts=attempts), DOWN, NOW, SETTINGS)
        assert outcome.status == "pending"
        assert outcome.due_at is not None
        assert pause <= (outcome.due_at - NOW).total_seconds() <= pause * 1.1
    assert outcome_of(replace(DELIVERY, attempts=5), DOWN, NOW, SETTINGS).status == "failed"


@pytest.mark.parametrize(("retry_after", "expected"), [(None, 60), (5.0, 60), (900.0, 900), (1e9, 86400)])
def test_retry_after_is_honoured_within_limits(retry_after: float | None, expected: float) -> None:
    outcome = outcome_of(DELIVERY, DOWN._replace(retry_after=retry_after), NOW, SETTINGS)
    assert outcome.due_at is not None
    assert expected <= (outcome.due_at - NOW).total_seconds() <= expected * 1.1


def test_messages_that_failed_together_are_retried_at_different_times() -> None:
    outcomes = [outcome_of(replace(DELIVERY, id=f"dlv_{number}"), DOWN, NOW, SETTINGS) for number in range(100)]
    assert len({outcome.due_at for outcome in outcomes}) > 90
    assert outcomes == [outcome_of(replace(DELIVERY, id=f"dlv_{n}"), DOWN, NOW, SETTINGS) for n in range(100)]


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_a_successful_response_ends_a_delivery(status: int) -> None:
    outcome = outcome_of(DELIVERY, Answer(status), NOW, SETTINGS)
    assert (outcome.status, outcome.due_at) == ("delivered", None)


def test_a_delivery_is_not_retried_after_a_410_response() -> None:
    outcome = outcome_of(DELIVERY, Answer(410, "The receiver answered 410."), NOW, SETTINGS)
    assert (outcome.status, outcome.gone) == ("failed", True)


def test_a_test_message_is_not_retried() -> None:
    assert outcome_of(replace(DELIVERY, event_type="webhook.test"), DOWN, NOW, SETTINGS).status == "failed"


def test_a_delivery_is_claimed_once_until_the_claim_expires() -> None:
    ledger = InMemoryLedger()
    ledger.write([Insert(DELIVERY)])
    first, second = claim_change(DELIVERY, NOW, SETTINGS), claim_change(DELIVERY, NOW, SETTINGS)
    ledger.write([first])
    with pytest.raises(RecordConflict):
        ledger.write([second])
    claimed = ledger.get(Delivery, "dlv_1")
    assert claimed is not None
    assert claimed.claim == first.values["claim"] != second.values["claim"]
    assert claimed.due_at == NOW + timedelta(seconds=20)
    ledger.write([claim_change(claimed, claimed.due_at, SETTINGS)])
    with pytest.raises(RecordConflict):
        ledger.write(
            outcome_changes(DELIVERY, first.values["claim"], outcome_of(DELIVERY, DOWN, NOW, SETTINGS), NOW, SETTINGS)
        )


def test_the_final_outcome_is_an_event_of_the_run() -> None:
    assert event_changes(DELIVERY, outcome_of(DELIVERY, DOWN, NOW, SETTINGS), NOW) == []
    assert event_changes(replace(DELIVERY, run_id=None), outcome_of(DELIVERY, Answer(200), NOW, SETTINGS), NOW) == []
    (change,) = event_changes(DELIVERY, outcome_of(DELIVERY, Answer(200), NOW, SETTINGS), NOW)
    assert [(event.type, event.payload["attempts"], event.payload["status"]) for event in change.events] == [
        ("WEBHOOK_DELIVERED", 1, 200)
    ]
    last = replace(DELIVERY, attempts=5)
    (change,) = event_changes(last, outcome_of(last, DOWN, NOW, SETTINGS), NOW)
    assert [(event.type, event.payload["attempts"], event.payload["error"]) for event in change.events] == [
        ("WEBHOOK_FAILED", 6, DOWN.error)
    ]

"""The content of a delivery, and the changes that follow from its outcome, without I/O.

A claimed delivery has a `claim`, and its `due_at` is the time at which its process counts as lost. So if a process is
killed between sending and writing, another one sends the message again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from statewright import __version__
from statewright.ids import digest, draw_run_id
from statewright.runs import Advance, Change, Condition, Delivery, NewEvent, Plus, Update, UpdateAll, Webhook, where
from statewright.service.webhooks.http_post import Answer
from statewright.service.webhooks.registry import TEST_EVENT
from statewright.service.webhooks.settings import WebhookSettings
from statewright.service.webhooks.signature import SIGNATURE_HEADER, secrets_of, sign

EVENT_HEADER: Final = "statewright-event"
DELIVERY_HEADER: Final = "statewright-delivery"
_GRACE: Final = 10.0
"""Seconds between the end of the longest attempt and the expiry of its claim."""
_JITTER: Final = 0.1
"""The largest jitter of a pause, as a fraction: messages that failed together are not retried together."""
_GONE: Final = 410


def claim_change(delivery: Delivery, now: datetime, settings: WebhookSettings) -> Update:
    """Return the change that claims a delivery. It is refused if another process has claimed it."""
    held_until = now + timedelta(seconds=settings.timeout + _GRACE)
    return Update(Delivery, delivery.id, {"claim": str(draw_run_id()), "due_at": held_until}, _unchanged(delivery))


def body_of(delivery: Delivery) -> bytes:
    """Return the message as bytes, which are the same for each attempt."""
    return json.dumps(delivery.body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def headers_of(delivery: Delivery, webhook: Webhook, body: bytes, now: datetime) -> dict[str, str]:
    """Return the headers of the message; each attempt has a new signature."""
    return {
        "content-type": "application/json",
        "user-agent": f"statewright/{__version__}",
        EVENT_HEADER: delivery.event_type,
        DELIVERY_HEADER: delivery.id,
        SIGNATURE_HEADER: sign(secrets_of(webhook, now), body, at=now),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one attempt at a delivery."""

    status: str
    """`delivered`, `failed`, or `pending` if there will be another attempt."""
    answer: Answer
    due_at: datetime | None = None
    gone: bool = False
    """True if the receiver wants no more messages (410)."""


def outcome_of(delivery: Delivery, answer: Answer, now: datetime, settings: WebhookSettings) -> Outcome:
    """Return the outcome of an attempt."""
    if answer.error is None:
        return Outcome(status="delivered", answer=answer)
    if answer.status == _GONE:
        return Outcome(status="failed", answer=answer, gone=True)
    pauses = () if delivery.event_type == TEST_EVENT else settings.retry_after
    if delivery.attempts >= len(pauses):
        return Outcome(status="failed", answer=answer)
    requested = min(answer.retry_after or 0.0, settings.longest_pause)
    pause = max(pauses[delivery.attempts], requested) * (1 + _JITTER * _fraction(delivery))
    return Outcome(status="pending", answer=answer, due_at=now + timedelta(seconds=pause))


def _fraction(delivery: Delivery) -> float:
    """Return a number from 0 to 1, derived from the delivery and the attempt, so that it is reproducible."""
    return int(digest("jitter", delivery.id, delivery.attempts)[:8], 16) / 0xFFFFFFFF


def outcome_changes(
    delivery: Delivery, claim: str, outcome: Outcome, now: datetime, settings: WebhookSettings
) -> list[Change]:
    """Return the changes that store an outcome. They are refused if another process has claimed the delivery."""
    values = {
        "status": outcome.status,
        "attempts": delivery.attempts + 1,
        "response_status": outcome.answer.status,
        "error": outcome.answer.error,
        "claim": None,
        "due_at": outcome.due_at,
        "delivered_at": now if outcome.status == "delivered" else None,
    }
    return [Update(Delivery, delivery.id, values, where(claim=claim)), *_webhook_changes(delivery, outcome, settings)]


def _webhook_changes(delivery: Delivery, outcome: Outcome, settings: WebhookSettings) -> list[Change]:
    """Return the changes of the webhook after a message was delivered, or has failed for good."""
    webhook = where(id=delivery.webhook_id)
    if outcome.status == "delivered":
        return [UpdateAll(Webhook, [*webhook, Condition("failures", "!=", 0)], {"failures": 0})]
    if outcome.gone:
        return [_disable_change([*webhook, *where(active=True)], "The receiver answered 410: it is gone.")]
    if outcome.status == "pending" or delivery.event_type == TEST_EVENT:
        return []
    limit = settings.disable_after
    too_many = [*webhook, *where(active=True), Condition("failures", ">=", limit)]
    return [
        UpdateAll(Webhook, webhook, {"failures": Plus(1)}),
        _disable_change(too_many, f"{limit} messages in a row have failed for good."),
    ]


def _disable_change(conditions: Sequence[Condition], reason: str) -> Change:
    return UpdateAll(Webhook, conditions, {"active": False, "disabled_reason": reason})


def drop_change(delivery: Delivery, reason: str) -> Change:
    """Return the change that fails a delivery without an attempt."""
    values = {"status": "failed", "error": reason, "claim": None, "due_at": None}
    return Update(Delivery, delivery.id, values, _unchanged(delivery))


def _unchanged(delivery: Delivery) -> list[Condition]:
    return where(status="pending", claim=delivery.claim, due_at=delivery.due_at)


def event_changes(delivery: Delivery, outcome: Outcome, now: datetime) -> list[Change]:
    """Return the event in the log of the run, if the delivery has succeeded or failed for good."""
    if delivery.run_id is None or outcome.status == "pending":
        return []
    payload: dict[str, Any] = {
        "deliveryId": delivery.id,
        "webhookId": delivery.webhook_id,
        "eventType": delivery.event_type,
        "attempts": delivery.attempts + 1,
        "status": outcome.answer.status,
    }
    event = NewEvent("WEBHOOK_DELIVERED", payload)
    if outcome.status == "failed":
        event = NewEvent("WEBHOOK_FAILED", {**payload, "error": outcome.answer.error})
    return [Advance(delivery.run_id, now, events=[event])]

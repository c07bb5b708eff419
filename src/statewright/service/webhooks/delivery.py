"""Delivery of webhook messages, by one or several processes.

Each webhook has a lane: an asyncio task that claims some of the webhook's deliveries, sends them concurrently, records
the outcomes, and ends when no more deliveries are due. So a slow receiver delays only its own messages. A sweep starts
the lanes that are missing, and waits only briefly for slow lanes. Functions without I/O compute the content of
messages, and the changes that follow from their outcomes.

A claimed delivery has a `claim`, and its `due_at` is the time at which the process that claimed it is considered lost.
So if that process is killed between sending a message and recording the outcome, another process sends the message
again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from statewright import __version__
from statewright.async_futures import aresolve
from statewright.clock import Clock
from statewright.errors import RecordConflict
from statewright.ids import digest, new_run_id
from statewright.runs import (
    Advance,
    Change,
    Condition,
    Delivery,
    Ledger,
    NewEvent,
    Order,
    Plus,
    Run,
    Update,
    UpdateAll,
    Webhook,
    where,
)
from statewright.service.context.records import find_first
from statewright.service.webhooks.http_post import Answer, HttpPost, Post
from statewright.service.webhooks.registry import TEST_EVENT
from statewright.service.webhooks.settings import DEFAULT_SETTINGS, WebhookSettings
from statewright.service.webhooks.signature import SIGNATURE_HEADER, secrets_of, sign

EVENT_HEADER: Final = "statewright-event"
DELIVERY_HEADER: Final = "statewright-delivery"
_GRACE: Final = 10.0
"""Seconds between the timeout of an attempt and the expiry of its claim."""
_JITTER: Final = 0.1
"""Maximum jitter, as a fraction of the delay, so that messages that failed together are not retried together."""
_GONE: Final = 410  # the HTTP status
_PENDING: Final = Condition("status", "=", "pending")
_BY_TIME: Final = Order("due_at")


class Deliverer:
    """A background task that claims due deliveries, and sends them."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        settings: WebhookSettings = DEFAULT_SETTINGS,
        *,
        post: Post | None = None,
        on_attempt: Callable[[str], object] | None = None,
        patience: float = 1.0,
    ) -> None:
        """Create a deliverer. `on_attempt` is called with the outcome of each attempt: `delivered` or `failed`.

        A sweep waits at most `patience` seconds for its lanes. If some lanes are still running after that, the next
        sweep is due after the same number of seconds.
        """
        self._ledger = ledger
        self._clock = clock
        self._settings = settings
        self._post: Post = post or HttpPost(settings)
        self._on_attempt = on_attempt
        self._patience = patience
        self._lanes: dict[str, asyncio.Task[None]] = {}
        """The running lanes, by webhook id."""
        self._slots = asyncio.Semaphore(settings.at_once)
        self._closing = False

    async def sweep(self, now: datetime) -> datetime | None:
        """Send the due messages. Return the time of the next sweep; None if nothing is pending.

        Raises the errors of the ledger. If the outcome of a message could not be recorded, the message is sent again
        when its claim has expired.
        """
        due = [_PENDING, Condition("due_at", "<=", now)]
        for (webhook_id,), _, _ in await aresolve(self._ledger.groups(Delivery, ["webhook_id"], where=due)):
            if webhook_id not in self._lanes:
                self._lanes[webhook_id] = asyncio.create_task(self._run_lane(webhook_id), name=f"webhook {webhook_id}")
        await self._wait_for_lanes(self._patience)
        if self._lanes:
            return self._clock.now() + timedelta(seconds=self._patience)
        pending = [_PENDING, Condition("due_at", "!=", None)]
        delivery = await find_first(self._ledger, Delivery, pending, _BY_TIME)
        return delivery.due_at if delivery is not None else None

    async def close(self) -> None:
        """Let requests in progress finish, and start no more.

        Requests that take too long are cancelled. Their messages are sent again when their claims have expired.
        """
        self._closing = True
        try:
            await self._wait_for_lanes(self._settings.timeout + self._patience)
        finally:
            for lane in self._lanes.values():
                lane.cancel()
            await asyncio.gather(*self._lanes.values(), return_exceptions=True)
            self._lanes.clear()
            self._closing = False

    async def _wait_for_lanes(self, seconds: float) -> None:
        """Wait at most `seconds` until all lanes have ended. Raises the first error of a lane that has ended."""
        if self._lanes:
            await asyncio.wait(self._lanes.values(), timeout=seconds)
        ended = [(webhook_id, lane) for webhook_id, lane in self._lanes.items() if lane.done()]
        for webhook_id, _ in ended:
            del self._lanes[webhook_id]
        errors = [lane.exception() for _, lane in ended if not lane.cancelled()]
        for error in filter(None, errors):
            raise error

    async def _run_lane(self, webhook_id: str) -> None:
        """Send the messages to one webhook until none is due."""
        while not self._closing and (batch := await self._find_due(webhook_id)):
            webhook = await aresolve(self._ledger.get(Webhook, webhook_id))
            errors = await asyncio.gather(
                *(self._deliver(delivery, webhook) for delivery in batch), return_exceptions=True
            )
            for error in filter(None, errors):
                raise error

    async def _find_due(self, webhook_id: str) -> Sequence[Delivery]:
        due = [*where(webhook_id=webhook_id), _PENDING, Condition("due_at", "<=", self._clock.now())]
        limit = self._settings.at_once_per_webhook
        return await aresolve(self._ledger.find(Delivery, due, order=_BY_TIME, limit=limit))

    async def _deliver(self, delivery: Delivery, webhook: Webhook | None) -> None:
        if webhook is None or not webhook.active:
            reason = "The webhook was removed." if webhook is None else "The webhook is not active."
            await self._write([drop_change(delivery, reason)])
            return
        async with self._slots:
            claim = claim_change(delivery, self._clock.now(), self._settings)
            if await self._write([claim]) is None:  # otherwise another process has claimed the delivery
                await self._send(delivery, webhook, claim.values["claim"])

    async def _send(self, delivery: Delivery, webhook: Webhook, claim: str) -> None:
        body = body_of(delivery)
        answer = await self._post(webhook.url, body, headers_of(delivery, webhook, body, self._clock.now()))
        if self._on_attempt is not None:
            self._on_attempt("failed" if answer.error is not None else "delivered")
        await self._record_outcome(delivery, claim, outcome_of(delivery, answer, self._clock.now(), self._settings))

    async def _record_outcome(self, delivery: Delivery, claim: str, outcome: Outcome) -> None:
        now = self._clock.now()
        changes = outcome_changes(delivery, claim, outcome, now, self._settings)
        # If the run was deleted before its message was sent, the event is left out. If the delivery itself has changed,
        # it was claimed by another process, or was removed, so there is nothing to record.
        if await self._write([*changes, *event_changes(delivery, outcome, now)]) == Run.TABLE:
            await self._write(changes)

    async def _write(self, changes: Sequence[Change]) -> str | None:
        """Write changes. Return None if they were written, or else the table of the record that was in conflict."""
        try:
            await aresolve(self._ledger.write(changes))
        except RecordConflict as conflict:
            return conflict.table
        return None


# -- messages, and the changes that follow from their outcomes


def claim_change(delivery: Delivery, now: datetime, settings: WebhookSettings) -> Update:
    """Return the change that claims a delivery. It is refused if another process has claimed the delivery."""
    claimed_until = now + timedelta(seconds=settings.timeout + _GRACE)
    return Update(Delivery, delivery.id, {"claim": str(new_run_id()), "due_at": claimed_until}, _unchanged(delivery))


def body_of(delivery: Delivery) -> bytes:
    """Return the body of the message, which is the same for each attempt."""
    message = {"id": delivery.id, **delivery.body}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def headers_of(delivery: Delivery, webhook: Webhook, body: bytes, now: datetime) -> dict[str, str]:
    """Return the headers of the message, with a new signature for each attempt."""
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
    """True if the receiver answered 410, which means that it wants no more messages."""


def outcome_of(delivery: Delivery, answer: Answer, now: datetime, settings: WebhookSettings) -> Outcome:
    """Return the outcome of an attempt."""
    if answer.error is None:
        return Outcome(status="delivered", answer=answer)
    if answer.status == _GONE:
        return Outcome(status="failed", answer=answer, gone=True)
    delays = () if delivery.event_type == TEST_EVENT else settings.retry_after
    if delivery.attempts >= len(delays):
        return Outcome(status="failed", answer=answer)
    requested = min(answer.retry_after or 0.0, settings.longest_pause)
    delay = max(delays[delivery.attempts], requested) * (1 + _JITTER * _jitter_fraction(delivery))
    return Outcome(status="pending", answer=answer, due_at=now + timedelta(seconds=delay))


def _jitter_fraction(delivery: Delivery) -> float:
    """Return a number from 0 to 1 that is derived from the delivery and the attempt, so that it is reproducible."""
    return int(digest("jitter", delivery.id, delivery.attempts)[:8], 16) / 0xFFFFFFFF


def outcome_changes(
    delivery: Delivery, claim: str, outcome: Outcome, now: datetime, settings: WebhookSettings
) -> list[Change]:
    """Return the changes that record an outcome. They are refused if another process has claimed the delivery."""
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
    """Return the changes to the webhook after a message was delivered, or has failed permanently."""
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
        _disable_change(too_many, f"{limit} messages in a row have failed permanently."),
    ]


def _disable_change(conditions: Sequence[Condition], reason: str) -> Change:
    return UpdateAll(Webhook, conditions, {"active": False, "disabled_reason": reason})


def drop_change(delivery: Delivery, reason: str) -> Change:
    """Return the change that marks a delivery as failed without an attempt."""
    values = {"status": "failed", "error": reason, "claim": None, "due_at": None}
    return Update(Delivery, delivery.id, values, _unchanged(delivery))


def _unchanged(delivery: Delivery) -> list[Condition]:
    return where(status="pending", claim=delivery.claim, due_at=delivery.due_at)


def event_changes(delivery: Delivery, outcome: Outcome, now: datetime) -> list[Change]:
    """Return the change that adds an event to the run, or no change if there will be another attempt."""
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

"""Delivery of webhook messages, possibly by several processes.

Each webhook has a lane: a task that claims some of its deliveries, sends them concurrently, records the outcomes, and
ends when nothing is due. So a slow receiver delays only its own messages. A sweep starts the missing lanes, and waits
only briefly for slow ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from statewright.async_futures import aresolve
from statewright.clock import Clock
from statewright.errors import RecordConflict
from statewright.runs import Change, Condition, Delivery, Ledger, Order, Run, Webhook, where
from statewright.service.context.records import find_first
from statewright.service.webhooks.delivery import (
    Outcome,
    body_of,
    claim_change,
    drop_change,
    event_changes,
    headers_of,
    outcome_changes,
    outcome_of,
)
from statewright.service.webhooks.http_post import HttpPost, Post
from statewright.service.webhooks.settings import DEFAULT_SETTINGS, WebhookSettings

_PENDING: Final = Condition("status", "=", "pending")
_BY_TIME: Final = Order("due_at")


class Deliverer:
    """Claims due deliveries, and sends them."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        settings: WebhookSettings = DEFAULT_SETTINGS,
        *,
        post: Post | None = None,
        on_attempt: Callable[[str], object] = lambda _: None,
        patience: float = 1.0,
    ) -> None:
        """Call `on_attempt` with the outcome of each attempt: `delivered` or `failed`.

        A sweep waits for its lanes for `patience` seconds, and then asks to be repeated after the same time.
        """
        self._ledger = ledger
        self._clock = clock
        self._settings = settings
        self._post: Post = post or HttpPost(settings)
        self._on_attempt = on_attempt
        self._patience = patience
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(settings.at_once)
        self._closing = False

    async def sweep(self, now: datetime) -> datetime | None:
        """Send the due messages. Return the time of the next sweep; None if nothing is pending.

        Raises the errors of the ledger. A message whose outcome could not be written is sent again when its claim
        expires.
        """
        due = [_PENDING, Condition("due_at", "<=", now)]
        for (webhook_id,), _, _ in await aresolve(self._ledger.groups(Delivery, ["webhook_id"], where=due)):
            if webhook_id not in self._lanes:
                self._lanes[webhook_id] = asyncio.create_task(self._run_lane(webhook_id), name=f"webhook {webhook_id}")
        await self._settle(self._patience)
        if self._lanes:
            return self._clock.now() + timedelta(seconds=self._patience)
        return await self._next_due()

    async def close(self) -> None:
        """Let requests in progress finish, and start no more. Other processes send the messages of cancelled ones."""
        self._closing = True
        try:
            await self._settle(self._settings.timeout + self._patience)
        finally:
            for lane in self._lanes.values():
                lane.cancel()
            await asyncio.gather(*self._lanes.values(), return_exceptions=True)
            self._lanes.clear()
            self._closing = False

    async def _settle(self, seconds: float) -> None:
        """Wait for lanes to end, for so many seconds at most. Raises the first error of those that have ended."""
        if self._lanes:
            await asyncio.wait(self._lanes.values(), timeout=seconds)
        ended = [(webhook_id, lane) for webhook_id, lane in self._lanes.items() if lane.done()]
        for webhook_id, _ in ended:
            del self._lanes[webhook_id]
        errors = [lane.exception() for _, lane in ended if not lane.cancelled()]
        for error in filter(None, errors):
            raise error

    async def _next_due(self) -> datetime | None:
        pending = [_PENDING, Condition("due_at", "!=", None)]
        delivery = await find_first(self._ledger, Delivery, pending, _BY_TIME)
        return delivery.due_at if delivery is not None else None

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
            take = claim_change(delivery, self._clock.now(), self._settings)
            if await self._write([take]) is None:  # otherwise another process has it
                await self._send(delivery, webhook, take.values["claim"])

    async def _send(self, delivery: Delivery, webhook: Webhook, claim: str) -> None:
        body = body_of(delivery)
        answer = await self._post(webhook.url, body, headers_of(delivery, webhook, body, self._clock.now()))
        self._on_attempt("failed" if answer.error is not None else "delivered")
        await self._record_outcome(delivery, claim, outcome_of(delivery, answer, self._clock.now(), self._settings))

    async def _record_outcome(self, delivery: Delivery, claim: str, outcome: Outcome) -> None:
        now = self._clock.now()
        changes = outcome_changes(delivery, claim, outcome, now, self._settings)
        # A run may be deleted before its messages are sent: then its event is left out. If the delivery itself has
        # changed, another process has claimed it, or it was removed.
        if await self._write([*changes, *event_changes(delivery, outcome, now)]) == Run.TABLE:
            await self._write(changes)

    async def _write(self, changes: Sequence[Change]) -> str | None:
        """Write changes. Return the table of the conflicting record if they were refused."""
        try:
            await aresolve(self._ledger.write(changes))
        except RecordConflict as conflict:
            return conflict.table
        return None

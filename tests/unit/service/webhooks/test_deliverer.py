"""The deliverer, with scripted receivers and a fake clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from statewright.errors import StorageUnavailable
from statewright.runs import (
    Announce,
    Change,
    Delete,
    Delivery,
    Forget,
    InMemoryLedger,
    Insert,
    Run,
    RunStatus,
    Update,
    Webhook,
    where,
)
from statewright.service.webhooks import Answer, Deliverer, WebhookSettings
from statewright.testing import FakeClock

DOWN = Answer(503, "The receiver answered 503.")
SETTINGS = WebhookSettings(disable_after=3)
PAUSES = (60, 300, 1800, 7200, 21600)
LONG_PATIENCE = 600.0
"""Seconds; long enough for a sweep to send everything on a slow machine."""


@dataclass
class Receiver:
    """Returns scripted answers; the last one is repeated."""

    answers: list[Answer] = field(default_factory=lambda: [Answer(200)])
    received: list[str] = field(default_factory=list)
    """The ids of the deliveries, in the order of their arrival."""
    gate: asyncio.Event | None = None
    """Answers wait until it is set."""
    active: int = 0
    most_active: int = 0

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        self.received.append(headers["statewright-delivery"])
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        await asyncio.sleep(0)  # lets other requests arrive
        if self.gate is not None:
            await self.gate.wait()
        self.active -= 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class DelivererBench:
    """A ledger with a run and webhooks, and a deliverer."""

    def __init__(
        self,
        receiver: Receiver,
        settings: WebhookSettings = SETTINGS,
        *,
        ledger: InMemoryLedger | None = None,
        patience: float = LONG_PATIENCE,
    ) -> None:
        self.ledger = ledger or InMemoryLedger()
        self.clock = FakeClock()
        self.deliverer = Deliverer(self.ledger, self.clock, settings, post=receiver, patience=patience)
        now = self.clock.now()
        run = Run(id="run_1", workspace_id="a", graph="g", thread_id="t", created_at=now, updated_at=now)
        self.ledger.write([Insert(run), Insert(self.webhook("whk_1"))])

    def webhook(self, record_id: str) -> Webhook:
        now = self.clock.now()
        return Webhook(id=record_id, workspace_id="a", url="https://a.example/", secret="whsec_1", created_at=now)

    def announce(self, count: int = 1) -> None:
        now = self.clock.now()
        self.ledger.write([Announce("a", "workflow.completed", {"n": 1}, now, "run_1") for _ in range(count)])

    def deliveries(self) -> list[Delivery]:
        return self.ledger.find(Delivery)

    def find_webhook(self) -> Webhook:
        result = self.ledger.get(Webhook, "whk_1")
        assert result is not None
        return result

    def sweep(self) -> float | None:
        """Sweep, and return the seconds until the next sweep is due."""
        due = asyncio.run(self.deliverer.sweep(self.clock.now()))
        return None if due is None else (due - self.clock.now()).total_seconds()

    def events(self) -> list[str]:
        return [event.type for event in self.ledger.events("run_1")]


def test_without_deliveries_there_is_nothing_to_send() -> None:
    assert DelivererBench(Receiver()).sweep() is None


def test_due_messages_are_sent_once() -> None:
    receiver = Receiver()
    bench = DelivererBench(receiver)
    bench.announce(20)
    assert bench.sweep() is None
    assert bench.sweep() is None
    assert sorted(receiver.received) == [delivery.id for delivery in bench.deliveries()]
    (delivery, *_) = bench.deliveries()
    assert (delivery.status, delivery.attempts, delivery.response_status, delivery.error) == ("delivered", 1, 200, None)
    assert (delivery.claim, delivery.due_at, delivery.delivered_at) == (None, None, bench.clock.now())
    assert bench.events() == ["WEBHOOK_DELIVERED"] * 20


def test_a_message_is_retried_after_the_documented_pauses_until_it_arrives() -> None:
    receiver = Receiver([DOWN] * 5 + [Answer(204)])
    bench = DelivererBench(receiver)
    bench.announce()
    for attempt_count, pause in enumerate(PAUSES, 1):
        seconds = bench.sweep()
        assert seconds is not None
        assert pause <= seconds <= pause * 1.1
        assert bench.sweep() == seconds  # nothing is sent early
        assert len(receiver.received) == attempt_count
        bench.clock.advance(seconds)
    assert bench.sweep() is None
    assert set(receiver.received) == {bench.deliveries()[0].id}
    assert (bench.deliveries()[0].status, bench.deliveries()[0].attempts) == ("delivered", 6)
    assert bench.events() == ["WEBHOOK_DELIVERED"]
    assert bench.find_webhook().failures == 0


def retry_until_done(bench: DelivererBench) -> None:
    while (seconds := bench.sweep()) is not None:
        bench.clock.advance(seconds)


def test_a_message_fails_after_its_last_attempt() -> None:
    receiver = Receiver([DOWN])
    bench = DelivererBench(receiver)
    bench.announce()
    retry_until_done(bench)
    assert len(receiver.received) == 6
    (delivery,) = bench.deliveries()
    assert (delivery.status, delivery.attempts, delivery.response_status, delivery.error) == (
        "failed",
        6,
        503,
        DOWN.error,
    )
    assert bench.events() == ["WEBHOOK_FAILED"]
    assert bench.find_webhook().failures == 1
    assert bench.find_webhook().active


def test_consecutive_failures_disable_a_webhook() -> None:
    receiver = Receiver([DOWN])
    bench = DelivererBench(receiver)
    for _ in range(2):
        bench.announce()
        retry_until_done(bench)
    receiver.answers = [Answer(200)]
    bench.announce()
    bench.sweep()
    assert bench.find_webhook().failures == 0  # a success resets the count
    receiver.answers = [DOWN]
    for _ in range(3):
        assert bench.find_webhook().active
        bench.announce()
        retry_until_done(bench)
    assert not bench.find_webhook().active
    assert bench.find_webhook().disabled_reason == "3 messages in a row have failed permanently."
    bench.announce()
    assert len(bench.deliveries()) == 6  # a disabled webhook has no new deliveries


def test_a_410_disables_a_webhook_and_drops_its_messages() -> None:
    receiver = Receiver([DOWN, Answer(410, "The receiver answered 410.")])
    bench = DelivererBench(receiver)
    bench.announce()
    bench.sweep()
    bench.announce()
    bench.sweep()
    assert not bench.find_webhook().active
    assert bench.find_webhook().disabled_reason == "The receiver answered 410: it is gone."
    retry_until_done(bench)
    assert len(receiver.received) == 2
    errors = {delivery.error for delivery in bench.deliveries()}
    assert errors == {"The webhook is not active.", "The receiver answered 410."}
    assert {delivery.status for delivery in bench.deliveries()} == {"failed"}


def test_a_removed_webhook_receives_nothing() -> None:
    receiver = Receiver()
    bench = DelivererBench(receiver)
    bench.announce()
    bench.ledger.write([Delete(Webhook, where(id="whk_1"))])
    assert bench.sweep() is None
    assert receiver.received == []
    assert bench.deliveries()[0].error == "The webhook was removed."


def test_messages_are_sent_concurrently_within_limits() -> None:
    receiver = Receiver()
    bench = DelivererBench(receiver, WebhookSettings(at_once=5, at_once_per_webhook=3))
    bench.announce(12)
    bench.sweep()
    assert receiver.most_active == 3
    bench.ledger.write([Insert(bench.webhook("whk_2")), Insert(bench.webhook("whk_3"))])
    bench.announce(12)
    bench.sweep()
    assert receiver.most_active == 5
    assert len(receiver.received) == 12 + 36


class SlowFirstReceiver(Receiver):
    """Answers the first request only when it may proceed."""

    def __init__(self) -> None:
        super().__init__()
        self.proceed = asyncio.Event()

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if not self.received:
            self.received.append(headers["statewright-delivery"])
            await self.proceed.wait()
            return Answer(200)
        return await super().__call__(url, body, headers)


def test_a_slow_receiver_does_not_delay_others() -> None:
    async def run() -> None:
        receiver = SlowFirstReceiver()
        bench = DelivererBench(receiver, patience=0.01)
        bench.announce()
        next_sweep = await bench.deliverer.sweep(bench.clock.now())
        # It sweeps again soon, although nothing else is due.
        assert next_sweep == bench.clock.now() + timedelta(seconds=0.01)
        bench.ledger.write([Insert(bench.webhook("whk_2"))])
        bench.ledger.write([Update(Webhook, "whk_1", {"active": False})])
        bench.announce(3)
        while Counter(delivery.status for delivery in bench.deliveries()) != {"pending": 1, "delivered": 3}:
            await bench.deliverer.sweep(bench.clock.now())
        receiver.proceed.set()
        await bench.deliverer.close()
        assert Counter(delivery.status for delivery in bench.deliveries()) == {"delivered": 4}

    asyncio.run(run())


def test_a_sweep_does_not_resend_messages_in_flight() -> None:
    async def run() -> None:
        receiver = Receiver(gate=(gate := asyncio.Event()))
        bench = DelivererBench(receiver, WebhookSettings(at_once_per_webhook=2), patience=0.01)
        bench.announce(4)
        while receiver.active < 2:
            await bench.deliverer.sweep(bench.clock.now())
        await bench.deliverer.sweep(bench.clock.now())
        gate.set()
        while await bench.deliverer.sweep(bench.clock.now()) is not None:
            pass
        assert (len(receiver.received), receiver.most_active) == (4, 2)

    asyncio.run(run())


def test_closing_finishes_requests_in_flight_and_starts_none() -> None:
    async def run() -> None:
        receiver = Receiver(gate=(gate := asyncio.Event()))
        bench = DelivererBench(receiver, WebhookSettings(at_once_per_webhook=2))
        bench.announce(10)
        sweep = asyncio.create_task(bench.deliverer.sweep(bench.clock.now()))
        while receiver.active < 2:
            await asyncio.sleep(0)
        sweep.cancel()
        closing = asyncio.create_task(bench.deliverer.close())
        await asyncio.sleep(0)
        gate.set()
        await closing
        assert len(receiver.received) == 2
        assert Counter(delivery.status for delivery in bench.deliveries()) == {"delivered": 2, "pending": 8}
        assert [delivery.claim for delivery in bench.deliveries()] == [None] * 10
        await bench.deliverer.sweep(bench.clock.now())  # a closed deliverer can be used again
        assert len(receiver.received) == 10

    asyncio.run(run())


def test_two_processes_send_each_message_once() -> None:
    async def run() -> None:
        receiver = Receiver()
        bench = DelivererBench(receiver)
        others = [
            Deliverer(bench.ledger, bench.clock, SETTINGS, post=receiver, patience=LONG_PATIENCE) for _ in range(4)
        ]
        bench.announce(100)
        await asyncio.gather(*(item.sweep(bench.clock.now()) for item in [bench.deliverer, *others]))
        assert len(receiver.received) == len(set(receiver.received)) == 100
        assert {delivery.status for delivery in bench.deliveries()} == {"delivered"}

    asyncio.run(run())


class FailingOnceLedger(InMemoryLedger):
    """A ledger that refuses the first outcome."""

    refused = False

    def write(self, changes: Sequence[Change]) -> None:
        if not self.refused and any("attempts" in change.values for change in changes if isinstance(change, Update)):
            self.refused = True
            raise StorageUnavailable("The disk is gone for a moment.")
        super().write(changes)


def test_a_message_is_sent_again_if_its_outcome_was_not_saved() -> None:
    receiver = Receiver()
    bench = DelivererBench(receiver, ledger=FailingOnceLedger())
    bench.announce()
    with pytest.raises(StorageUnavailable):
        bench.sweep()
    (delivery,) = bench.deliveries()
    assert (delivery.status, delivery.attempts, len(receiver.received)) == ("pending", 0, 1)
    seconds = bench.sweep()
    assert seconds == 20
    assert len(receiver.received) == 1  # the claim has not expired
    bench.clock.advance(seconds)
    assert bench.sweep() is None
    assert receiver.received == [delivery.id, delivery.id]
    assert bench.deliveries()[0].status == "delivered"
    assert bench.events() == ["WEBHOOK_DELIVERED"]


def test_a_process_with_an_expired_claim_does_not_overwrite_the_outcome() -> None:
    async def run() -> None:
        receiver = SlowFirstReceiver()
        bench = DelivererBench(receiver, patience=0.01)
        bench.announce()
        while not receiver.received:
            await bench.deliverer.sweep(bench.clock.now())
        bench.clock.advance(61)
        other = Deliverer(bench.ledger, bench.clock, SETTINGS, post=Receiver([DOWN]), patience=LONG_PATIENCE)
        await other.sweep(bench.clock.now())
        receiver.proceed.set()
        await bench.deliverer.close()
        (delivery,) = bench.deliveries()
        assert (delivery.status, delivery.attempts, delivery.response_status) == ("pending", 1, 503)

    asyncio.run(run())


def test_outcomes_are_stored_for_deleted_runs() -> None:
    bench = DelivererBench(Receiver())
    bench.announce()
    bench.ledger.write([Forget("run_1")])
    assert bench.sweep() is None
    assert bench.deliveries()[0].status == "delivered"


def test_the_event_of_a_delivery_does_not_change_an_ended_run() -> None:
    bench = DelivererBench(Receiver())
    bench.ledger.write([Update(Run, "run_1", {"status": RunStatus.COMPLETED, "output": {"x": 1}})])
    bench.announce()
    bench.sweep()
    run = bench.ledger.get(Run, "run_1")
    assert run is not None
    assert (run.status, run.output, run.last_event) == (RunStatus.COMPLETED, {"x": 1}, 1)

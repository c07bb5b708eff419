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
PATIENCE = 600.0
"""A sweep ends when everything is sent, however slow the machine."""


@dataclass
class Receiver:
    """Answers as a script says, the last answer again and again."""

    answers: list[Answer] = field(default_factory=lambda: [Answer(200)])
    received: list[str] = field(default_factory=list)
    """The ids of the deliveries, in the order in which they came."""
    gate: asyncio.Event | None = None
    """Nobody is answered before it is open."""
    at_once: int = 0
    most_at_once: int = 0

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        self.received.append(headers["statewright-delivery"])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)  # others may come in between
        if self.gate is not None:
            await self.gate.wait()
        self.at_once -= 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class House:
    """A ledger with a run and webhooks, and a deliverer."""

    def __init__(
        self,
        receiver: Receiver,
        settings: WebhookSettings = SETTINGS,
        *,
        ledger: InMemoryLedger | None = None,
        patience: float = PATIENCE,
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

    def kept(self) -> Webhook:
        result = self.ledger.get(Webhook, "whk_1")
        assert result is not None
        return result

    def sweep(self) -> float | None:
        """Seconds until the deliverer wants to be called again."""
        due = asyncio.run(self.deliverer.sweep(self.clock.now()))
        return None if due is None else (due - self.clock.now()).total_seconds()

    def events(self) -> list[str]:
        return [event.type for event in self.ledger.events("run_1")]


def test_without_deliveries_nothing_is_to_be_done() -> None:
    assert House(Receiver()).sweep() is None


def test_due_messages_are_sent_once() -> None:
    receiver = Receiver()
    house = House(receiver)
    house.announce(20)
    assert house.sweep() is None
    assert house.sweep() is None
    assert sorted(receiver.received) == [delivery.id for delivery in house.deliveries()]
    (one, *_) = house.deliveries()
    assert (one.status, one.attempts, one.response_status, one.error) == ("delivered", 1, 200, None)
    assert (one.claim, one.due_at, one.delivered_at) == (None, None, house.clock.now())
    assert house.events() == ["WEBHOOK_DELIVERED"] * 20


def test_a_message_is_tried_again_as_documented_until_it_arrives() -> None:
    receiver = Receiver([DOWN] * 5 + [Answer(204)])
    house = House(receiver)
    house.announce()
    for tries, pause in enumerate(PAUSES, 1):
        seconds = house.sweep()
        assert seconds is not None
        assert pause <= seconds <= pause * 1.1
        assert house.sweep() == seconds  # and nothing is sent before its time
        assert len(receiver.received) == tries
        house.clock.advance(seconds)
    assert house.sweep() is None
    assert set(receiver.received) == {house.deliveries()[0].id}
    assert (house.deliveries()[0].status, house.deliveries()[0].attempts) == ("delivered", 6)
    assert house.events() == ["WEBHOOK_DELIVERED"]
    assert house.kept().failures == 0


def exhaust(house: House) -> None:
    while (seconds := house.sweep()) is not None:
        house.clock.advance(seconds)


def test_after_the_last_try_a_message_has_failed() -> None:
    receiver = Receiver([DOWN])
    house = House(receiver)
    house.announce()
    exhaust(house)
    assert len(receiver.received) == 6
    (one,) = house.deliveries()
    assert (one.status, one.attempts, one.response_status, one.error) == ("failed", 6, 503, DOWN.error)
    assert house.events() == ["WEBHOOK_FAILED"]
    assert house.kept().failures == 1
    assert house.kept().active


def test_failures_in_a_row_switch_a_webhook_off() -> None:
    receiver = Receiver([DOWN])
    house = House(receiver)
    for _ in range(2):
        house.announce()
        exhaust(house)
    receiver.answers = [Answer(200)]
    house.announce()
    house.sweep()
    assert house.kept().failures == 0  # the row is broken
    receiver.answers = [DOWN]
    for _ in range(3):
        assert house.kept().active
        house.announce()
        exhaust(house)
    assert not house.kept().active
    assert house.kept().disabled_reason == "3 messages in a row have failed permanently."
    house.announce()
    assert len(house.deliveries()) == 6  # nobody is told any more


def test_a_410_disables_a_webhook_and_drops_its_messages() -> None:
    receiver = Receiver([DOWN, Answer(410, "The receiver answered 410.")])
    house = House(receiver)
    house.announce()
    house.sweep()
    house.announce()
    house.sweep()
    assert not house.kept().active
    assert house.kept().disabled_reason == "The receiver answered 410: it is gone."
    exhaust(house)
    assert len(receiver.received) == 2
    errors = {delivery.error for delivery in house.deliveries()}
    assert errors == {"The webhook is not active.", "The receiver answered 410."}
    assert {delivery.status for delivery in house.deliveries()} == {"failed"}


def test_a_webhook_that_was_removed_gets_nothing() -> None:
    receiver = Receiver()
    house = House(receiver)
    house.announce()
    house.ledger.write([Delete(Webhook, where(id="whk_1"))])
    assert house.sweep() is None
    assert receiver.received == []
    assert house.deliveries()[0].error == "The webhook was removed."


def test_messages_are_sent_concurrently_within_limits() -> None:
    receiver = Receiver()
    house = House(receiver, WebhookSettings(at_once=5, at_once_per_webhook=3))
    house.announce(12)
    house.sweep()
    assert receiver.most_at_once == 3
    house.ledger.write([Insert(house.webhook("whk_2")), Insert(house.webhook("whk_3"))])
    house.announce(12)
    house.sweep()
    assert receiver.most_at_once == 5
    assert len(receiver.received) == 12 + 36


class SlowForOne(Receiver):
    """Takes its time for the first that comes."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if not self.received:
            self.received.append(headers["statewright-delivery"])
            await self.open.wait()
            return Answer(200)
        return await super().__call__(url, body, headers)


def test_a_slow_receiver_delays_no_other() -> None:
    async def run() -> None:
        receiver = SlowForOne()
        house = House(receiver, patience=0.01)
        house.announce()
        again = await house.deliverer.sweep(house.clock.now())
        assert again == house.clock.now() + timedelta(seconds=0.01)  # it looks again, though nothing else is due
        house.ledger.write([Insert(house.webhook("whk_2"))])
        house.ledger.write([Update(Webhook, "whk_1", {"active": False})])
        house.announce(3)
        while Counter(delivery.status for delivery in house.deliveries()) != {"pending": 1, "delivered": 3}:
            await house.deliverer.sweep(house.clock.now())
        receiver.open.set()
        await house.deliverer.close()
        assert Counter(delivery.status for delivery in house.deliveries()) == {"delivered": 4}

    asyncio.run(run())


def test_a_sweep_does_not_resend_messages_in_flight() -> None:
    async def run() -> None:
        receiver = Receiver(gate=(gate := asyncio.Event()))
        house = House(receiver, WebhookSettings(at_once_per_webhook=2), patience=0.01)
        house.announce(4)
        while receiver.at_once < 2:
            await house.deliverer.sweep(house.clock.now())
        await house.deliverer.sweep(house.clock.now())
        gate.set()
        while await house.deliverer.sweep(house.clock.now()) is not None:
            pass
        assert (len(receiver.received), receiver.most_at_once) == (4, 2)

    asyncio.run(run())


def test_closing_finishes_requests_in_flight_and_starts_none() -> None:
    async def run() -> None:
        receiver = Receiver(gate=(gate := asyncio.Event()))
        house = House(receiver, WebhookSettings(at_once_per_webhook=2))
        house.announce(10)
        sweep = asyncio.create_task(house.deliverer.sweep(house.clock.now()))
        while receiver.at_once < 2:
            await asyncio.sleep(0)
        sweep.cancel()
        closing = asyncio.create_task(house.deliverer.close())
        await asyncio.sleep(0)
        gate.set()
        await closing
        assert len(receiver.received) == 2
        assert Counter(delivery.status for delivery in house.deliveries()) == {"delivered": 2, "pending": 8}
        assert [delivery.claim for delivery in house.deliveries()] == [None] * 10
        await house.deliverer.sweep(house.clock.now())  # and it can begin again
        assert len(receiver.received) == 10

    asyncio.run(run())


def test_two_processes_send_each_message_once() -> None:
    async def run() -> None:
        receiver = Receiver()
        house = House(receiver)
        others = [Deliverer(house.ledger, house.clock, SETTINGS, post=receiver, patience=PATIENCE) for _ in range(4)]
        house.announce(100)
        await asyncio.gather(*(item.sweep(house.clock.now()) for item in [house.deliverer, *others]))
        assert len(receiver.received) == len(set(receiver.received)) == 100
        assert {delivery.status for delivery in house.deliveries()} == {"delivered"}

    asyncio.run(run())


class FullOnce(InMemoryLedger):
    """Cannot keep the first outcome that it is given."""

    refused = False

    def write(self, changes: Sequence[Change]) -> None:
        if not self.refused and any("attempts" in change.values for change in changes if isinstance(change, Update)):
            self.refused = True
            raise StorageUnavailable("The disk is gone for a moment.")
        super().write(changes)


def test_a_crash_between_sending_and_writing_sends_again() -> None:
    receiver = Receiver()
    house = House(receiver, ledger=FullOnce())
    house.announce()
    with pytest.raises(StorageUnavailable):
        house.sweep()
    (one,) = house.deliveries()
    assert (one.status, one.attempts, len(receiver.received)) == ("pending", 0, 1)
    seconds = house.sweep()
    assert seconds == 20
    assert len(receiver.received) == 1  # it may still be on its way
    house.clock.advance(seconds)
    assert house.sweep() is None
    assert receiver.received == [one.id, one.id]
    assert house.deliveries()[0].status == "delivered"
    assert house.events() == ["WEBHOOK_DELIVERED"]


def test_an_expired_claim_does_not_overwrite_the_outcome_of_another() -> None:
    """A process that was asleep for long must not write over what another one has found."""

    async def run() -> None:
        receiver = SlowForOne()
        house = House(receiver, patience=0.01)
        house.announce()
        while not receiver.received:
            await house.deliverer.sweep(house.clock.now())
        house.clock.advance(61)
        other = Deliverer(house.ledger, house.clock, SETTINGS, post=Receiver([DOWN]), patience=PATIENCE)
        await other.sweep(house.clock.now())
        receiver.open.set()
        await house.deliverer.close()
        (one,) = house.deliveries()
        assert (one.status, one.attempts, one.response_status) == ("pending", 1, 503)

    asyncio.run(run())


def test_outcomes_are_stored_for_deleted_runs() -> None:
    house = House(Receiver())
    house.announce()
    house.ledger.write([Forget("run_1")])
    assert house.sweep() is None
    assert house.deliveries()[0].status == "delivered"


def test_the_event_of_an_ended_run_changes_nothing_else() -> None:
    house = House(Receiver())
    house.ledger.write([Update(Run, "run_1", {"status": RunStatus.COMPLETED, "output": {"x": 1}})])
    house.announce()
    house.sweep()
    run = house.ledger.get(Run, "run_1")
    assert run is not None
    assert (run.status, run.output, run.last_event) == (RunStatus.COMPLETED, {"x": 1}, 1)

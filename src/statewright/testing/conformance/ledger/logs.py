"""Tests of the events of runs, of deliveries to webhooks, and of the deletion of runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from statewright.errors import RecordConflict
from statewright.futures import resolve
from statewright.runs import (
    Advance,
    Announce,
    Approval,
    Delivery,
    Forget,
    Insert,
    Ledger,
    ModelCall,
    NewEvent,
    Order,
    Run,
    RunEvent,
    RunLabel,
    RunStatus,
    Signal,
    StepLog,
    StepRun,
    Update,
    Wait,
    Webhook,
    where,
)
from statewright.testing.conformance.assertions import raises
from statewright.testing.conformance.ledger.samples import (
    NESTED,
    NOW,
    SOON,
    LedgerSuite,
    full_record,
    get_record,
    ids,
    run,
    write,
)


class LogTests(LedgerSuite):
    """The events of a run are numbered without gaps, and webhooks that subscribe to an event get a delivery."""

    def write_events(self, ledger: Ledger, sizes: Sequence[int]) -> list[RunEvent]:
        """Advance `r1` once for each size, with that number of events, and return the events."""
        numbers, written = itertools.count(1), list[RunEvent]()
        for index, size in enumerate(sizes):
            events = [NewEvent("A", {"n": next(numbers)}, f"step {index}" if index % 2 else None) for _ in range(size)]
            change = Advance("r1", NOW + timedelta(seconds=index), {}, events)
            write(ledger, change)
            written += change.written_events
        return written

    def test_events_are_numbered_without_gaps(self) -> None:
        ledger = self.ledger_of(run("r1"), run("r2"))
        written = self.write_events(ledger, [1, 0, 3, 2])
        assert [event.seq for event in written] == [1, 2, 3, 4, 5, 6]
        assert written[1] == RunEvent("r1", 2, "A", {"n": 2}, None, NOW + timedelta(seconds=2))
        assert written[4] == RunEvent("r1", 5, "A", {"n": 5}, "step 3", NOW + timedelta(seconds=3))
        assert list(resolve(ledger.events("r1"))) == written
        assert list(resolve(ledger.events("r2"))) == list(resolve(ledger.events("r9"))) == []
        assert get_record(ledger, Run, "r1").last_event == 6

    def test_events_are_read_in_pages(self) -> None:
        ledger = self.ledger_of(run("r1"))
        written = self.write_events(ledger, [1, 3, 2])
        for after in range(8):
            assert list(resolve(ledger.events("r1", after=after))) == written[after:]
            for limit in range(4):
                assert list(resolve(ledger.events("r1", after=after, limit=limit))) == written[after : after + limit]
        assert list(resolve(ledger.events("r1", limit=-1))) == []
        assert list(resolve(ledger.events("r1", after=-3, limit=2))) == written[:2]

    def test_events_are_read_as_they_were_written(self) -> None:
        ledger = self.ledger_of(run("r1"))
        write(ledger, Advance("r1", NOW, {}, [NewEvent("A", NESTED, "s"), NewEvent("B", {})]))
        assert [(event.type, event.payload) for event in resolve(ledger.events("r1"))] == [("A", NESTED), ("B", {})]

    def test_an_advance_changes_the_run(self) -> None:
        ledger = self.ledger_of(run("r1", claim="mine"))
        values = {"status": RunStatus.RUNNING, "current_step": "a", "due_at": SOON, "metadata": {"k": [1]}}
        write(ledger, Advance("r1", SOON, values, [NewEvent("A", {})] * 2, where(claim="mine")))
        expected = replace(run("r1", claim="mine"), **values, updated_at=SOON, last_event=2, version=2)
        assert get_record(ledger, Run, "r1") == expected

    def test_a_worker_that_lost_its_claim_adds_no_events(self) -> None:
        ledger = self.ledger_of(run("r1", claim="mine"))
        change = Advance("r1", SOON, {"graph": "x"}, [NewEvent("A", {})], where(claim="other"))
        error = raises(RecordConflict, lambda: write(ledger, change))
        assert (error.table, error.id) == (Run.TABLE, "r1")
        assert list(resolve(ledger.events("r1"))) == []
        assert get_record(ledger, Run, "r1") == run("r1", claim="mine")

    def test_one_transaction_may_advance_several_times(self) -> None:
        ledger = self.ledger_of(run("r1"), run("r2"))
        changes = [Advance(run_id, NOW, {}, [NewEvent("A", {})] * 2) for run_id in ("r1", "r2", "r1")]
        write(ledger, *changes)
        assert [[event.seq for event in change.written_events] for change in changes] == [[1, 2], [1, 2], [3, 4]]
        assert list(resolve(ledger.events("r1"))) == changes[0].written_events + changes[2].written_events

    def test_subscribed_webhooks_get_a_delivery(self) -> None:
        def hook(webhook_id: str, workspace: str = "w1", **values: Any) -> Webhook:
            return Webhook(id=webhook_id, workspace_id=workspace, url="u", created_at=NOW, **values)

        ledger = self.ledger_of(
            hook("all"),
            hook("some", events=["other", "run.ended"]),
            hook("else", events=["other", "run"]),
            hook("off", active=False),
            hook("away", "w2"),
        )
        write(ledger, Announce("w1", "run.ended", {"n": [1]}, SOON, "r1"), Announce("w3", "run.ended", {}, SOON))
        deliveries = resolve(ledger.find(Delivery, order=Order("webhook_id")))
        assert [delivery.webhook_id for delivery in deliveries] == ["all", "some"]
        assert len({delivery.id for delivery in deliveries}) == 2
        for delivery in deliveries:
            expected = replace(delivery, workspace_id="w1", run_id="r1", event_type="run.ended", status="pending")
            assert delivery == replace(expected, attempts=0, due_at=SOON, created_at=SOON)
            created = "2026-01-01T13:30:15.123456Z"
            assert delivery.body == {"type": "run.ended", "createdAt": created, "data": {"n": [1]}}

    def test_a_webhook_receives_events_from_its_own_transaction_on(self) -> None:
        ledger = self.make_ledger()
        hook = Webhook(id="h", workspace_id="w1", url="u", created_at=NOW)
        announced = Announce("w1", "a", {}, NOW)
        write(ledger, announced, Insert(hook), announced, Update(Webhook, "h", {"active": False}), announced)
        assert resolve(ledger.count(Delivery)) == 1

    def test_a_run_is_deleted_with_its_records(self) -> None:
        ledger = self.ledger_of(run("r1"), run("r2"))
        record_types = (RunLabel, StepRun, ModelCall, StepLog, Wait, Signal, Approval, Delivery)
        for record_type in record_types:
            write(
                ledger,
                *(Insert(replace(full_record(record_type, f"of {run_id}"), run_id=run_id)) for run_id in ("r1", "r2")),
            )
        write(ledger, *(Advance(run_id, NOW, {}, [NewEvent("A", {})]) for run_id in ("r1", "r2")))
        write(ledger, Forget("r1"), Forget("unknown"))
        assert ids(ledger, Run) == ["r2"]
        assert [ids(ledger, record_type) for record_type in record_types] == [*([["of r2"]] * 7), ["of r1", "of r2"]]
        assert [len(resolve(ledger.events(run_id))) for run_id in ("r1", "r2")] == [0, 1]
        write(ledger, Insert(run("r1")), Advance("r1", NOW, {}, [NewEvent("B", {})]))
        assert [(event.seq, event.type) for event in resolve(ledger.events("r1"))] == [(1, "B")]

    def test_a_run_may_be_deleted_and_recreated_in_one_transaction(self) -> None:
        ledger = self.ledger_of(run("r1"))
        advances = [Advance("r1", NOW, {}, [NewEvent(event_type, {})]) for event_type in "ABC"]
        write(ledger, *advances[:2], Forget("r1"), Insert(run("r1")), advances[2])
        assert [(event.seq, event.type) for event in resolve(ledger.events("r1"))] == [(1, "C")]

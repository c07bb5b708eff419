"""Tests of claims, which assign due runs to workers within the limits on concurrent runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from statewright.futures import resolve
from statewright.runs import ENDED, Advance, Insert, Ledger, Run, RunStatus, Update, Workspace, where
from statewright.testing.conformance.assertions import run_concurrently
from statewright.testing.conformance.ledger.samples import NESTED, NOW, LedgerSuite, run, write


class ClaimTests(LedgerSuite):
    """A due run is claimed by one worker, once limits allow it and earlier runs of its thread and queue have ended."""

    def claim_ids(self, ledger: Ledger, limit: int = 10) -> list[str]:
        return [record.id for record in resolve(ledger.claim("worker", NOW, limit))]

    def due_run(self, run_id: str, **values: Any) -> Run:
        return run(run_id, **{"due_at": NOW, **values})

    def test_due_runs_are_claimed_in_the_order_of_their_due_times(self) -> None:
        ledger = self.ledger_of(
            self.due_run("r1"),
            self.due_run("r2", due_at=NOW - timedelta(seconds=2)),
            self.due_run("r3", due_at=NOW - timedelta(seconds=1)),
            self.due_run("r4", due_at=NOW + timedelta(microseconds=1)),
            self.due_run("r5", due_at=None),
            self.due_run("r6", claim="another worker"),
        )
        assert self.claim_ids(ledger, 2) == ["r2", "r3"]
        assert self.claim_ids(ledger) == ["r1"]
        assert self.claim_ids(ledger) == []

    def test_a_claimed_run_names_its_worker(self) -> None:
        before = self.due_run("r1", status=RunStatus.WAITING, version=3, metadata=NESTED)
        ledger = self.ledger_of(before, self.due_run("r2"))
        first, second = resolve(ledger.claim("worker", NOW, 2))
        assert [first, second] == list(resolve(ledger.find(Run)))
        assert replace(first, claim=None) == replace(before, worker_id="worker", due_at=None, version=4)
        assert None not in (first.claim, second.claim)
        assert first.claim != second.claim
        write(ledger, Advance("r1", NOW, {"claim": None, "due_at": NOW}, (), where(claim=first.claim)))
        (again,) = resolve(ledger.claim("other", NOW, 1))
        assert (again.id, again.worker_id, again.claim == first.claim) == ("r1", "other", False)

    def test_no_more_runs_are_claimed_than_the_limit(self) -> None:
        ledger = self.ledger_of(*(self.due_run(f"r{n}") for n in range(5)))
        assert [len(self.claim_ids(ledger, limit)) for limit in (0, 2, 1, 9)] == [0, 2, 1, 2]

    def test_runs_of_a_thread_are_claimed_one_after_another(self) -> None:
        ledger = self.ledger_of(
            *(self.due_run(f"r{n}", thread_id="t") for n in (1, 2, 3)),
            self.due_run("r0", thread_id="t", status=RunStatus.COMPLETED, due_at=None),
            self.due_run("r4"),
            self.due_run("r5", thread_id="t", workspace_id="w2"),
        )
        assert self.claim_ids(ledger) == ["r1", "r4", "r5"]
        self._check_that_r2_follows_r1(ledger)

    def test_runs_of_a_queue_are_claimed_one_after_another(self) -> None:
        ledger = self.ledger_of(
            *(self.due_run(f"r{n}", queue="q") for n in (1, 2, 3)),
            self.due_run("r0", queue="q", status=RunStatus.COMPLETED, due_at=None),
            self.due_run("r4", queue="q", workspace_id="w2"),
            self.due_run("r5", queue="other"),
            self.due_run("r6"),
            self.due_run("r7"),
        )
        assert self.claim_ids(ledger) == ["r1", "r4", "r5", "r6", "r7"]
        self._check_that_r2_follows_r1(ledger)

    def test_runs_of_a_thread_or_queue_start_in_the_order_in_which_they_were_written(self) -> None:
        for group in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(self.due_run("r2", **group))
            write(ledger, Insert(self.due_run("r1", **group)))
            write(ledger, Insert(self.due_run("r3", **group)), Update(Run, "r2", {"graph": "other"}))
            for run_id in ("r2", "r1", "r3"):
                assert self.claim_ids(ledger) == [run_id]
                write(ledger, Update(Run, run_id, {"status": RunStatus.COMPLETED, "claim": None}))

    def test_a_started_run_comes_before_a_pending_one(self) -> None:
        for group in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(self.due_run("r1", **group), self.due_run("r2", **group))
            for status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED):
                write(ledger, Update(Run, "r2", {"status": status, "claim": None, "due_at": None}))
                assert self.claim_ids(ledger) == []
                write(ledger, Update(Run, "r2", {"due_at": NOW}))
                assert self.claim_ids(ledger) == ["r2"]
                assert self.claim_ids(ledger) == []

    def test_a_claimed_run_blocks_its_thread_and_queue(self) -> None:
        for group in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(
                self.due_run("r1", status=RunStatus.WAITING, **group), self.due_run("r2", claim="c", **group)
            )
            assert self.claim_ids(ledger) == []
            write(ledger, Update(Run, "r2", {"claim": None}))
            assert self.claim_ids(ledger) == ["r1"]

    def test_one_of_several_started_runs_is_claimed(self) -> None:
        for group in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(*(self.due_run(f"r{n}", status=RunStatus.WAITING, **group) for n in (2, 1, 3)))
            assert self.claim_ids(ledger) == ["r2"]
            assert self.claim_ids(ledger) == []
            write(ledger, Update(Run, "r2", {"status": RunStatus.COMPLETED, "claim": None}))
            assert self.claim_ids(ledger) == ["r1"]

    def _check_that_r2_follows_r1(self, ledger: Ledger) -> None:
        """Check that r2 can be claimed only once r1 has ended. At the call, r1 is claimed."""
        for status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED, RunStatus.PENDING):
            write(ledger, Update(Run, "r1", {"status": status, "claim": None}))
            assert self.claim_ids(ledger) == []
        for status in ENDED:
            write(ledger, Update(Run, "r1", {"status": status}))
            assert self.claim_ids(ledger) == ["r2"]
            write(ledger, Update(Run, "r2", {"claim": None, "due_at": NOW}))

    def test_claims_respect_the_concurrency_limit_of_a_key(self) -> None:
        key = {"concurrency_key": "k", "concurrency_limit": 2}
        ledger = self.ledger_of(
            *(self.due_run(f"r{n}", **key) for n in range(4)),
            self.due_run("r4", **{**key, "concurrency_key": "other"}),
            self.due_run("r5", workspace_id="w2", **key),
            self.due_run("r6", concurrency_key="k"),
            self.due_run("r7", concurrency_limit=1),
            self.due_run("r8", concurrency_key="k8"),
            self.due_run("r9", concurrency_key="k8", concurrency_limit=1),
        )
        assert self.claim_ids(ledger) == ["r0", "r1", "r4", "r5", "r6", "r7", "r8"]
        write(ledger, Update(Run, "r6", {"claim": None}))
        assert self.claim_ids(ledger) == []
        write(ledger, Update(Run, "r0", {"claim": None}), Update(Run, "r2", {"concurrency_limit": 1}))
        assert self.claim_ids(ledger) == ["r3"]

    def test_claims_respect_the_running_limit_of_a_workspace(self) -> None:
        ledger = self.ledger_of(
            Workspace(id="w1", slug="w1", max_running=2, created_at=NOW),
            Workspace(id="w2", slug="w2", created_at=NOW),
            *(self.due_run(f"r{n}", claim="c" if n == 0 else None) for n in range(4)),
            *(self.due_run(f"r{n}", workspace_id="w2") for n in range(4, 7)),
            self.due_run("r7", workspace_id="nowhere"),
        )
        assert self.claim_ids(ledger) == ["r1", "r4", "r5", "r6", "r7"]
        write(ledger, Update(Run, "r0", {"claim": None, "due_at": None}))
        assert self.claim_ids(ledger) == ["r2"]
        write(ledger, Update(Workspace, "w1", {"max_running": None}))
        assert self.claim_ids(ledger) == ["r3"]

    def test_blocked_runs_do_not_delay_others(self) -> None:
        earlier = NOW - timedelta(days=1)
        ledger = self.ledger_of(
            Workspace(id="full", slug="full", max_running=0, created_at=NOW),
            self.due_run("r000", thread_id="t", due_at=None),
            *(self.due_run(f"r{n}", workspace_id="full", due_at=earlier) for n in range(100, 140)),
            *(self.due_run(f"r{n}", thread_id="t", due_at=earlier) for n in range(200, 240)),
            *(self.due_run(f"r{n}", concurrency_key="k", concurrency_limit=0, due_at=earlier) for n in range(300, 340)),
            self.due_run("r400"),
        )
        assert self.claim_ids(ledger, 1) == ["r400"]

    def test_a_run_is_claimed_by_one_worker(self) -> None:
        ledger = self.ledger_of(*(self.due_run(f"r{n}") for n in range(40)))
        runs: list[Run] = []

        def work(number: int) -> None:
            while batch := resolve(ledger.claim(str(number), NOW, 3)):
                runs.extend(batch)

        assert run_concurrently(4, work) == []
        assert sorted(record.id for record in runs) == sorted(f"r{n}" for n in range(40))
        assert sorted(resolve(ledger.find(Run)), key=lambda run: run.id) == sorted(runs, key=lambda run: run.id)

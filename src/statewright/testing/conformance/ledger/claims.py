"""Tests of claims: due runs are assigned to workers within the limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from statewright.futures import resolve
from statewright.runs import ENDED, Advance, Insert, Ledger, Run, RunStatus, Update, Workspace, where
from statewright.testing.conformance.assertions import run_concurrently
from statewright.testing.conformance.ledger.samples import NESTED, NOW, LedgerSuite, run, write


class ClaimTests(LedgerSuite):
    """A due run is claimed once, when the runs before it and the limits permit it."""

    def claimed(self, ledger: Ledger, limit: int = 10) -> list[str]:
        return [record.id for record in resolve(ledger.claim("worker", NOW, limit))]

    def due(self, run_id: str, **values: Any) -> Run:
        return run(run_id, **{"due_at": NOW, **values})

    def test_what_is_due_is_taken_the_longest_due_first(self) -> None:
        ledger = self.ledger_of(
            self.due("r1"),
            self.due("r2", due_at=NOW - timedelta(seconds=2)),
            self.due("r3", due_at=NOW - timedelta(seconds=1)),
            self.due("r4", due_at=NOW + timedelta(microseconds=1)),
            self.due("r5", due_at=None),
            self.due("r6", claim="somebody's"),
        )
        assert self.claimed(ledger, 2) == ["r2", "r3"]
        assert self.claimed(ledger) == ["r1"]
        assert self.claimed(ledger) == []

    def test_what_is_taken_says_so(self) -> None:
        before = self.due("r1", status=RunStatus.WAITING, version=3, metadata=NESTED)
        ledger = self.ledger_of(before, self.due("r2"))
        taken = list(resolve(ledger.claim("worker", NOW, 2)))
        assert taken == list(resolve(ledger.find(Run)))
        assert replace(taken[0], claim=None) == replace(before, worker_id="worker", due_at=None, version=4)
        assert None not in {record.claim for record in taken}
        assert len({record.claim for record in taken}) == 2
        write(ledger, Advance("r1", NOW, {"claim": None, "due_at": NOW}, (), where(claim=taken[0].claim)))
        (again,) = resolve(ledger.claim("other", NOW, 1))
        assert (again.id, again.worker_id, again.claim == taken[0].claim) == ("r1", "other", False)

    def test_no_more_is_taken_than_asked_for(self) -> None:
        ledger = self.ledger_of(*(self.due(f"r{n}") for n in range(5)))
        assert [len(self.claimed(ledger, limit)) for limit in (0, 2, 1, 9)] == [0, 2, 1, 2]

    def test_runs_of_a_thread_follow_each_other(self) -> None:
        ledger = self.ledger_of(
            *(self.due(f"r{n}", thread_id="t") for n in (1, 2, 3)),
            self.due("r0", thread_id="t", status=RunStatus.COMPLETED, due_at=None),
            self.due("r4"),
            self.due("r5", thread_id="t", workspace_id="w2"),
        )
        assert self.claimed(ledger) == ["r1", "r4", "r5"]
        self._check_that_r2_follows_r1(ledger)

    def test_runs_of_a_queue_follow_each_other(self) -> None:
        ledger = self.ledger_of(
            *(self.due(f"r{n}", queue="q") for n in (1, 2, 3)),
            self.due("r0", queue="q", status=RunStatus.COMPLETED, due_at=None),
            self.due("r4", queue="q", workspace_id="w2"),
            self.due("r5", queue="other"),
            self.due("r6"),
            self.due("r7"),
        )
        assert self.claimed(ledger) == ["r1", "r4", "r5", "r6", "r7"]
        self._check_that_r2_follows_r1(ledger)

    def test_runs_begin_in_the_order_in_which_they_were_written(self) -> None:
        for line in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(self.due("r2", **line))
            write(ledger, Insert(self.due("r1", **line)))
            write(ledger, Insert(self.due("r3", **line)), Update(Run, "r2", {"graph": "other"}))
            for run_id in ("r2", "r1", "r3"):
                assert self.claimed(ledger) == [run_id]
                write(ledger, Update(Run, run_id, {"status": RunStatus.COMPLETED, "claim": None}))

    def test_who_has_begun_goes_on_before_who_has_not(self) -> None:
        for line in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(self.due("r1", **line), self.due("r2", **line))
            for status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED):
                begun = {"status": status, "claim": None, "due_at": None}
                write(ledger, Update(Run, "r2", begun))
                assert self.claimed(ledger) == []
                write(ledger, Update(Run, "r2", {"due_at": NOW}))
                assert self.claimed(ledger) == ["r2"]
                assert self.claimed(ledger) == []

    def test_who_is_at_work_keeps_off_whoever_was_written_or_has_begun_before(self) -> None:
        for line in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(self.due("r1", status=RunStatus.WAITING, **line), self.due("r2", claim="c", **line))
            assert self.claimed(ledger) == []
            write(ledger, Update(Run, "r2", {"claim": None}))
            assert self.claimed(ledger) == ["r1"]

    def test_of_several_that_have_begun_one_goes_on(self) -> None:
        for line in ({"thread_id": "t"}, {"queue": "q"}):
            ledger = self.ledger_of(*(self.due(f"r{n}", status=RunStatus.WAITING, **line) for n in (2, 1, 3)))
            assert self.claimed(ledger) == ["r2"]
            assert self.claimed(ledger) == []
            write(ledger, Update(Run, "r2", {"status": RunStatus.COMPLETED, "claim": None}))
            assert self.claimed(ledger) == ["r1"]

    def _check_that_r2_follows_r1(self, ledger: Ledger) -> None:
        """Runs in a row, of which the first is at work: nothing but its end lets the second one begin."""
        for status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED, RunStatus.PENDING):
            write(ledger, Update(Run, "r1", {"status": status, "claim": None}))
            assert self.claimed(ledger) == []
        for status in ENDED:
            write(ledger, Update(Run, "r1", {"status": status}))
            assert self.claimed(ledger) == ["r2"]
            write(ledger, Update(Run, "r2", {"claim": None, "due_at": NOW}))

    def test_so_many_runs_with_a_key_are_at_work(self) -> None:
        key = {"concurrency_key": "k", "concurrency_limit": 2}
        ledger = self.ledger_of(
            *(self.due(f"r{n}", **key) for n in range(4)),
            self.due("r4", **{**key, "concurrency_key": "other"}),
            self.due("r5", workspace_id="w2", **key),
            self.due("r6", concurrency_key="k"),
            self.due("r7", concurrency_limit=1),
            self.due("r8", concurrency_key="k8"),
            self.due("r9", concurrency_key="k8", concurrency_limit=1),
        )
        assert self.claimed(ledger) == ["r0", "r1", "r4", "r5", "r6", "r7", "r8"]
        write(ledger, Update(Run, "r6", {"claim": None}))
        assert self.claimed(ledger) == []
        write(ledger, Update(Run, "r0", {"claim": None}), Update(Run, "r2", {"concurrency_limit": 1}))
        assert self.claimed(ledger) == ["r3"]

    def test_so_many_runs_of_a_workspace_are_at_work(self) -> None:
        ledger = self.ledger_of(
            Workspace(id="w1", slug="w1", max_running=2, created_at=NOW),
            Workspace(id="w2", slug="w2", created_at=NOW),
            *(self.due(f"r{n}", claim="c" if n == 0 else None) for n in range(4)),
            *(self.due(f"r{n}", workspace_id="w2") for n in range(4, 7)),
            self.due("r7", workspace_id="nowhere"),
        )
        assert self.claimed(ledger) == ["r1", "r4", "r5", "r6", "r7"]
        write(ledger, Update(Run, "r0", {"claim": None, "due_at": None}))
        assert self.claimed(ledger) == ["r2"]
        write(ledger, Update(Workspace, "w1", {"max_running": None}))
        assert self.claimed(ledger) == ["r3"]

    def test_runs_without_room_hold_nobody_up(self) -> None:
        earlier = NOW - timedelta(days=1)
        ledger = self.ledger_of(
            Workspace(id="full", slug="full", max_running=0, created_at=NOW),
            self.due("r000", thread_id="t", due_at=None),
            *(self.due(f"r{n}", workspace_id="full", due_at=earlier) for n in range(100, 140)),
            *(self.due(f"r{n}", thread_id="t", due_at=earlier) for n in range(200, 240)),
            *(self.due(f"r{n}", concurrency_key="k", concurrency_limit=0, due_at=earlier) for n in range(300, 340)),
            self.due("r400"),
        )
        assert self.claimed(ledger, 1) == ["r400"]

    def test_no_two_workers_get_the_same_run(self) -> None:
        ledger = self.ledger_of(*(self.due(f"r{n}") for n in range(40)))
        taken: list[Run] = []

        def work(number: int) -> None:
            while batch := resolve(ledger.claim(str(number), NOW, 3)):
                taken.extend(batch)

        assert run_concurrently(4, work) == []
        assert sorted(record.id for record in taken) == sorted(f"r{n}" for n in range(40))
        assert sorted(resolve(ledger.find(Run)), key=lambda run: run.id) == sorted(taken, key=lambda run: run.id)

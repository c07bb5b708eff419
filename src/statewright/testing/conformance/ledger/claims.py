"""Tests of claims, which assign due runs to workers within the limits on concurrent runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from statewright.futures import resolve
from statewright.runs import (
    ENDED,
    Advance,
    Condition,
    Delete,
    ExcludedVersion,
    Insert,
    Ledger,
    NextDue,
    Queue,
    QueueSize,
    Run,
    RunStatus,
    Update,
    UpdateAll,
    Workspace,
    where,
)
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

    def test_runs_of_a_sequence_are_claimed_one_after_another(self) -> None:
        ledger = self.ledger_of(
            *(self.due_run(f"r{n}", sequence="s") for n in (1, 2, 3)),
            self.due_run("r0", sequence="s", status=RunStatus.COMPLETED, due_at=None),
            self.due_run("r4", sequence="s", workspace_id="w2"),
            self.due_run("r5", sequence="other"),
            self.due_run("r6"),
            self.due_run("r7"),
        )
        assert self.claim_ids(ledger) == ["r1", "r4", "r5", "r6", "r7"]
        self._check_that_r2_follows_r1(ledger)

    def test_runs_of_a_thread_or_sequence_start_in_the_order_in_which_they_were_written(self) -> None:
        for group in ({"thread_id": "t"}, {"sequence": "s"}):
            ledger = self.ledger_of(self.due_run("r2", **group))
            write(ledger, Insert(self.due_run("r1", **group)))
            write(ledger, Insert(self.due_run("r3", **group)), Update(Run, "r2", {"graph": "other"}))
            for run_id in ("r2", "r1", "r3"):
                assert self.claim_ids(ledger) == [run_id]
                write(ledger, Update(Run, run_id, {"status": RunStatus.COMPLETED, "claim": None}))

    def test_a_started_run_comes_before_a_pending_one(self) -> None:
        for group in ({"thread_id": "t"}, {"sequence": "s"}):
            ledger = self.ledger_of(self.due_run("r1", **group), self.due_run("r2", **group))
            for status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED):
                write(ledger, Update(Run, "r2", {"status": status, "claim": None, "due_at": None}))
                assert self.claim_ids(ledger) == []
                write(ledger, Update(Run, "r2", {"due_at": NOW}))
                assert self.claim_ids(ledger) == ["r2"]
                assert self.claim_ids(ledger) == []

    def test_a_claimed_run_blocks_its_thread_and_sequence(self) -> None:
        for group in ({"thread_id": "t"}, {"sequence": "s"}):
            ledger = self.ledger_of(
                self.due_run("r1", status=RunStatus.WAITING, **group), self.due_run("r2", claim="c", **group)
            )
            assert self.claim_ids(ledger) == []
            write(ledger, Update(Run, "r2", {"claim": None}))
            assert self.claim_ids(ledger) == ["r1"]

    def test_one_of_several_started_runs_is_claimed(self) -> None:
        for group in ({"thread_id": "t"}, {"sequence": "s"}):
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

    def test_runs_with_a_lower_priority_number_are_claimed_first(self) -> None:
        earlier = NOW - timedelta(hours=1)
        ledger = self.ledger_of(
            self.due_run("r1", priority=2, due_at=earlier),
            self.due_run("r2"),
            self.due_run("r3", priority=-1),
            self.due_run("r4", priority=2),
            self.due_run("r5", queue="other", priority=-1, due_at=earlier),
            self.due_run("r6", due_at=earlier),
        )
        assert self.claim_ids(ledger, 4) == ["r5", "r3", "r6", "r2"]
        assert self.claim_ids(ledger, 4) == ["r1", "r4"]

    def test_a_worker_claims_only_runs_of_its_queues_and_versions(self) -> None:
        ledger = self.ledger_of(
            self.due_run("r1"),
            self.due_run("r2", queue="gpu"),
            self.due_run("r3", queue="gpu", definition_id="d1"),
            self.due_run("r4", definition_id="d2"),
        )
        assert resolve(ledger.claim("w", NOW, 9, queues=["slow"])) == []
        assert resolve(ledger.claim("w", NOW, 9, queues=[])) == []
        queues = ["gpu", "slow"]
        excluded = [ExcludedVersion("d1"), ExcludedVersion("d2", "gpu"), ExcludedVersion("gpu")]
        assert [run.id for run in resolve(ledger.claim("w", NOW, 9, queues=queues, excluded_versions=excluded))] == [
            "r2"
        ]
        assert [run.id for run in resolve(ledger.claim("w", NOW, 9, excluded_versions=excluded))] == ["r1", "r4"]
        excluded = [ExcludedVersion("d1", "gpu")]
        assert resolve(ledger.claim("w", NOW, 9, excluded_versions=excluded)) == []
        assert resolve(ledger.next_due(excluded_versions=excluded)) == NextDue(None, has_blocked=False)
        assert [run.id for run in resolve(ledger.claim("w", NOW, 9))] == ["r3"]

    def test_claims_respect_the_running_limit_of_a_queue(self) -> None:
        ledger = self.ledger_of(
            Queue(id="gpu", max_running=2),
            *(self.due_run(f"r{n}", queue="gpu", workspace_id=f"w{n}") for n in range(4)),
            self.due_run("r4", status=RunStatus.WAITING, begun=True, queue="gpu"),
            self.due_run("r5"),
        )
        assert self.claim_ids(ledger) == ["r0", "r1", "r5"]
        write(ledger, Update(Run, "r0", {"claim": None, "status": RunStatus.COMPLETED}))
        assert self.claim_ids(ledger) == ["r2"]
        write(ledger, Update(Queue, "gpu", {"max_running": 3}))
        assert self.claim_ids(ledger) == ["r3"]
        write(ledger, Delete(Queue, where(id="gpu")))
        assert self.claim_ids(ledger) == ["r4"]

    def test_no_more_runs_of_a_queue_start_than_its_rate_allows(self) -> None:
        ledger = self.ledger_of(
            Queue(id="slow", starts_per_minute=60, tokens=1, filled_at=NOW),
            *(self.due_run(f"r{n}", queue="slow") for n in range(6)),
            self.due_run("s1", queue="slow", status=RunStatus.WAITING, begun=True),
            self.due_run("s2"),
        )
        assert self.claim_ids(ledger) == ["r0", "s1", "s2"]
        for milliseconds, expected in ((999, []), (1000, ["r1"]), (1900, []), (2000, ["r2"]), (9000, ["r3"])):
            at = NOW + timedelta(milliseconds=milliseconds)
            assert [run.id for run in resolve(ledger.claim("w", at, 9))] == expected

    def test_as_many_runs_start_at_once_as_the_rate_allows_in_a_second(self) -> None:
        ledger = self.ledger_of(
            Queue(id="fast", starts_per_minute=180, tokens=0, filled_at=NOW),
            *(self.due_run(f"r{n}", queue="fast") for n in range(9)),
        )
        at = NOW + timedelta(minutes=5)
        assert len(resolve(ledger.claim("w", at, 9))) == 3
        assert len(resolve(ledger.claim("w", at + timedelta(milliseconds=400), 9))) == 1

    def test_a_queue_whose_rate_is_new_starts_one_run_at_first(self) -> None:
        for rate, later in ((600, 5), (1_000_000, 9)):
            ledger = self.ledger_of(
                Queue(id="new", starts_per_minute=rate),
                self.due_run("other"),
                *(self.due_run(f"r{n:02}", queue="new") for n in range(20)),
            )
            assert self.claim_ids(ledger) == ["other", "r00"]
            assert len(resolve(ledger.claim("w", NOW + timedelta(seconds=0.5), 9))) == later

    def test_claims_with_a_time_before_that_of_earlier_ones_start_no_more_runs_than_the_rate_allows(self) -> None:
        ledger = self.ledger_of(
            Queue(id="q", starts_per_minute=60, tokens=1, filled_at=NOW),
            *(self.due_run(f"r{n:02}", queue="q", due_at=NOW - timedelta(days=3)) for n in range(40)),
        )
        starts = [
            len(resolve(ledger.claim("w", NOW + timedelta(seconds=second + offset), 9)))
            for second in range(10)
            for offset in (0, -0.5, -50, 0)
        ]
        assert starts == [1, 0, 0, 0] * 10

    def test_a_clock_that_is_set_back_stops_no_queue(self) -> None:
        ledger = self.ledger_of(
            Queue(id="q", starts_per_minute=60, tokens=0, filled_at=NOW),
            *(self.due_run(f"r{n}", queue="q", due_at=NOW - timedelta(days=3)) for n in range(9)),
        )
        before = NOW - timedelta(days=1)
        starts = [len(resolve(ledger.claim("w", before + timedelta(seconds=seconds), 9))) for seconds in range(3)]
        assert starts == [1, 1, 1]

    def test_a_start_that_did_not_take_place_gives_its_token_back(self) -> None:
        ledger = self.ledger_of(
            Queue(id="slow", starts_per_minute=1, tokens=1, filled_at=NOW), self.due_run("r1", queue="slow")
        )
        assert self.claim_ids(ledger) == ["r1"]
        write(ledger, Update(Run, "r1", {"claim": None, "due_at": NOW}))
        assert self.claim_ids(ledger) == ["r1"]
        write(ledger, Update(Run, "r1", {"begun": True, "status": RunStatus.RUNNING}))
        write(ledger, Update(Run, "r1", {"claim": None, "due_at": NOW}), Insert(self.due_run("r2", queue="slow")))
        assert self.claim_ids(ledger) == ["r1"]

    def test_the_next_due_time_is_that_of_the_runs_that_a_worker_serves(self) -> None:
        later = [NOW + timedelta(seconds=n) for n in range(4)]
        ledger = self.ledger_of(
            self.due_run("r0", due_at=None),
            self.due_run("r1", due_at=later[3]),
            self.due_run("r2", due_at=later[2], priority=5),
            self.due_run("r3", due_at=later[1], queue="gpu", definition_id="d"),
            self.due_run("r4", due_at=later[0], claim="c"),
        )
        assert resolve(ledger.next_due()).at == later[1]
        assert resolve(ledger.next_due(queues=["default"])).at == later[2]
        assert resolve(ledger.next_due(excluded_versions=[ExcludedVersion("d"), ExcludedVersion("e")])).at == later[2]
        assert resolve(ledger.next_due(queues=["none"])) == NextDue(None, has_blocked=False)

    def test_a_run_that_had_to_wait_is_claimed_as_soon_as_it_may(self) -> None:
        """A run waits for another run or for a limit, and whatever can end that is tried."""
        ends: list[Any] = [
            Update(Run, "r1", {"status": RunStatus.CANCELLED, "claim": None, "due_at": None}),
            Advance("r1", NOW, {"status": RunStatus.COMPLETED, "claim": None}, ()),
            Delete(Run, where(id="r1")),
        ]
        groups: list[dict[str, Any]] = [
            {"thread_id": "t"},
            {"sequence": "s"},
            {"concurrency_key": "k", "concurrency_limit": 1},
            {"workspace_id": "w2"},
        ]
        for end in ends:
            for group in groups:
                ledger = self.ledger_of(
                    Workspace(id="w2", slug="w2", max_running=1, created_at=NOW),
                    *(self.due_run(f"r{n}", **group) for n in (1, 2, 3)),
                )
                assert self.claim_ids(ledger) == ["r1"]
                assert self.claim_ids(ledger) == []
                write(ledger, end)
                assert self.claim_ids(ledger) == ["r2"]
                write(ledger, Update(Run, "r2", {"status": RunStatus.FAILED, "claim": None}))
                assert self.claim_ids(ledger) == ["r3"]

    def test_a_run_that_a_limit_permits_again_comes_before_later_ones(self) -> None:
        """Its workspace has a free place, although that was offered to another run, or the limit was raised.

        Each case begins with runs that have claimed all places; `ends` are the changes that free one.
        """
        key: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}
        end = Advance("a0", NOW, {"status": RunStatus.COMPLETED, "claim": None}, ())
        offered: list[tuple[str, dict[str, Any]]] = [
            ("another worker serves its queue", {"queue": "unserved"}),
            ("another worker serves its version", {"definition_id": "unserved"}),
            ("its queue has no token", {"queue": "spent"}),
            ("its queue is full", {"queue": "full"}),
            ("its key is full", key),
            ("it is due later", {"due_at": NOW + timedelta(hours=1)}),
        ]
        cases: list[tuple[str, int, list[Run], list[Any]]] = [
            (name, 2, [self.due_run("a1", priority=-3, **values), self.due_run("a2", priority=-2)], [end])
            for name, values in offered
        ]
        waiting = [self.due_run("a2", priority=-2)]
        cases += [
            ("the limit is raised", 2, waiting, [Update(Workspace, "w1", {"max_running": 3})]),
            ("the limit is removed", 2, waiting, [Update(Workspace, "w1", {"max_running": None})]),
            ("the workspace is removed", 2, waiting, [Delete(Workspace, where(id="w1"))]),
            ("it is new", 2, [self.due_run("a1", queue="unserved")], [end, Insert(waiting[0])]),
            (
                "it has a key and no limit",
                9,
                [self.due_run("a1", **key)],
                [Insert(replace(waiting[0], **key | {"concurrency_limit": None}))],
            ),
            (
                "it has a key and a higher limit",
                9,
                [self.due_run("a1", **key)],
                [Insert(replace(waiting[0], **key | {"concurrency_limit": 2}))],
            ),
        ]
        for name, limit, held, changes in cases:
            ledger = self.ledger_of(
                Workspace(id="w1", slug="w1", max_running=limit, created_at=NOW),
                Queue(id="spent", starts_per_minute=1, tokens=0, filled_at=NOW),
                Queue(id="full", max_running=0),
                *(self.due_run(f"a{n}", claim="c", due_at=None, **values) for n, values in ((0, {}), (9, key))),
            )
            write(ledger, *map(Insert, held))
            assert self.claim_ids(ledger) == []
            write(ledger, *changes, *(Insert(self.due_run(f"b{n}", workspace_id="w2")) for n in range(9)))
            served: Any = {"queues": ["default", "spent", "full"], "excluded_versions": [ExcludedVersion("unserved")]}
            claimed = [record.id for record in resolve(ledger.claim("worker", NOW, 2, **served))]
            assert (name, claimed) == (name, ["a2", "b0"])

    def test_no_limit_is_passed_over_for_ever_while_other_runs_are_due(self) -> None:
        groups: list[list[dict[str, Any]]] = [
            [{"workspace_id": f"full {n}"} for n in range(25)],
            [{"concurrency_key": f"k{n}", "concurrency_limit": 1} for n in range(25)],
        ]
        for group in groups:
            ledger = self.ledger_of(
                *(Workspace(id=f"full {n}", slug=f"{n}", max_running=1, created_at=NOW) for n in range(25)),
                *(self.due_run(f"first {n}", priority=-1, **values) for n, values in enumerate(group)),
                *(
                    self.due_run(f"offered {n}", priority=-1, queue="unserved", **values)
                    for n, values in enumerate(group)
                ),
                *(self.due_run(f"waiting {n}", priority=-1, **values) for n, values in enumerate(group)),
            )
            assert len(resolve(ledger.claim("worker", NOW, 100))) == 25
            write(ledger, UpdateAll(Run, [Condition("claim", "!=", None)], {"status": RunStatus.FAILED, "claim": None}))
            write(ledger, *(Insert(self.due_run(f"other {n:03}", workspace_id="others")) for n in range(100)))
            claimed = [
                record.id for _ in range(30) for record in resolve(ledger.claim("worker", NOW, 2, queues=["default"]))
            ]
            assert sum(run_id.startswith("waiting") for run_id in claimed) == 25

    def test_runs_that_wait_for_others_are_reported(self) -> None:
        ledger = self.ledger_of(*(self.due_run(f"r{n}", thread_id="t") for n in (1, 2)))
        assert self.claim_ids(ledger) == ["r1"]
        assert resolve(ledger.next_due()) == NextDue(None, has_blocked=True)
        write(ledger, Update(Run, "r1", {"status": RunStatus.COMPLETED, "claim": None}))
        assert resolve(ledger.next_due()) == NextDue(NOW, has_blocked=False)

    def test_a_run_that_may_be_next_and_is_cancelled_makes_room_for_another(self) -> None:
        key = {"concurrency_key": "k", "concurrency_limit": 1}
        for group in ({"workspace_id": "w2"}, key):
            ledger = self.ledger_of(
                Workspace(id="w2", slug="w2", max_running=1, created_at=NOW),
                *(self.due_run(f"r{n}", **group) for n in (1, 2, 3)),
            )
            assert self.claim_ids(ledger) == ["r1"]
            assert self.claim_ids(ledger) == []
            write(ledger, Update(Run, "r1", {"status": RunStatus.COMPLETED, "claim": None}))
            write(ledger, Update(Run, "r2", {"status": RunStatus.CANCELLED, "due_at": None}))
            assert self.claim_ids(ledger) == ["r3"]

    def test_a_run_is_claimed_by_one_worker(self) -> None:
        ledger = self.ledger_of(*(self.due_run(f"r{n}") for n in range(40)))
        runs: list[Run] = []

        def work(number: int) -> None:
            while batch := resolve(ledger.claim(str(number), NOW, 3)):
                runs.extend(batch)

        assert run_concurrently(4, work) == []
        assert sorted(record.id for record in runs) == sorted(f"r{n}" for n in range(40))
        assert sorted(resolve(ledger.find(Run)), key=lambda run: run.id) == sorted(runs, key=lambda run: run.id)

    # -- sizes of queues

    def test_the_sizes_of_queues_count_due_and_claimed_runs_and_name_all_queues_of_unfinished_runs(self) -> None:
        later, before = NOW + timedelta(hours=1), NOW - timedelta(hours=1)
        ledger = self.ledger_of(
            self.due_run("r01", queue="due"),
            self.due_run("r02", queue="due", due_at=before, priority=5),
            self.due_run("r03", queue="due", status=RunStatus.WAITING, workspace_id="w2"),
            self.due_run("r04", queue="due", due_at=later),
            self.due_run("r05", queue="due", claim="c", due_at=None),
            self.due_run("r06", queue="claimed", claim="c", due_at=None, status=RunStatus.WAITING),
            self.due_run("r07", queue="paused", due_at=None, status=RunStatus.PAUSED),
            self.due_run("r08", queue="signal", due_at=None, status=RunStatus.WAITING),
            self.due_run("r09", queue="signal", due_at=None, status=RunStatus.WAITING),
            self.due_run("r10", queue="timer", due_at=later, status=RunStatus.WAITING),
            *(self.due_run(f"r{n}", queue="ended", due_at=None, status=status) for n, status in enumerate(ENDED, 11)),
            self.due_run("r14", queue="behind", thread_id="t", due_at=before),
            self.due_run("r15", queue="behind", thread_id="t"),
            self.due_run("r16", queue="behind", thread_id="t", due_at=later),
        )
        sizes = [
            QueueSize("behind", 2, before, 0),
            QueueSize("claimed", 0, None, 1),
            QueueSize("due", 3, before, 1),
            QueueSize("paused", 0, None, 0),
            QueueSize("signal", 0, None, 0),
            QueueSize("timer", 0, None, 0),
        ]
        assert list(resolve(ledger.queue_sizes(NOW))) == sizes
        assert self.claim_ids(ledger, 2) == ["r14", "r01"]  # r15 and r16 have to wait
        sizes[0], sizes[2] = QueueSize("behind", 1, NOW, 1), QueueSize("due", 2, before, 2)
        assert list(resolve(ledger.queue_sizes(NOW))) == sizes
        ended = {"status": RunStatus.COMPLETED, "claim": None, "due_at": None}
        write(ledger, UpdateAll(Run, [], ended))
        assert list(resolve(ledger.queue_sizes(NOW))) == []

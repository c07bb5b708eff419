"""Two processes that write at the same time: here two databases with sessions of their own, in two threads.

Under READ COMMITTED each of two transactions may check, before either writes. A pause after each statement makes that
likely: without the locks, the tests of two starts, of a signal and of an overtaken holder fail in the first rounds.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.postgres_server import empty_database, shared_url

from statewright.checkpoint import BranchKey, LeaseRequest
from statewright.errors import CheckpointConflict, LeaseLost, RecordConflict, ThreadBusy
from statewright.futures import resolve
from statewright.ids import DEFAULT_WORKSPACE, CheckpointId, new_checkpoint_id
from statewright.runs import (
    ENDED,
    Absent,
    Advance,
    Among,
    Change,
    Condition,
    Insert,
    Queue,
    Run,
    RunStatus,
    Signal,
    Update,
    UpdateAll,
    Workspace,
    where,
)
from statewright.service.background.retention import Retention
from statewright.storage.database import Connection
from statewright.storage.postgres import PostgresDatabase, PostgresLedger, PostgresSaver
from statewright.storage.postgres.connection import Session
from statewright.testing.conformance.checkpointer.samples import commit_after
from statewright.testing.conformance.ledger.samples import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROUNDS = 20
FULL = bool(os.environ.get("STATEWRIGHT_FULL"))
PAUSE = "SELECT pg_sleep(0.003)"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue = Session._enqueue

    def enqueue_with_pause(session: Session, query: Any) -> None:
        enqueue(session, query)
        if not query.receive:  # `execute` expects that its statement is the last one
            enqueue(session, query._replace(sql=PAUSE, parameters=(), statement=None))

    monkeypatch.setattr(Session, "_enqueue", enqueue_with_pause)


@pytest.fixture
def databases() -> Iterator[list[PostgresDatabase]]:
    first = empty_database()
    second = PostgresDatabase(shared_url(), schema=first.schema, trusts_clocks=True)
    yield [first, second]
    second.close()


def run_together(*actions: Callable[[], Any]) -> list[Any]:
    """Call functions in threads that start at the same time. Return their results, or the errors that they raised."""
    barrier, results = threading.Barrier(len(actions)), [None] * len(actions)

    def call(index: int, action: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            results[index] = action()
        except Exception as error:
            results[index] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=call, args=pair) for pair in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_one_of_two_commits_after_a_head_is_refused(databases: list[PostgresDatabase]) -> None:
    savers = [PostgresSaver(database) for database in databases]
    for number in range(ROUNDS):
        key = BranchKey(f"t{number}")
        head = resolve(savers[0].commit(commit_after(None, branch_key=key)))
        commits = [commit_after(head, branch_key=key, n=n) for n in range(2)]
        results = run_together(*(partial(saver.commit, commit) for saver, commit in zip(savers, commits, strict=True)))
        assert sorted(map(type, results), key=str) == [CheckpointConflict, str]
        saved = resolve(savers[0].load(f"t{number}"))
        assert saved is not None
        assert saved.id in results


def test_a_holder_that_was_overtaken_cannot_commit(databases: list[PostgresDatabase]) -> None:
    savers = [PostgresSaver(database) for database in databases]
    ends = [datetime(2026, 1, 1, minute=minute, tzinfo=UTC) for minute in (1, 10, 20)]
    for number in range(ROUNDS):
        key = BranchKey(f"t{number}")
        old = LeaseRequest("old", NOW, ends[0], claims=True)
        head = resolve(savers[0].commit(commit_after(None, branch_key=key, hold=old)))
        late = LeaseRequest("old", NOW, ends[1])
        new = LeaseRequest("new", ends[1], ends[2], claims=True)
        results = run_together(
            lambda: savers[0].commit(commit_after(head, branch_key=key, hold=late, n=1)),  # noqa: B023
            lambda: savers[1].renew(key.thread_id, new),  # noqa: B023
        )
        lease = resolve(savers[0].lease(key.thread_id))
        assert lease is not None
        if isinstance(results[0], LeaseLost):
            assert lease.owner == "new"
        else:  # it came first, and extended its lease: then the other one still had to wait, or came after it
            assert isinstance(results[1], ThreadBusy) or lease.owner == "new"


def test_a_signal_wakes_a_run_that_begins_to_wait_at_the_same_time(databases: list[PostgresDatabase]) -> None:
    ledgers = [PostgresLedger(database) for database in databases]
    for number in range(ROUNDS):
        run_id = f"r{number}"
        ledgers[0].write([Insert(run(run_id, status=RunStatus.RUNNING, claim="c"))])
        waiting = where(id=run_id, status=RunStatus.WAITING)
        has_signal = Condition("id", "in", Among(Signal, "run_id", where(taken=False)))
        signal = Signal(id=f"s{number}", run_id=run_id, type="go", created_at=NOW)
        results = run_together(
            lambda: ledgers[0].write(
                [
                    Advance(run_id, NOW, {"status": RunStatus.WAITING, "claim": None}),  # noqa: B023
                    UpdateAll(Run, [Condition("id", "=", run_id), has_signal], {"due_at": NOW}),  # noqa: B023
                ]
            ),
            lambda: ledgers[1].write([Insert(signal), UpdateAll(Run, waiting, {"due_at": NOW})]),  # noqa: B023
        )
        assert results == [None, None]
        stored = resolve(ledgers[0].get(Run, run_id))
        assert stored is not None
        assert stored.due_at == NOW


def test_one_of_two_runs_starts_on_a_thread(databases: list[PostgresDatabase]) -> None:
    ledgers = [PostgresLedger(database) for database in databases]
    for number in range(ROUNDS):
        on_thread = where(workspace_id="w1", thread_id=f"t{number}")
        starts = [[Absent(Run, on_thread), Insert(run(f"r{number}.{n}", thread_id=f"t{number}"))] for n in range(2)]
        results = run_together(
            *(
                lambda ledger=ledger, start=start: ledger.write(start)
                for ledger, start in zip(ledgers, starts, strict=True)
            )
        )
        assert [isinstance(result, RecordConflict) for result in results].count(True) == 1
        assert resolve(ledgers[0].count(Run, on_thread)) == 1


def test_the_last_two_runs_of_a_thread_that_are_deleted_at_once_take_the_thread_along(
    databases: list[PostgresDatabase],
) -> None:
    ledgers = [PostgresLedger(database) for database in databases]
    savers = [PostgresSaver(database) for database in databases]
    sweeps = [Retention(ledger, saver) for ledger, saver in zip(ledgers, savers, strict=True)]
    workspace = Workspace(id=DEFAULT_WORKSPACE, slug="default", name="default", retention_days=1, created_at=NOW)
    ledgers[0].write([Insert(workspace)])
    threads = [f"t{number}" for number in range(ROUNDS)]
    for thread_id in threads:
        runs = [
            run(
                f"{thread_id}.{number}",
                workspace_id=DEFAULT_WORKSPACE,
                thread_id=thread_id,
                status=RunStatus.COMPLETED,
                completed_at=NOW,
            )
            for number in range(2)
        ]
        ledgers[0].write([Insert(old_run) for old_run in runs])
        resolve(savers[0].for_workspace(DEFAULT_WORKSPACE).commit(commit_after(None, branch_key=BranchKey(thread_id))))
        stored: list[Any] = [resolve(ledgers[0].get(Run, old_run.id)) for old_run in runs]
        results = run_together(
            *(
                lambda sweep=sweep, old_run=old_run: asyncio.run(sweep._delete_run(old_run))
                for sweep, old_run in zip(sweeps, stored, strict=True)
            )
        )
        assert results == [True, True]
    assert resolve(ledgers[0].count(Run)) == 0
    assert not list(resolve(savers[0].for_workspace(DEFAULT_WORKSPACE).threads()))


def test_concurrent_claims_share_the_runs_and_keep_the_limit_of_a_workspace(databases: list[PostgresDatabase]) -> None:
    ledgers = [PostgresLedger(database) for database in databases]
    workspace = Workspace(id="w2", slug="w2", name="w2", max_running=3, created_at=NOW)
    ledgers[0].write([Insert(workspace), *(Insert(run(f"r{n}", due_at=NOW)) for n in range(60))])
    ledgers[0].write([Insert(run(f"limited{n}", workspace_id="w2", due_at=NOW)) for n in range(20)])

    def claim_all(ledger: PostgresLedger, worker: str) -> list[str]:
        claimed: list[str] = []
        while runs := resolve(ledger.claim(worker, NOW, 4)):
            claimed += [run.id for run in runs]
        return claimed

    first, second = run_together(lambda: claim_all(ledgers[0], "a"), lambda: claim_all(ledgers[1], "b"))
    assert len(first + second) == len({*first, *second}) == 63
    assert resolve(ledgers[0].count(Run, [*where(workspace_id="w2"), Condition("claim", "!=", None)])) == 3


@pytest.mark.parametrize(
    "change",
    [
        Update(Run, "started", {"claim": None, "worker_id": None, "due_at": NOW}),  # returns its token
        Update(Queue, "narrow", {"max_running": 2, "starts_per_minute": 60}),
    ],
)
def test_a_claim_keeps_the_limits_of_a_queue_that_another_transaction_is_changing(
    databases: list[PostgresDatabase], change: Change
) -> None:
    ledgers = [PostgresLedger(database) for database in databases]
    begun = {"queue": "narrow", "due_at": NOW, "status": RunStatus.WAITING, "begun": True}
    ledgers[0].write(
        [
            Insert(Queue(id="narrow", max_running=2, starts_per_minute=60, tokens=0, filled_at=NOW)),
            Insert(run("started", queue="narrow", claim="c", worker_id="w")),
            *(Insert(run(f"new {n}", queue="narrow", due_at=NOW)) for n in range(3)),
            *(Insert(run(f"begun {n}", **begun)) for n in range(3)),
            Insert(run("other", due_at=NOW)),
        ]
    )
    job = ledgers[0].job([change])
    claimed: list[Run] = []

    def write_while_others_claim(connection: Connection) -> None:
        job(connection)
        connection.execute("SELECT 1")  # the change was made, and is not committed
        claimed.extend(resolve(ledgers[1].claim("w2", NOW, 10)))

    databases[0].write(write_while_others_claim)
    assert [record.id for record in claimed] == ["begun 0", "other"]


class Workload:
    """Runs of all kinds that have to wait, written and advanced by several workers with a database each."""

    def __init__(self, ledgers: Sequence[PostgresLedger], seed: int, runs: int) -> None:
        self._ledgers = ledgers
        self._random = Random(seed)
        self._runs = runs
        self._written = 0
        self._lock = threading.Lock()
        self.excesses: list[str] = []
        """Limits that were exceeded."""
        self.claims: Counter[str] = Counter()

    def prepare(self) -> None:
        self._ledgers[0].write(
            [
                Insert(Workspace(id="w2", slug="w2", max_running=2, created_at=NOW)),
                # Each claim of a run that has not begun takes one of the tokens, and its release returns it.
                Insert(Queue(id="narrow", max_running=2, starts_per_minute=600_000, tokens=10_000)),
            ]
        )

    def _new_run(self) -> Run | None:
        with self._lock:
            if self._written == self._runs:
                return None
            self._written += 1
            group: dict[str, Any] = self._random.choice(
                [
                    {"thread_id": f"t{self._random.randrange(3)}"},
                    {"sequence": f"s{self._random.randrange(2)}"},
                    {"concurrency_key": "k", "concurrency_limit": self._random.randint(1, 3)},
                    {"workspace_id": "w2"},
                    {"workspace_id": "w2", "thread_id": "t", "concurrency_key": "k", "concurrency_limit": 1},
                    {"queue": "narrow"},
                    {},
                ]
            )
            return run(f"r{self._written:04}", due_at=NOW, **{"priority": self._random.randrange(2), **group})

    def work(self, number: int) -> None:
        """Write, claim, and advance runs, until all have ended."""
        ledger, random = self._ledgers[number % len(self._ledgers)], Random(number)
        idle = 0
        while True:
            if new := self._new_run():
                ledger.write([Insert(new)])
            claimed = resolve(ledger.claim(f"w{number}", NOW, random.randint(1, 3)))
            self._check_limits(ledger)
            for record in claimed:
                self.claims[record.id] += 1
                self._advance(ledger, record, random)
            if not claimed and new is None:
                unended = resolve(ledger.count(Run, [Condition("status", "in", [*UNENDED])]))
                if not unended:
                    return
                idle += 1
                assert idle < 500, f"{unended} runs are never claimed"
                time.sleep(0.01)
            else:
                idle = 0

    def _advance(self, ledger: PostgresLedger, record: Run, random: Random) -> None:
        claim = where(claim=record.claim)
        begun = {"status": RunStatus.RUNNING, "begun": True}
        released = {"claim": None, "worker_id": None}
        outcome = random.choice(["end", "end", "wait", "release", "cancel another"])
        if outcome == "release":
            ledger.write([Advance(record.id, NOW, {**released, "due_at": NOW}, (), claim)])
            return
        ledger.write([Advance(record.id, NOW, begun, (), claim)])
        if outcome == "wait":
            ledger.write([Advance(record.id, NOW, {**released, "status": RunStatus.WAITING, "due_at": NOW}, (), claim)])
            return
        if outcome == "cancel another":
            pending = resolve(ledger.find(Run, where(status=RunStatus.PENDING, claim=None), limit=20))
            for other in random.sample(list(pending), min(1, len(pending))):
                unchanged = where(version=other.version)
                with suppress(RecordConflict):
                    ledger.write([Update(Run, other.id, {"status": RunStatus.CANCELLED, "due_at": None}, unchanged)])
        ledger.write([Advance(record.id, NOW, {**released, "status": RunStatus.COMPLETED}, (), claim)])

    def _check_limits(self, ledger: PostgresLedger) -> None:
        claimed = resolve(ledger.find(Run, [Condition("claim", "!=", None)]))
        groups: Counter[str] = Counter()
        for record in claimed:
            groups[f"thread {record.workspace_id} {record.thread_id}"] += 1
            groups[f"queue {record.queue}"] += 1
            groups[f"workspace {record.workspace_id}"] += 1
            groups[f"key {record.workspace_id} {record.concurrency_key}"] += 1
            groups[f"sequence {record.sequence}"] += record.sequence is not None
        for name, count in groups.items():
            limit = 1 if name.startswith(("thread", "sequence")) else LIMITS.get(name, count)
            if count > limit:
                self.excesses.append(f"{name}: {count}")


LIMITS = {"workspace w2": 2, "queue narrow": 2, "key w1 k": 3, "key w2 k": 1}
UNENDED = [status for status in RunStatus if status not in ENDED]


@pytest.mark.parametrize("seed", range(12 if FULL else 2))
def test_every_run_is_claimed_in_the_end_and_no_limit_is_ever_exceeded(
    databases: list[PostgresDatabase], seed: int
) -> None:
    """Runs that were held back are released by whatever ends their wait, even if it happens during a claim."""
    workload = Workload([PostgresLedger(database) for database in databases], seed, runs=400 if FULL else 120)
    workload.prepare()
    results = run_together(*(lambda number=number: workload.work(number) for number in range(4)))
    assert results == [None] * 4
    assert workload.excesses == []


def test_concurrent_commits_of_many_threads_lose_nothing(databases: list[PostgresDatabase]) -> None:
    savers = [PostgresSaver(database) for database in databases]

    def commit_chain(saver: PostgresSaver, thread: str) -> CheckpointId:
        head: CheckpointId | None = None
        for n in range(30):
            head = resolve(saver.commit(commit_after(head, branch_key=BranchKey(thread), n=n)))
        assert head is not None
        return head

    names = [f"t{n}-{new_checkpoint_id()}" for n in range(6)]
    heads = run_together(*(lambda n=n, name=name: commit_chain(savers[n % 2], name) for n, name in enumerate(names)))
    for name, head in zip(names, heads, strict=True):
        history = resolve(savers[0].history(name))
        assert (len(history), history[0].id) == (30, head)

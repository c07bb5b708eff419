"""Commits of supersteps: refused writes, leases, logs, pending results, compaction, and several writers."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY  # an epoch: see the conformance suite

import pytest

from statewright.channels import Added
from statewright.checkpoint import BranchKey, Interrupt, JournalEntry, Lease, LeaseRequest, Pending, TaskResult
from statewright.errors import CheckpointConflict, CheckpointNotFound, LeaseLost, SerdeError, ThreadBusy
from statewright.ids import InterruptId
from statewright.storage.checkpoints.head_cache import StoredThread
from statewright.storage.sqlite.database import SqliteDatabase

IDS = SqliteDatabase.row_ids

LINE = BranchKey("thread")
FORK = BranchKey("thread", "", "fork")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LENGTH = timedelta(seconds=60)
TICK = timedelta(microseconds=1)


def hold(owner: str, at: float | timedelta = 0, *, claims: bool = False, releases: bool = False) -> LeaseRequest:
    """Return a request for a lease of one minute, `at` seconds after the start."""
    now = NOW + (at if isinstance(at, timedelta) else timedelta(seconds=at))
    return LeaseRequest(owner, now, None if releases else now + LENGTH, claims)


def lease(scribe: Any) -> Lease | None:
    """Return the stored lease of the thread."""
    with scribe.database.read() as connection:
        row = connection.execute("SELECT id, epoch, owner, until, wanted FROM threads").fetchone()
    return StoredThread(*row).lease


def numbers(scribe: Any, run: str = "run") -> list[int]:
    return [event.seq for event in scribe.numbered_events(run)]


@pytest.fixture
def other(tmp_path: Path, scribe: Any, scribe_of: Any) -> Any:
    """Return a scribe that writes to the same file with its own connection."""
    with SqliteDatabase(tmp_path / "runs.db") as database:
        second = scribe_of(database)
        # Both share their expectations, as if each had loaded the thread.
        second.heads, second.written, second._numbers = scribe.heads, scribe.written, scribe._numbers
        yield second


# -- refused writes


class RefusalChecker:
    """Checks that a write is refused and changes nothing, on a thread with two checkpoints and a lease."""

    def __init__(self, scribe: Any) -> None:
        self.scribe = scribe
        self.ids = [scribe.add({"n": 1}, logs=1), scribe.add({"n": 2}, hold=hold("holder", claims=True))]
        scribe.note(self.ids[1], Pending(attempts={"a" * 32: 1}))

    def commit(self, error_type: type[Exception], *, head: Any = ..., **options: Any) -> Any:
        commit = self.scribe.commit(
            {"n": 3}, logs=2, pending=Pending(paused=True), dropped_namespaces=("in",), **options
        )
        commit = commit if head is ... else replace(commit, expected=head)
        self.called = False

        def call(connection: sqlite3.Connection) -> None:
            self.called = True

        before = self.scribe.rows()
        with pytest.raises(error_type) as caught:
            self.scribe.database.write(self.scribe.writer.commit_job(commit, [call]))
        assert self.scribe.rows() == before
        assert not self.called
        return caught.value

    def results(self, error_type: type[Exception], checkpoint_id: str | None = None, **options: Any) -> Any:
        before, log = self.scribe.rows(), self.scribe.log("run", 2)
        with pytest.raises(error_type) as caught:
            self.scribe.note(checkpoint_id or self.ids[1], Pending(paused=True), log=log, **options)
        assert self.scribe.rows() == before
        return caught.value


@pytest.fixture
def refused(scribe: Any) -> RefusalChecker:
    return RefusalChecker(scribe)


def test_a_commit_on_an_old_head_is_refused(refused: RefusalChecker) -> None:
    error = refused.commit(CheckpointConflict, head=refused.ids[0], after=refused.ids[0])
    assert (error.thread_id, error.expected, error.found) == ("thread", refused.ids[0], refused.ids[1])


def test_a_first_commit_is_refused_if_there_is_a_head(refused: RefusalChecker) -> None:
    error = refused.commit(CheckpointConflict, head=None, after=None)
    assert (error.expected, error.found) == (None, refused.ids[1])


@pytest.mark.parametrize("line", [FORK, BranchKey("new")])
def test_a_commit_that_expects_a_head_is_refused_if_there_is_none(refused: RefusalChecker, line: BranchKey) -> None:
    error = refused.commit(CheckpointConflict, head=refused.ids[1], after=refused.ids[1], line=line)
    assert (error.expected, error.found) == (refused.ids[1], None)


@pytest.mark.parametrize("line", [LINE, BranchKey("thread", "in"), BranchKey("new")])
def test_a_parent_that_is_not_in_the_namespace_is_refused(refused: RefusalChecker, line: BranchKey) -> None:
    parent = refused.ids[0] if line != LINE else "f" * 32
    commit = {"line": line, "source": "fork"}
    refused.scribe.written[parent] = refused.scribe.written[refused.ids[0]]
    error = refused.commit(CheckpointNotFound, after=parent, **commit)
    assert parent in str(error)


def test_claiming_a_thread_with_another_owner_raises_thread_busy(refused: RefusalChecker) -> None:
    claim = hold("second", LENGTH - TICK, claims=True)
    for error in (refused.commit(ThreadBusy, hold=claim), refused.results(ThreadBusy, hold=claim)):
        assert (error.thread_id, error.owner) == ("thread", "holder")


@pytest.mark.parametrize("at", [1, 60, 3600])
def test_a_write_of_a_run_that_is_not_the_owner_raises_lease_lost(refused: RefusalChecker, at: float) -> None:
    request = hold("second", at)
    for error in (refused.commit(LeaseLost, hold=request), refused.results(LeaseLost, hold=request)):
        assert (error.thread_id, error.owner, error.found) == ("thread", "second", "holder")


def test_a_write_without_a_claim_on_a_free_thread_raises_lease_lost(refused: RefusalChecker) -> None:
    refused.scribe.note(refused.ids[1], Pending(), hold=hold("holder", releases=True))
    assert refused.commit(LeaseLost, hold=hold("holder")).found is None
    assert refused.results(LeaseLost, hold=hold("holder")).found is None
    assert refused.commit(LeaseLost, hold=hold("holder"), line=BranchKey("new")).found is None


@pytest.mark.parametrize("line", [LINE, FORK, BranchKey("new")])
def test_results_for_a_missing_checkpoint_are_refused(refused: RefusalChecker, line: BranchKey) -> None:
    checkpoint_id = refused.ids[1] if line != LINE else "f" * 32
    refused.results(CheckpointNotFound, checkpoint_id, line=line)


def test_refused_results_do_not_renew_the_lease(refused: RefusalChecker) -> None:
    refused.results(CheckpointNotFound, "f" * 32, hold=hold("holder", 50))


def test_refused_writes_use_no_event_numbers(refused: RefusalChecker) -> None:
    refused.commit(CheckpointConflict, head=refused.ids[0])
    refused.results(LeaseLost, hold=hold("second"))
    refused.scribe.add({}, logs=1)
    assert numbers(refused.scribe) == [1, 2]


def test_a_value_that_cannot_be_stored_is_refused_when_the_job_is_made(scribe: Any) -> None:
    for commit in (scribe.commit({"x": object()}), scribe.commit({}, graph_version=object())):
        with pytest.raises(SerdeError):
            scribe.writer.commit_job(commit, ())
    with pytest.raises(SerdeError, match=r"^values\.x "):
        scribe.writer.commit_job(scribe.commit({"x": object()}), ())
    task = scribe.commit({}).checkpoint.frontier[0]
    pending = Pending(completed={task.id: TaskResult(task, {"x": object()}, ())})
    with pytest.raises(SerdeError, match=r"^the update of "):
        scribe.writer.results_job(LINE, "0" * 32, pending, None, None)


def test_a_failing_additional_job_rolls_the_commit_back(scribe: Any) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (2,)
        raise ValueError("no luck")

    scribe.add({"n": 1}, logs=1)
    before = scribe.rows()
    with pytest.raises(ValueError, match="no luck"):
        scribe.save(scribe.commit({"n": 2}, logs=1, hold=hold("run", claims=True)), fail)
    assert scribe.rows() == before
    scribe.add({"n": 3}, logs=1)
    assert numbers(scribe) == [1, 2]
    scribe.check()


# -- leases


def test_a_run_takes_the_lease_with_its_first_write(scribe: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    assert lease(scribe) == Lease("first", ANY, NOW + LENGTH)
    scribe.add({}, hold=hold("first", releases=True))
    assert lease(scribe) is None
    scribe.note(scribe.heads[LINE], Pending(paused=True), hold=hold("second", 1, claims=True))
    assert lease(scribe) == Lease("second", ANY, NOW + LENGTH + timedelta(seconds=1))


def test_a_thread_is_free_at_the_instant_its_lease_ends(scribe: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    scribe.add({}, hold=hold("second", 60, claims=True))
    assert lease(scribe) == Lease("second", ANY, NOW + 2 * LENGTH)


def test_an_owner_can_renew_an_expired_lease_that_no_other_run_took(scribe: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    scribe.add({}, hold=hold("first", 100))
    assert lease(scribe) == Lease("first", ANY, NOW + timedelta(seconds=160))


def test_a_write_without_a_lease_request_raises_only_the_epoch(scribe: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    before = lease(scribe)
    scribe.add({})
    scribe.note(scribe.heads[LINE], Pending(paused=True))
    assert lease(scribe) == before._replace(epoch=before.epoch + 2)


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
@pytest.mark.parametrize(
    ("at", "until"),
    [
        (timedelta(seconds=1), 60),
        (timedelta(seconds=30), 60),
        (timedelta(seconds=30) + TICK, 90),
        (timedelta(seconds=59), 119),
    ],
)
def test_a_lease_is_renewed_when_less_than_half_of_it_is_left(
    scribe: Any, at: timedelta, until: int, cached: bool
) -> None:
    for write in (scribe.add, lambda _, **options: scribe.note(scribe.heads[LINE], Pending(paused=True), **options)):
        scribe.add({}, hold=hold("first", 0, claims=True, releases=True))
        scribe.add({}, hold=hold("first", 0, claims=True))
        if not cached:
            scribe.database.head_cache.forget()
        write({}, hold=hold("first", at))
        stored = lease(scribe)
        assert stored is not None
        assert (stored.until - NOW) // timedelta(seconds=1) == until
        scribe.add({}, hold=hold("first", releases=True))


def test_a_request_to_the_owner_is_kept_until_the_owner_changes(scribe: Any) -> None:
    def stored_request() -> Any:
        return scribe.one("SELECT wanted FROM threads")

    scribe.add({}, hold=hold("first", claims=True))
    scribe.change("UPDATE threads SET wanted = 'interrupt'")
    scribe.add({}, hold=hold("first", 50))
    assert stored_request() == "interrupt"
    scribe.add({}, hold=hold("second", 200, claims=True))
    assert stored_request() is None
    scribe.change("UPDATE threads SET wanted = 'interrupt'")
    scribe.add({}, hold=hold("second", 201, releases=True))
    assert stored_request() is None


def test_a_thread_records_when_its_owner_last_changed(scribe: Any) -> None:
    def changed() -> float:
        return scribe.one("SELECT changed FROM threads") / 1_000_000 - NOW.timestamp()

    scribe.add({})
    assert changed() == 1
    scribe.add({}, hold=hold("first", 10, claims=True))
    assert changed() == 10
    scribe.add({}, hold=hold("first", 20))
    assert changed() == 10
    scribe.add({}, hold=hold("first", 30, releases=True))
    assert changed() == 30


# -- logs


def test_events_of_a_run_are_numbered_across_lines_and_results(scribe: Any) -> None:
    scribe.add({}, logs=2)
    scribe.add({}, logs=1, line=BranchKey("thread", "in"))
    scribe.note(scribe.heads[LINE], Pending(paused=True), log=scribe.log("run", 2))
    scribe.add({}, logs=3, run_id="other")
    scribe.add({}, logs=1)
    assert numbers(scribe) == [1, 2, 3, 4, 5, 6]
    assert numbers(scribe, "other") == [1, 2, 3]


@pytest.mark.parametrize("event", ["forget", "compact", "elsewhere"])
def test_event_numbers_continue_after_the_stored_ones(scribe: Any, other: Any, event: str) -> None:
    for _ in range(3):
        scribe.add({}, logs=2)
    if event == "forget":
        scribe.database.head_cache.forget()
    elif event == "compact":
        scribe.compact()
    else:
        other.add({}, logs=1)
    scribe.add({}, logs=2)
    assert numbers(scribe) == list(range(1, 10 if event == "elsewhere" else 9))


def test_runs_with_the_same_name_on_two_threads_have_separate_logs(scribe: Any) -> None:
    scribe.add({}, logs=2)
    scribe.add({}, logs=1, line=BranchKey("second"))
    assert [event.seq for event in scribe.numbered_events(thread=2)] == [1]
    assert numbers(scribe) == [1, 2]


def test_a_log_of_another_run_is_stored_apart_from_the_record(scribe: Any) -> None:
    scribe.add({}, logs=1)
    commit = scribe.commit({}, logs=2)
    commit.log = commit.log._replace(run_id="other")
    scribe.save(commit)
    assert scribe.counts("events") == (1,)
    assert (numbers(scribe), numbers(scribe, "other")) == ([1], [1, 2])


def test_a_log_of_another_time_is_stored_apart_from_the_record(scribe: Any) -> None:
    scribe.add({}, logs=1)
    commit = scribe.commit({}, logs=2)
    commit.log = commit.log._replace(at=NOW)
    scribe.save(commit)
    assert scribe.counts("events") == (1,)
    assert [(event.seq, event.at == NOW) for event in scribe.numbered_events()] == [(1, False), (2, True), (3, True)]


# -- parts of a commit


def test_a_commit_reports_its_size_in_bytes(scribe: Any) -> None:
    sizes: list[Any] = []
    for deltas in ({}, {"x": "x" * 1000}):
        commit = scribe.commit(deltas)
        assert commit.size is None
        scribe.save(commit)
        sizes.append(commit.size)
    assert sizes == [len(control) + len(changes or b"") for *_, control, changes, _ in scribe.rows()["records"]]
    assert 1000 < sizes[1] - sizes[0] < 1020


def test_a_record_stores_changes_whole_values_or_nothing(scribe: Any) -> None:
    scribe.add({"a": 1})
    whole = scribe.commit(None)
    whole.checkpoint.values.update(a=1, b=2)
    scribe.save(replace(whole, parent_id=None))
    scribe.add({})
    stored = [changes for *_, changes, _ in scribe.rows()["records"]]
    assert stored[1] == scribe.database.serde.encode({"a": 1, "b": 2})
    assert stored[2] is None
    scribe.check()


def test_a_parent_can_be_in_another_branch(scribe: Any) -> None:
    first, second = scribe.count(2)
    forked = scribe.add({"f": 1}, line=FORK, after=first, source="fork")
    back = scribe.add({"b": 1}, after=forked, source="fork")
    assert scribe.rows()["jumps"] == [
        (IDS.row_id(1, 2), IDS.row_id(2, 0)),
        (IDS.row_id(2, 0), IDS.row_id(1, 0)),
    ]
    assert [scribe.loaded(checkpoint_id).parent_id for checkpoint_id in (second, forked, back)] == [
        first,
        first,
        forked,
    ]
    scribe.check()


def test_a_fork_is_stored_with_its_pending_results(scribe: Any) -> None:
    (first,) = scribe.count(1)
    scribe.add({}, line=FORK, after=first, source="fork", pending=Pending(answers={InterruptId("a" * 32): 1}))
    scribe.check()


@pytest.mark.parametrize("storage", ["head", "record", "segment"])
def test_results_of_any_checkpoint_are_merged_with_stored_ones(scribe: Any, storage: str) -> None:
    ids = scribe.count(3)
    if storage == "segment":
        scribe.compact()
    checkpoint_id = ids[2] if storage == "head" else ids[1]
    scribe.note(checkpoint_id, Pending(attempts={"a" * 32: 1}, answers={InterruptId("b" * 32): 1}))
    scribe.note(checkpoint_id, Pending(attempts={"a" * 32: 2}))
    assert scribe.loaded(checkpoint_id).pending == Pending(attempts={"a" * 32: 2}, answers={InterruptId("b" * 32): 1})
    scribe.check()


@pytest.mark.parametrize(
    ("source", "interrupted", "expected"),
    [
        ("loop", False, {"answers", "errors"}),
        ("loop", True, {"answers", "errors", "interrupts", "completed"}),
        ("update", False, {"answers", "errors", "journal", "completed"}),
        ("fork", False, {"answers", "attempts", "errors", "journal", "completed", "retries"}),
    ],
)
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
def test_a_commit_removes_the_consumed_results_of_its_parent(
    scribe: Any, source: str, interrupted: bool, expected: set[str], cached: bool
) -> None:
    (parent,) = scribe.count(1)
    task = scribe.written[parent].checkpoint.frontier[0]
    question = Interrupt(id=InterruptId("a" * 32), value="?")
    pending = Pending(
        completed={task.id: TaskResult(task, {}, ())},
        answers={question.id: 1},
        errors={task.id: "E"},
        attempts={task.id: 1},
        retries={task.id: NOW},
        journal={(task.id, "step", 0): JournalEntry("given", 1)},
    )
    if interrupted:
        pending.interrupts[task.id] = (question,)
    scribe.note(parent, pending)
    if not cached:
        scribe.database.head_cache.forget()
    scribe.add({}, source=source)
    stored = scribe.loaded(parent).pending
    kinds = ("completed", "interrupts", "answers", "errors", "attempts", "retries", "journal")
    assert {kind for kind in kinds if getattr(stored, kind)} == expected


def test_a_commit_deletes_its_dropped_namespaces(scribe: Any) -> None:
    inside = BranchKey("thread", "node:1")
    scribe.count(1)
    scribe.count(3, inside, logs=1)
    scribe.add({}, dropped_namespaces=("node:1",))
    assert [row[2] for row in scribe.rows()["lines"]] == [""]
    assert scribe.counts("records") == (2,)
    del scribe.heads[inside]
    again = scribe.add({"n": "again"}, line=inside, logs=1)
    assert scribe.loaded(again) == scribe.written[again]
    assert numbers(scribe) == [1, 2, 3, 4]


def test_additional_jobs_run_after_the_commit_is_written(scribe: Any) -> None:
    counts: list[Any] = []

    def count_records(connection: sqlite3.Connection) -> None:
        counts.append(connection.execute("SELECT count(*) FROM records").fetchone()[0])

    scribe.count(1)
    scribe.save(scribe.commit({}), count_records, count_records)
    assert counts == [2, 2]


# -- compaction


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
def test_records_are_compacted_when_there_are_many(scribe: Any, limit: Any, cached: bool) -> None:
    limit(LONGEST=4, RECENT=6)
    counts: list[tuple[int, ...]] = []
    for n in range(11):
        if not cached:
            scribe.database.head_cache.forget()
        scribe.add({"words": Added([n])})
        counts.append(scribe.counts("records", "segments"))
    assert counts == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (2, 1), (3, 1), (4, 1), (5, 1), (2, 2), (3, 2)]
    scribe.check()


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
def test_records_are_compacted_when_they_are_large(scribe: Any, limit: Any, cached: bool) -> None:
    limit(LARGEST=1000)
    counts: list[tuple[int, ...]] = []
    for _ in range(5):
        if not cached:
            scribe.database.head_cache.forget()
        scribe.add({"x": "x" * 400})
        counts.append(scribe.counts("records", "segments"))
    assert counts == [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]
    scribe.check()


def test_a_single_record_is_not_compacted_however_large_it_is(scribe: Any, limit: Any) -> None:
    limit(LARGEST=100)
    scribe.add({"x": "x" * 400})
    assert scribe.counts("records", "segments") == (1, 0)
    scribe.add({"x": "x" * 400})
    assert scribe.counts("records", "segments") == (1, 1)


# -- several writers


def test_a_head_that_another_connection_moved_is_noticed(scribe: Any, other: Any) -> None:
    scribe.count(1)
    late = scribe.commit({"n": "late"})
    moved = other.add({"n": "moved"})
    with pytest.raises(CheckpointConflict) as caught:
        scribe.save(late)
    assert caught.value.found == moved
    scribe.count(2)
    other.count(1)
    scribe.check()


def test_a_lease_that_another_connection_took_is_noticed(scribe: Any, other: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    other.add({}, hold=hold("second", 60, claims=True))
    with pytest.raises(LeaseLost) as caught:
        scribe.add({}, hold=hold("first", 61))
    assert caught.value.found == "second"

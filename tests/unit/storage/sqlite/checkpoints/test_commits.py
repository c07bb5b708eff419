"""Supersteps written: what is refused and writes nothing, who holds a thread, and what a commit takes along."""

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
from statewright.storage.checkpoints.head_cache import Thread
from statewright.storage.checkpoints.row_ids import row_id_of
from statewright.storage.sqlite.database import SqliteDatabase

LINE = BranchKey("thread")
FORK = BranchKey("thread", "", "fork")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LENGTH = timedelta(seconds=60)
TICK = timedelta(microseconds=1)


def hold(owner: str, at: float | timedelta = 0, *, claims: bool = False, lets_go: bool = False) -> LeaseRequest:
    """The hold of a run at a time after the start, in seconds, for a minute."""
    now = NOW + (at if isinstance(at, timedelta) else timedelta(seconds=at))
    return LeaseRequest(owner, now, None if lets_go else now + LENGTH, claims)


def lease(scribe: Any) -> Lease | None:
    """Who holds the thread, as it is stored."""
    with scribe.database.read() as connection:
        row = connection.execute("SELECT id, epoch, owner, until, wanted FROM threads").fetchone()
    return Thread(*row).lease


def numbers(scribe: Any, run: str = "run") -> list[int]:
    return [event.seq for event in scribe.numbered_events(run)]


@pytest.fixture
def other(tmp_path: Path, scribe: Any, scribe_of: Any) -> Any:
    """Who writes to the same file from elsewhere."""
    with SqliteDatabase(tmp_path / "runs.db") as database:
        elsewhere = scribe_of(database)
        # One memory of what was written, as if both had loaded the thread.
        elsewhere.heads, elsewhere.written, elsewhere._numbers = scribe.heads, scribe.written, scribe._numbers
        yield elsewhere


# -- what is refused


class Refused:
    """Fails unless a write is refused and nothing is written; beforehand the thread has two checkpoints, and a hold."""

    def __init__(self, scribe: Any) -> None:
        self.scribe = scribe
        self.ids = [scribe.add({"n": 1}, logs=1), scribe.add({"n": 2}, hold=hold("holder", claims=True))]
        scribe.note(self.ids[1], Pending(attempts={"a" * 32: 1}))

    def commit(self, kind: type[Exception], *, head: Any = ..., **options: Any) -> Any:
        commit = self.scribe.commit(
            {"n": 3}, logs=2, pending=Pending(paused=True), dropped_namespaces=("in",), **options
        )
        commit = commit if head is ... else replace(commit, expected=head)
        self.called = False

        def call(connection: sqlite3.Connection) -> None:
            self.called = True

        before = self.scribe.rows()
        with pytest.raises(kind) as caught:
            self.scribe.database.write(self.scribe.writer.commit_job(commit, [call]))
        assert self.scribe.rows() == before
        assert not self.called
        return caught.value

    def results(self, kind: type[Exception], identity: str | None = None, **options: Any) -> Any:
        before, log = self.scribe.rows(), self.scribe.log("run", 2)
        with pytest.raises(kind) as caught:
            self.scribe.note(identity or self.ids[1], Pending(paused=True), log=log, **options)
        assert self.scribe.rows() == before
        return caught.value


@pytest.fixture
def refused(scribe: Any) -> Refused:
    return Refused(scribe)


def test_a_commit_on_an_old_head_is_refused(refused: Refused) -> None:
    error = refused.commit(CheckpointConflict, head=refused.ids[0], after=refused.ids[0])
    assert (error.thread_id, error.expected, error.found) == ("thread", refused.ids[0], refused.ids[1])


def test_a_beginning_is_refused_where_there_is_a_head(refused: Refused) -> None:
    error = refused.commit(CheckpointConflict, head=None, after=None)
    assert (error.expected, error.found) == (None, refused.ids[1])


@pytest.mark.parametrize("line", [FORK, BranchKey("new")])
def test_a_head_is_missed_where_there_is_none(refused: Refused, line: BranchKey) -> None:
    error = refused.commit(CheckpointConflict, head=refused.ids[1], after=refused.ids[1], line=line)
    assert (error.expected, error.found) == (refused.ids[1], None)


@pytest.mark.parametrize("line", [LINE, BranchKey("thread", "in"), BranchKey("new")])
def test_a_parent_that_is_not_in_the_namespace_is_refused(refused: Refused, line: BranchKey) -> None:
    parent = refused.ids[0] if line != LINE else "f" * 32
    commit = {"line": line, "source": "fork"}
    refused.scribe.written[parent] = refused.scribe.written[refused.ids[0]]
    error = refused.commit(CheckpointNotFound, after=parent, **commit)
    assert parent in str(error)


def test_a_thread_that_another_run_holds_is_busy(refused: Refused) -> None:
    claim = hold("second", LENGTH - TICK, claims=True)
    for error in (refused.commit(ThreadBusy, hold=claim), refused.results(ThreadBusy, hold=claim)):
        assert (error.thread_id, error.owner) == ("thread", "holder")


@pytest.mark.parametrize("at", [1, 60, 3600])
def test_a_run_without_the_thread_is_fenced(refused: Refused, at: float) -> None:
    lost = hold("second", at)
    for error in (refused.commit(LeaseLost, hold=lost), refused.results(LeaseLost, hold=lost)):
        assert (error.thread_id, error.owner, error.found) == ("thread", "second", "holder")


def test_a_run_is_fenced_where_nobody_holds_the_thread(refused: Refused) -> None:
    refused.scribe.note(refused.ids[1], Pending(), hold=hold("holder", lets_go=True))
    assert refused.commit(LeaseLost, hold=hold("holder")).found is None
    assert refused.results(LeaseLost, hold=hold("holder")).found is None
    assert refused.commit(LeaseLost, hold=hold("holder"), line=BranchKey("new")).found is None


@pytest.mark.parametrize("line", [LINE, FORK, BranchKey("new")])
def test_results_of_a_checkpoint_that_is_not_there_are_refused(refused: Refused, line: BranchKey) -> None:
    identity = refused.ids[1] if line != LINE else "f" * 32
    refused.results(CheckpointNotFound, identity, line=line)


def test_results_that_are_refused_renew_no_hold(refused: Refused) -> None:
    refused.results(CheckpointNotFound, "f" * 32, hold=hold("holder", 50))


def test_what_was_refused_takes_no_numbers(refused: Refused) -> None:
    refused.commit(CheckpointConflict, head=refused.ids[0])
    refused.results(LeaseLost, hold=hold("second"))
    refused.scribe.add({}, logs=1)
    assert numbers(refused.scribe) == [1, 2]


def test_what_cannot_be_stored_is_refused_before_there_is_a_job(scribe: Any) -> None:
    for commit in (scribe.commit({"x": object()}), scribe.commit({}, graph_version=object())):
        with pytest.raises(SerdeError):
            scribe.writer.commit_job(commit, ())
    with pytest.raises(SerdeError, match=r"^values\.x "):
        scribe.writer.commit_job(scribe.commit({"x": object()}), ())
    task = scribe.commit({}).checkpoint.frontier[0]
    landed = Pending(completed={task.id: TaskResult(task, {"x": object()}, ())})
    with pytest.raises(SerdeError, match=r"^the update of "):
        scribe.writer.results_job(LINE, "0" * 32, landed, None, None)


def test_what_fails_with_a_commit_takes_it_along(scribe: Any) -> None:
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


# -- who holds a thread


def test_a_run_takes_a_thread_with_its_first_write(scribe: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    assert lease(scribe) == Lease("first", ANY, NOW + LENGTH)
    scribe.add({}, hold=hold("first", lets_go=True))
    assert lease(scribe) is None
    scribe.note(scribe.heads[LINE], Pending(paused=True), hold=hold("second", 1, claims=True))
    assert lease(scribe) == Lease("second", ANY, NOW + LENGTH + timedelta(seconds=1))


def test_a_thread_is_free_at_the_instant_in_which_its_lease_ends(scribe: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    scribe.add({}, hold=hold("second", 60, claims=True))
    assert lease(scribe) == Lease("second", ANY, NOW + 2 * LENGTH)


def test_a_run_keeps_what_nobody_has_taken_though_its_lease_has_ended(scribe: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    scribe.add({}, hold=hold("first", 100))
    assert lease(scribe) == Lease("first", ANY, NOW + timedelta(seconds=160))


def test_a_write_without_a_hold_raises_the_epoch_and_leaves_the_lease_alone(scribe: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    before = lease(scribe)
    scribe.add({})
    scribe.note(scribe.heads[LINE], Pending(paused=True))
    assert lease(scribe) == before._replace(epoch=before.epoch + 2)


@pytest.mark.parametrize("knows", [True, False], ids=["known", "looked up"])
@pytest.mark.parametrize(
    ("at", "until"),
    [
        (timedelta(seconds=1), 60),
        (timedelta(seconds=30), 60),
        (timedelta(seconds=30) + TICK, 90),
        (timedelta(seconds=59), 119),
    ],
)
def test_a_hold_is_written_again_when_less_than_half_of_it_is_left(
    scribe: Any, at: timedelta, until: int, knows: bool
) -> None:
    for write in (scribe.add, lambda _, **options: scribe.note(scribe.heads[LINE], Pending(paused=True), **options)):
        scribe.add({}, hold=hold("first", 0, claims=True, lets_go=True))
        scribe.add({}, hold=hold("first", 0, claims=True))
        if not knows:
            scribe.database.head_cache.forget()
        write({}, hold=hold("first", at))
        found = lease(scribe)
        assert found is not None
        assert (found.until - NOW) // timedelta(seconds=1) == until
        scribe.add({}, hold=hold("first", lets_go=True))


def test_what_is_wanted_of_a_run_stays_until_it_lets_go(scribe: Any) -> None:
    def wanted() -> Any:
        return scribe.one("SELECT wanted FROM threads")

    scribe.add({}, hold=hold("first", claims=True))
    scribe.change("UPDATE threads SET wanted = 'interrupt'")
    scribe.add({}, hold=hold("first", 50))
    assert wanted() == "interrupt"
    scribe.add({}, hold=hold("second", 200, claims=True))
    assert wanted() is None
    scribe.change("UPDATE threads SET wanted = 'interrupt'")
    scribe.add({}, hold=hold("second", 201, lets_go=True))
    assert wanted() is None


def test_a_thread_tells_when_it_was_taken_or_let_go_last(scribe: Any) -> None:
    def changed() -> float:
        return scribe.one("SELECT changed FROM threads") / 1_000_000 - NOW.timestamp()

    scribe.add({})
    assert changed() == 1
    scribe.add({}, hold=hold("first", 10, claims=True))
    assert changed() == 10
    scribe.add({}, hold=hold("first", 20))
    assert changed() == 10
    scribe.add({}, hold=hold("first", 30, lets_go=True))
    assert changed() == 30


# -- logs


def test_events_of_a_run_go_on_wherever_they_are_written(scribe: Any) -> None:
    scribe.add({}, logs=2)
    scribe.add({}, logs=1, line=BranchKey("thread", "in"))
    scribe.note(scribe.heads[LINE], Pending(paused=True), log=scribe.log("run", 2))
    scribe.add({}, logs=3, run_id="other")
    scribe.add({}, logs=1)
    assert numbers(scribe) == [1, 2, 3, 4, 5, 6]
    assert numbers(scribe, "other") == [1, 2, 3]


@pytest.mark.parametrize("between", ["forget", "fold", "elsewhere"])
def test_events_of_a_run_go_on_from_what_is_stored(scribe: Any, other: Any, between: str) -> None:
    for _ in range(3):
        scribe.add({}, logs=2)
    if between == "forget":
        scribe.database.head_cache.forget()
    elif between == "fold":
        scribe.compact()
    else:
        other.add({}, logs=1)
    scribe.add({}, logs=2)
    assert numbers(scribe) == list(range(1, 10 if between == "elsewhere" else 9))


def test_runs_of_two_threads_have_logs_of_their_own_under_one_name(scribe: Any) -> None:
    scribe.add({}, logs=2)
    scribe.add({}, logs=1, line=BranchKey("second"))
    assert [event.seq for event in scribe.numbered_events(thread=2)] == [1]
    assert numbers(scribe) == [1, 2]


def test_a_log_of_another_run_is_no_part_of_the_record(scribe: Any) -> None:
    scribe.add({}, logs=1)
    commit = scribe.commit({}, logs=2)
    commit.log = commit.log._replace(run_id="other")
    scribe.save(commit)
    assert scribe.counts("events") == (1,)
    assert (numbers(scribe), numbers(scribe, "other")) == ([1], [1, 2])


def test_a_log_of_another_time_is_no_part_of_the_record(scribe: Any) -> None:
    scribe.add({}, logs=1)
    commit = scribe.commit({}, logs=2)
    commit.log = commit.log._replace(at=NOW)
    scribe.save(commit)
    assert scribe.counts("events") == (1,)
    assert [(event.seq, event.at == NOW) for event in scribe.numbered_events()] == [(1, False), (2, True), (3, True)]


# -- what a commit takes along


def test_a_commit_tells_how_many_bytes_it_took(scribe: Any) -> None:
    told: list[Any] = []
    for deltas in ({}, {"x": "x" * 1000}):
        commit = scribe.commit(deltas)
        assert commit.size is None
        scribe.save(commit)
        told.append(commit.size)
    assert told == [len(control) + len(changes or b"") for *_, control, changes, _ in scribe.rows()["records"]]
    assert 1000 < told[1] - told[0] < 1020


def test_values_are_stored_whole_or_what_changed_or_not_at_all(scribe: Any) -> None:
    scribe.add({"a": 1})
    whole = scribe.commit(None)
    whole.checkpoint.values.update(a=1, b=2)
    scribe.save(replace(whole, parent_id=None))
    scribe.add({})
    stored = [changes for *_, changes, _ in scribe.rows()["records"]]
    assert stored[1] == scribe.database.serde.encode({"a": 1, "b": 2})
    assert stored[2] is None
    scribe.check()


def test_a_parent_may_be_in_another_branch(scribe: Any) -> None:
    first, second = scribe.count(2)
    forked = scribe.add({"f": 1}, line=FORK, after=first, source="fork")
    back = scribe.add({"b": 1}, after=forked, source="fork")
    assert scribe.rows()["jumps"] == [
        (row_id_of(1, 2), row_id_of(2, 0)),
        (row_id_of(2, 0), row_id_of(1, 0)),
    ]
    assert [scribe.loaded(one).parent_id for one in (second, forked, back)] == [first, first, forked]
    scribe.check()


def test_a_fork_brings_what_is_known_along(scribe: Any) -> None:
    (first,) = scribe.count(1)
    scribe.add({}, line=FORK, after=first, source="fork", pending=Pending(answers={InterruptId("a" * 32): 1}))
    scribe.check()


@pytest.mark.parametrize("place", ["head", "record", "segment"])
def test_results_are_added_to_any_checkpoint_and_replace_what_was_there(scribe: Any, place: str) -> None:
    ids = scribe.count(3)
    if place == "segment":
        scribe.compact()
    identity = ids[2] if place == "head" else ids[1]
    scribe.note(identity, Pending(attempts={"a" * 32: 1}, answers={InterruptId("b" * 32): 1}))
    scribe.note(identity, Pending(attempts={"a" * 32: 2}))
    assert scribe.loaded(identity).pending == Pending(attempts={"a" * 32: 2}, answers={InterruptId("b" * 32): 1})
    scribe.check()


@pytest.mark.parametrize(
    ("source", "asks", "left"),
    [
        ("loop", False, {"answers", "errors"}),
        ("loop", True, {"answers", "errors", "interrupts", "completed"}),
        ("update", False, {"answers", "errors", "journal", "completed"}),
        ("fork", False, {"answers", "attempts", "errors", "journal", "completed", "retries"}),
    ],
)
@pytest.mark.parametrize("knows", [True, False], ids=["known", "looked up"])
def test_a_commit_consumes_what_was_known_of_its_parent(
    scribe: Any, source: str, asks: bool, left: set[str], knows: bool
) -> None:
    (parent,) = scribe.count(1)
    task = scribe.written[parent].checkpoint.frontier[0]
    question = Interrupt(id=InterruptId("a" * 32), value="?")
    known = Pending(
        completed={task.id: TaskResult(task, {}, ())},
        answers={question.id: 1},
        errors={task.id: "E"},
        attempts={task.id: 1},
        retries={task.id: NOW},
        journal={(task.id, "step", 0): JournalEntry("given", 1)},
    )
    if asks:
        known.interrupts[task.id] = (question,)
    scribe.note(parent, known)
    if not knows:
        scribe.database.head_cache.forget()
    scribe.add({}, source=source)
    found = scribe.loaded(parent).pending
    kinds = ("completed", "interrupts", "answers", "errors", "attempts", "retries", "journal")
    assert {kind for kind in kinds if getattr(found, kind)} == left


def test_namespaces_go_with_the_commit_that_consumes_their_calls(scribe: Any) -> None:
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


def test_what_else_is_written_with_a_commit_is_written_after_it(scribe: Any) -> None:
    seen: list[Any] = []

    def look(connection: sqlite3.Connection) -> None:
        seen.append(connection.execute("SELECT count(*) FROM records").fetchone()[0])

    scribe.count(1)
    scribe.save(scribe.commit({}), look, look)
    assert seen == [2, 2]


# -- when checkpoints are laid together


@pytest.mark.parametrize("knows", [True, False], ids=["known", "looked up"])
def test_old_records_are_laid_together_when_there_are_many(scribe: Any, limit: Any, knows: bool) -> None:
    limit(LONGEST=4, RECENT=6)
    found: list[tuple[int, ...]] = []
    for n in range(11):
        if not knows:
            scribe.database.head_cache.forget()
        scribe.add({"words": Added([n])})
        found.append(scribe.counts("records", "segments"))
    assert found == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (2, 1), (3, 1), (4, 1), (5, 1), (2, 2), (3, 2)]
    scribe.check()


@pytest.mark.parametrize("knows", [True, False], ids=["known", "looked up"])
def test_old_records_are_laid_together_when_they_are_large(scribe: Any, limit: Any, knows: bool) -> None:
    limit(LARGEST=1000)
    found: list[tuple[int, ...]] = []
    for _ in range(5):
        if not knows:
            scribe.database.head_cache.forget()
        scribe.add({"x": "x" * 400})
        found.append(scribe.counts("records", "segments"))
    assert found == [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)]
    scribe.check()


def test_one_record_stays_however_large_it_is(scribe: Any, limit: Any) -> None:
    limit(LARGEST=100)
    scribe.add({"x": "x" * 400})
    assert scribe.counts("records", "segments") == (1, 0)
    scribe.add({"x": "x" * 400})
    assert scribe.counts("records", "segments") == (1, 1)


# -- several writers


def test_a_head_that_was_moved_elsewhere_is_seen(scribe: Any, other: Any) -> None:
    scribe.count(1)
    late = scribe.commit({"n": "late"})
    moved = other.add({"n": "moved"})
    with pytest.raises(CheckpointConflict) as caught:
        scribe.save(late)
    assert caught.value.found == moved
    scribe.count(2)
    other.count(1)
    scribe.check()


def test_a_thread_that_was_taken_elsewhere_is_seen(scribe: Any, other: Any) -> None:
    scribe.add({}, hold=hold("first", claims=True))
    other.add({}, hold=hold("second", 60, claims=True))
    with pytest.raises(LeaseLost) as caught:
        scribe.add({}, hold=hold("first", 61))
    assert caught.value.found == "second"

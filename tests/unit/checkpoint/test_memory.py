"""The in-memory saver: heads, branches, leases and event logs."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY  # for epochs, which the conformance suite checks

import pytest

from statewright.checkpoint import (
    NO_ARG,
    BranchKey,
    Checkpoint,
    Commit,
    InMemorySaver,
    Interrupt,
    JournalEntry,
    Lease,
    LeaseRequest,
    Pending,
    SavedCheckpoint,
    Task,
)
from statewright.errors import CheckpointConflict, CheckpointNotFound, LeaseLost, ThreadBusy
from statewright.events import Log
from statewright.ids import CheckpointId, InterruptId, TaskId

LINE = BranchKey("thread")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASK = TaskId("a" * 32)
JOURNAL = {(TASK, "step", 0): JournalEntry("digest", 1)}
NO_TIME = timedelta()
MINUTE = timedelta(minutes=1)


def commit(checkpoint_id: str, after: str | None = None, *, branch_key: BranchKey = LINE, **options: Any) -> Commit:
    defaults: dict[str, Any] = {
        "branch_key": branch_key,
        "expected": after,
        "parent_id": after,
        "checkpoint": Checkpoint(checkpoint_id, 0, {"at": checkpoint_id}, (Task("a", NO_ARG, checkpoint_id, 0),)),
        "deltas": None,
        "source": "loop",
        "run_id": "run",
        "created_at": NOW,
    }
    return Commit(**{**defaults, **options})


def lease_request(
    owner: str, *, claims: bool = False, at: timedelta = NO_TIME, length: timedelta | None = MINUTE
) -> LeaseRequest:
    """Return a request for a lease of some length, a minute by default. Without a length it releases the lease."""
    return LeaseRequest(owner, NOW + at, None if length is None else NOW + at + length, claims)


def log(run: str, count: int = 1) -> Log:
    return Log(run, NOW, tuple(("task_finished", number, None, None, None) for number in range(count)))


def load(saver: InMemorySaver, thread_id: str = "thread", **options: Any) -> SavedCheckpoint:
    saved = saver.load(thread_id, **options)
    assert saved is not None
    return saved


def ids(history: Any) -> list[str]:
    return [saved.id for saved in history]


@pytest.fixture
def saver() -> InMemorySaver:
    """Return a saver with a thread of three checkpoints."""
    filled = InMemorySaver()
    for checkpoint_id, after in [("c1", None), ("c2", "c1"), ("c3", "c2")]:
        filled.commit(commit(checkpoint_id, after))
    return filled


# -- opening and closing


def test_from_conn_string_ignores_the_connection_string() -> None:
    with InMemorySaver.from_conn_string("anywhere") as saver:
        saver.commit(commit("c1"))
    assert load(saver).id == "c1"
    assert InMemorySaver.from_conn_string().load("thread") is None


def test_from_conn_string_of_a_subclass_returns_an_instance_of_the_subclass() -> None:
    class ClosableSaver(InMemorySaver):
        closed = False

        def close(self) -> None:
            self.closed = True

    with ClosableSaver.from_conn_string() as saver:
        assert (type(saver), saver.closed) == (ClosableSaver, False)
    assert saver.closed


# -- loading


def test_a_commit_keeps_the_checkpoint_object_itself(saver: InMemorySaver) -> None:
    metadata = {"nodes": ["a"]}
    written = commit("c4", "c3", metadata=metadata, source="update", run_id="other")
    assert saver.commit(written) == "c4"

    saved = load(saver)
    assert saved.checkpoint is written.checkpoint
    assert (saved.branch_key, saved.parent_id, saved.source, saved.run_id) == (LINE, "c3", "update", "other")
    assert (saved.created_at, saved.metadata, saved.pending) == (NOW, metadata, Pending())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "c3"),
        ({"checkpoint_id": "c1"}, "c1"),
        ({"checkpoint_id": "c1", "branch": "unknown"}, "c1"),
        ({"checkpoint_id": "c9"}, None),
        ({"branch": "unknown"}, None),
        ({"namespace": "unknown"}, None),
        ({"namespace": "unknown", "checkpoint_id": "c1"}, None),
    ],
)
def test_load_returns_the_head_of_a_branch_or_a_checkpoint_by_id(
    saver: InMemorySaver, options: Any, expected: str | None
) -> None:
    saved = saver.load("thread", **options)
    assert (saved.id if saved is not None else None) == expected


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("load", None),
        ("lease", None),
        ("history", []),
        ("branches", []),
        ("events", []),
        ("delete_thread", None),
    ],
)
def test_reading_an_unknown_thread_returns_nothing(saver: InMemorySaver, method: str, answer: Any) -> None:
    assert getattr(saver, method)("unknown") == answer
    assert saver.want("unknown", "interrupt") is None


# -- committing


@pytest.mark.parametrize(("expected", "shown"), [(None, "none"), ("c2", "c2"), ("c9", "c9")])
def test_a_commit_on_a_stale_head_is_refused_and_writes_nothing(
    saver: InMemorySaver, expected: str | None, shown: str
) -> None:
    stale = commit("c4", expected, hold=lease_request("run", claims=True), log=log("run"), dropped_namespaces=("",))
    with pytest.raises(CheckpointConflict, match=f"'thread' is at checkpoint c3, and {shown} was read"):
        saver.commit(stale)
    assert ids(saver.history("thread")) == ["c3", "c2", "c1"]
    assert (saver.lease("thread"), saver.events("thread")) == (None, [])


def test_a_commit_saves_the_pending_writes_of_the_new_frontier(saver: InMemorySaver) -> None:
    pending = Pending(attempts={TASK: 1})
    saver.commit(commit("c4", "c3", pending=pending))
    assert load(saver).pending == pending


def test_the_next_commit_drops_the_journal_and_attempts_of_the_tasks_it_consumes(
    saver: InMemorySaver,
) -> None:
    saver.save_results(LINE, CheckpointId("c3"), Pending(journal=JOURNAL, attempts={TASK: 1}))
    saver.commit(commit("c4", "c3"))
    assert load(saver, checkpoint_id="c3").pending == Pending()


def test_a_fork_keeps_the_journal_of_its_parent(saver: InMemorySaver) -> None:
    saver.save_results(LINE, CheckpointId("c3"), Pending(journal=JOURNAL))
    saver.commit(commit("f1", None, branch_key=LINE._replace(branch="b"), parent_id="c3", source="fork"))
    assert load(saver, checkpoint_id="c3").pending.journal == JOURNAL


# -- branches and namespaces


@pytest.fixture
def forked(saver: InMemorySaver) -> InMemorySaver:
    """Return a saver with a second branch: two checkpoints, forked from the first one of the main branch."""
    branch = LINE._replace(branch="b")
    saver.commit(commit("f1", None, branch_key=branch, parent_id="c1", source="fork"))
    saver.commit(commit("f2", "f1", branch_key=branch))
    return saver


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["f2", "f1", "c3", "c2", "c1"]),
        ({"branch": "main"}, ["c3", "c2", "c1"]),
        ({"branch": "b"}, ["f2", "f1", "c1"]),
        ({"branch": "unknown"}, []),
        ({"namespace": "unknown"}, []),
        ({"limit": 2}, ["f2", "f1"]),
        ({"limit": 0}, []),
        ({"limit": 9, "branch": "b"}, ["f2", "f1", "c1"]),
        ({"before": "c3"}, ["c2", "c1"]),
        ({"before": "c1"}, []),
        ({"before": "f1", "branch": "b"}, ["c1"]),
        ({"before": "f2", "branch": "b", "limit": 1}, ["f1"]),
    ],
)
def test_a_history_is_newest_first_and_follows_the_parents(
    forked: InMemorySaver, options: Any, expected: list[str]
) -> None:
    assert ids(forked.history("thread", **options)) == expected


@pytest.mark.parametrize(
    "options", [{"before": "c9"}, {"before": "c2", "branch": "b"}, {"before": "f1", "branch": "main"}]
)
def test_a_history_before_a_checkpoint_outside_it_is_refused(forked: InMemorySaver, options: Any) -> None:
    with pytest.raises(CheckpointNotFound, match=f"'thread' has no checkpoint '{options['before']}'"):
        forked.history("thread", **options)


def test_each_branch_has_its_own_head(forked: InMemorySaver) -> None:
    assert (load(forked).id, load(forked, branch="b").id) == ("c3", "f2")
    assert forked.branches("thread") == ["b", "main"]
    forked.commit(commit("c4", "c3"))
    assert load(forked, branch="b").id == "f2"


def test_namespaces_are_isolated_from_each_other(saver: InMemorySaver) -> None:
    inner = LINE._replace(namespace="sub:1")
    saver.commit(commit("s1", branch_key=inner))
    saver.commit(commit("s2", branch_key=inner._replace(branch="b")))
    assert (load(saver).id, load(saver, namespace="sub:1").id) == ("c3", "s1")
    assert (saver.branches("thread"), saver.branches("thread", namespace="sub:1")) == (["main"], ["b", "main"])
    assert ids(saver.history("thread", namespace="sub:1")) == ["s2", "s1"]
    assert saver.load("thread", checkpoint_id=CheckpointId("s1")) is None


@pytest.mark.parametrize(
    ("dropped", "remaining"),
    [
        ((), ["a:1", "a:10", "a:1:2", "a:1|b:1", "b:1"]),
        (("a:1",), ["a:10", "b:1"]),
        (("a:1|b:1",), ["a:1", "a:10", "a:1:2", "b:1"]),
        (("a:1", "b:1"), ["a:10"]),
        (("unknown",), ["a:1", "a:10", "a:1:2", "a:1|b:1", "b:1"]),
    ],
)
def test_a_commit_drops_namespaces_and_the_namespaces_inside_them(
    saver: InMemorySaver, dropped: Any, remaining: list[str]
) -> None:
    namespaces = ["a:1", "a:10", "a:1:2", "a:1|b:1", "b:1"]
    for namespace in namespaces:
        saver.commit(commit("s1", branch_key=LINE._replace(namespace=namespace)))
    saver.commit(commit("c4", "c3", dropped_namespaces=dropped))
    assert [namespace for namespace in namespaces if saver.load("thread", namespace=namespace)] == remaining
    assert [namespace for namespace in namespaces if saver.branches("thread", namespace=namespace)] == remaining
    assert load(saver).id == "c4"


def test_a_dropped_namespace_can_be_started_again(saver: InMemorySaver) -> None:
    inner = LINE._replace(namespace="a:1")
    saver.commit(commit("s1", branch_key=inner))
    saver.commit(commit("c4", "c3", dropped_namespaces=("a:1",)))
    saver.commit(commit("s1", branch_key=inner))
    assert ids(saver.history("thread", namespace="a:1")) == ["s1"]


# -- results


def test_results_are_added_to_one_checkpoint(saver: InMemorySaver) -> None:
    question = Interrupt(id=InterruptId("1"), value="?")
    saver.save_results(LINE, CheckpointId("c2"), Pending(interrupts={TASK: (question,)}))
    saver.save_results(LINE, CheckpointId("c2"), Pending(answers={question.id: None}, paused=True))

    assert load(saver, checkpoint_id="c2").pending == Pending(
        interrupts={TASK: (question,)}, answers={question.id: None}, paused=True
    )
    assert not load(saver).pending


def test_saving_results_does_not_change_a_loaded_checkpoint(saver: InMemorySaver) -> None:
    before = load(saver)
    saver.save_results(LINE, before.id, Pending(attempts={TASK: 1}))
    assert (before.pending, load(saver).pending) == (Pending(), Pending(attempts={TASK: 1}))


# -- copies


def test_a_copy_of_a_thread_has_all_its_checkpoints_branches_and_namespaces(forked: InMemorySaver) -> None:
    forked.commit(commit("s1", branch_key=LINE._replace(namespace="sub:1")))
    forked.save_results(LINE, CheckpointId("c3"), Pending(attempts={TASK: 1}))
    forked.copy_thread("thread", "copy")

    assert ids(forked.history("copy")) == ids(forked.history("thread"))
    assert forked.branches("copy") == ["b", "main"]
    assert load(forked, "copy", namespace="sub:1").branch_key == BranchKey("copy", "sub:1")
    assert {saved.branch_key.thread_id for saved in forked.history("copy")} == {"copy"}
    assert {saved.branch_key.thread_id for saved in forked.history("thread")} == {"thread"}
    assert load(forked, "copy").pending == Pending(attempts={TASK: 1})


def test_a_copy_and_its_original_are_independent(saver: InMemorySaver) -> None:
    saver.copy_thread("thread", "copy")
    saver.commit(commit("c4", "c3"))
    saver.commit(commit("d4", "c3", branch_key=BranchKey("copy")))
    saver.save_results(BranchKey("copy"), CheckpointId("c1"), Pending(attempts={TASK: 1}))

    assert (load(saver).id, load(saver, "copy").id) == ("c4", "d4")
    assert not load(saver, checkpoint_id="c1").pending
    saver.delete_thread("thread")
    assert ids(saver.history("copy")) == ["d4", "c3", "c2", "c1"]


def test_a_copy_of_a_leased_thread_has_no_lease(saver: InMemorySaver) -> None:
    saver.renew("thread", lease_request("run", claims=True))
    saver.copy_thread("thread", "copy")
    assert saver.lease("copy") is None


def test_copying_onto_an_existing_thread_is_refused(saver: InMemorySaver) -> None:
    saver.commit(commit("o1", branch_key=BranchKey("other")))
    with pytest.raises(CheckpointConflict, match="'other' is at checkpoint o1"):
        saver.copy_thread("thread", "other")
    assert ids(saver.history("other")) == ["o1"]


def test_copying_a_missing_thread_is_refused(saver: InMemorySaver) -> None:
    with pytest.raises(CheckpointNotFound, match="Thread 'unknown' does not exist"):
        saver.copy_thread("unknown", "copy")
    assert saver.load("copy") is None


def test_a_deleted_thread_can_be_started_again(saver: InMemorySaver) -> None:
    saver.renew("thread", lease_request("run", claims=True))
    saver.commit(commit("c4", "c3", log=log("run")))
    saver.delete_thread("thread")
    assert (saver.load("thread"), saver.lease("thread"), saver.events("thread")) == (None, None, [])
    saver.commit(commit("n1"))
    assert ids(saver.history("thread")) == ["n1"]


# -- leases


def test_renew_claims_extends_and_releases_a_lease(saver: InMemorySaver) -> None:
    assert saver.lease("thread") is None
    assert saver.renew("thread", lease_request("run", claims=True)) == Lease("run", ANY, NOW + MINUTE)
    assert saver.renew("thread", lease_request("run", at=MINUTE)) == Lease("run", ANY, NOW + 2 * MINUTE)
    assert saver.lease("thread") == Lease("run", ANY, NOW + 2 * MINUTE)
    assert saver.renew("thread", lease_request("run", length=None)) is None
    assert saver.lease("thread") is None


def test_every_write_can_claim_extend_or_release_a_lease(saver: InMemorySaver) -> None:
    saver.commit(commit("c4", "c3", hold=lease_request("run", claims=True)))
    assert saver.lease("thread") == Lease("run", ANY, NOW + MINUTE)
    saver.save_results(LINE, CheckpointId("c4"), Pending(paused=True), hold=lease_request("run", at=MINUTE))
    assert saver.lease("thread") == Lease("run", ANY, NOW + 2 * MINUTE)
    saver.commit(commit("c5", "c4", hold=lease_request("run", length=None)))
    assert saver.lease("thread") is None


def test_a_write_without_a_lease_request_keeps_the_lease(saver: InMemorySaver) -> None:
    lease = saver.renew("thread", lease_request("run", claims=True))
    assert lease is not None
    saver.commit(commit("c4", "c3"))
    saver.save_results(LINE, CheckpointId("c4"), Pending(paused=True))
    assert saver.lease("thread") == lease._replace(epoch=ANY)


def write(saver: InMemorySaver, method: str, request: LeaseRequest) -> None:
    if method == "renew":
        saver.renew("thread", request)
    elif method == "commit":
        saver.commit(commit("c4", "c3", hold=request, log=log("run"), pending=Pending(paused=True)))
    else:
        saver.save_results(LINE, CheckpointId("c3"), Pending(paused=True), hold=request, log=log("run"))


@pytest.mark.parametrize("method", ["renew", "commit", "save_results"])
def test_writing_to_a_thread_leased_by_another_run_is_refused(saver: InMemorySaver, method: str) -> None:
    lease = saver.renew("thread", lease_request("first", claims=True))
    with pytest.raises(ThreadBusy, match="'thread' is being advanced by run 'first'"):
        write(saver, method, lease_request("second", claims=True, at=MINUTE / 2))
    assert (load(saver).id, load(saver).pending, saver.events("thread")) == ("c3", Pending(), [])
    assert saver.lease("thread") == lease


@pytest.mark.parametrize("method", ["renew", "commit", "save_results"])
@pytest.mark.parametrize(
    ("taken_over", "reason"),
    [(True, "run 'second' has taken it over"), (False, "no run does")],
    ids=["taken-over", "released"],
)
def test_a_run_that_has_lost_its_lease_can_write_nothing(
    saver: InMemorySaver, method: str, taken_over: bool, reason: str
) -> None:
    saver.renew("thread", lease_request("first", claims=True))
    if taken_over:
        saver.renew("thread", lease_request("second", claims=True, at=MINUTE))
    else:
        saver.renew("thread", lease_request("first", length=None))
    lease = saver.lease("thread")

    with pytest.raises(LeaseLost, match=f"'first' no longer holds thread 'thread': {reason}"):
        write(saver, method, lease_request("first", at=MINUTE))
    assert (load(saver).id, load(saver).pending, saver.events("thread")) == ("c3", Pending(), [])
    assert saver.lease("thread") == lease


@pytest.mark.parametrize(
    ("at", "is_claimed"),
    [(NO_TIME, False), (MINUTE - timedelta(microseconds=1), False), (MINUTE, True), (2 * MINUTE, True)],
)
def test_a_thread_can_be_claimed_from_the_instant_its_lease_ends(
    saver: InMemorySaver, at: timedelta, is_claimed: bool
) -> None:
    saver.renew("thread", lease_request("first", claims=True))
    if is_claimed:
        assert saver.renew("thread", lease_request("second", claims=True, at=at)) == Lease(
            "second", ANY, NOW + at + MINUTE
        )
    else:
        with pytest.raises(ThreadBusy):
            saver.renew("thread", lease_request("second", claims=True, at=at))


def test_an_expired_lease_can_be_renewed_if_no_other_run_claimed_it(saver: InMemorySaver) -> None:
    saver.renew("thread", lease_request("run", claims=True))
    assert saver.renew("thread", lease_request("run", at=5 * MINUTE)) == Lease("run", ANY, NOW + 6 * MINUTE)


def test_an_expired_lease_is_still_returned(saver: InMemorySaver) -> None:
    lease = saver.renew("thread", lease_request("run", claims=True, length=NO_TIME))
    assert lease is not None
    assert saver.lease("thread") == lease


def test_the_epoch_grows_with_every_claim(saver: InMemorySaver) -> None:
    epochs: list[int] = []
    for run in ("first", "second", "first"):
        lease = saver.renew("thread", lease_request(run, claims=True))
        assert lease is not None
        epochs.append(lease.epoch)
        saver.renew("thread", lease_request(run, length=None))
    assert epochs == sorted(set(epochs))
    assert len(epochs) == 3


def test_claiming_a_lease_again_extends_it(saver: InMemorySaver) -> None:
    saver.renew("thread", lease_request("run", claims=True))
    assert saver.renew("thread", lease_request("run", claims=True, at=MINUTE)) == Lease("run", ANY, NOW + 2 * MINUTE)


def test_a_request_to_the_owner_stays_on_the_lease_until_it_is_released(saver: InMemorySaver) -> None:
    assert saver.want("thread", "interrupt") is None
    saver.renew("thread", lease_request("run", claims=True))
    expected = Lease("run", ANY, NOW + MINUTE, "rollback")
    assert saver.want("thread", "rollback") == expected
    assert saver.lease("thread") == expected
    assert saver.renew("thread", lease_request("run", at=MINUTE)) == expected._replace(until=NOW + 2 * MINUTE)

    saver.renew("thread", lease_request("run", length=None))
    assert saver.renew("thread", lease_request("next", claims=True)) == Lease("next", ANY, NOW + MINUTE)


def test_a_run_that_takes_over_does_not_get_the_request_to_the_previous_owner(saver: InMemorySaver) -> None:
    saver.renew("thread", lease_request("run", claims=True))
    saver.want("thread", "interrupt")
    assert saver.renew("thread", lease_request("next", claims=True, at=MINUTE)) == Lease("next", ANY, NOW + 2 * MINUTE)


def test_each_thread_has_its_own_lease(saver: InMemorySaver) -> None:
    saver.renew("thread", lease_request("first", claims=True))
    saver.copy_thread("thread", "other")
    assert saver.renew("other", lease_request("second", claims=True)) == Lease("second", ANY, NOW + MINUTE)


def test_a_missing_thread_cannot_be_leased(saver: InMemorySaver) -> None:
    assert saver.renew("unknown", lease_request("first", claims=True)) is None
    assert saver.lease("unknown") is None


# -- the event log


@pytest.fixture
def logged(saver: InMemorySaver) -> InMemorySaver:
    """Return a saver with the events of two runs, written by commits and by `save_results`."""
    saver.commit(commit("c4", "c3", log=log("one")))
    saver.save_results(LINE, CheckpointId("c4"), Pending(), log=log("two", 2))
    saver.commit(commit("c5", "c4", log=log("one", 3)))
    return saver


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["one 1", "one 2", "one 3", "one 4", "two 1", "two 2"]),
        ({"limit": 2}, ["one 1", "one 2"]),
        ({"limit": 0}, []),
        ({"run_id": "one"}, ["one 1", "one 2", "one 3", "one 4"]),
        ({"run_id": "two"}, ["two 1", "two 2"]),
        ({"run_id": "one", "after": 2}, ["one 3", "one 4"]),
        ({"run_id": "one", "after": 1, "limit": 1}, ["one 2"]),
        ({"run_id": "one", "after": 4}, []),
        ({"run_id": "three"}, []),
    ],
)
def test_events_are_in_order_and_numbered_by_run(logged: InMemorySaver, options: Any, expected: list[str]) -> None:
    assert [f"{event.run_id} {event.seq}" for event in logged.events("thread", **options)] == expected


def test_changing_the_returned_list_of_events_does_not_change_the_log(logged: InMemorySaver) -> None:
    logged.events("thread").clear()
    assert len(logged.events("thread")) == 6


def test_each_thread_has_its_own_event_log(logged: InMemorySaver) -> None:
    logged.commit(commit("o1", branch_key=BranchKey("other"), log=log("one")))
    assert [event.seq for event in logged.events("other")] == [1]
    assert len(logged.events("thread")) == 6


# -- several threads


@pytest.mark.parametrize(
    "read",
    [
        lambda saver: saver.load("thread"),
        lambda saver: saver.lease("thread"),
        lambda saver: saver.branches("thread"),
        lambda saver: saver.namespaces("thread"),
        lambda saver: saver.history("thread"),
        lambda saver: saver.threads(),
        lambda saver: saver.events("thread"),
    ],
)
def test_reads_wait_for_the_lock(saver: InMemorySaver, read: Any) -> None:
    """No write can fall within a read, so a claim sees a checkpoint together with the epoch of its thread."""
    reader = threading.Thread(target=read, args=(saver,), daemon=True)
    with saver._lock:
        reader.start()
        reader.join(0.05)
        assert reader.is_alive()
    reader.join(600)
    assert not reader.is_alive()

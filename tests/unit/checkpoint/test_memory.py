"""The saver in memory: heads, branches, holds, and the log of runs."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY  # an epoch: see the conformance suite

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
JOURNAL = {(TASK, "step", 0): JournalEntry("given", 1)}
NO_TIME = timedelta()
MINUTE = timedelta(minutes=1)


def commit(identity: str, after: str | None = None, *, branch_key: BranchKey = LINE, **options: Any) -> Commit:
    facts: dict[str, Any] = {
        "branch_key": branch_key,
        "expected": after,
        "parent_id": after,
        "checkpoint": Checkpoint(identity, 0, {"at": identity}, (Task("a", NO_ARG, identity, 0),)),
        "deltas": None,
        "source": "loop",
        "run_id": "run",
        "created_at": NOW,
    }
    return Commit(**{**facts, **options})


def hold(
    owner: str, *, claims: bool = False, at: timedelta = NO_TIME, length: timedelta | None = MINUTE
) -> LeaseRequest:
    """The hold of a run at some time after the start, for a minute; with no length it lets go."""
    return LeaseRequest(owner, NOW + at, None if length is None else NOW + at + length, claims)


def log(run: str, count: int = 1) -> Log:
    return Log(run, NOW, tuple(("task_finished", number, None, None, None) for number in range(count)))


def loaded(saver: InMemorySaver, thread_id: str = "thread", **options: Any) -> SavedCheckpoint:
    saved = saver.load(thread_id, **options)
    assert saved is not None
    return saved


def ids(found: Any) -> list[str]:
    return [one.id for one in found]


@pytest.fixture
def saver() -> InMemorySaver:
    """Has a thread of three checkpoints."""
    filled = InMemorySaver()
    for identity, after in [("c1", None), ("c2", "c1"), ("c3", "c2")]:
        filled.commit(commit(identity, after))
    return filled


# -- opening and closing


def test_there_is_nothing_to_connect_to() -> None:
    with InMemorySaver.from_conn_string("anywhere") as saver:
        saver.commit(commit("c1"))
    assert loaded(saver).id == "c1"
    assert InMemorySaver.from_conn_string().load("thread") is None


def test_a_saver_of_ones_own_class_is_made_and_entered_as_such() -> None:
    class Own(InMemorySaver):
        closed = False

        def close(self) -> None:
            self.closed = True

    with Own.from_conn_string() as saver:
        assert (type(saver), saver.closed) == (Own, False)
    assert saver.closed


# -- loading


def test_what_was_committed_is_kept_as_the_very_object(saver: InMemorySaver) -> None:
    metadata = {"nodes": ["a"]}
    given = commit("c4", "c3", metadata=metadata, source="update", run_id="other")
    assert saver.commit(given) == "c4"

    saved = loaded(saver)
    assert saved.checkpoint is given.checkpoint
    assert (saved.branch_key, saved.parent_id, saved.source, saved.run_id) == (LINE, "c3", "update", "other")
    assert (saved.created_at, saved.metadata, saved.pending) == (NOW, metadata, Pending())


@pytest.mark.parametrize(
    ("options", "found"),
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
def test_a_head_or_any_checkpoint_can_be_loaded(saver: InMemorySaver, options: Any, found: str | None) -> None:
    saved = saver.load("thread", **options)
    assert (saved.id if saved is not None else None) == found


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
def test_nothing_is_known_of_an_unknown_thread(saver: InMemorySaver, method: str, answer: Any) -> None:
    assert getattr(saver, method)("nobody") == answer
    assert saver.want("nobody", "interrupt") is None


# -- committing


@pytest.mark.parametrize(("expected", "said"), [(None, "none"), ("c2", "c2"), ("c9", "c9")])
def test_a_commit_on_another_head_is_refused_and_nothing_is_written(
    saver: InMemorySaver, expected: str | None, said: str
) -> None:
    given = commit("c4", expected, hold=hold("run", claims=True), log=log("run"), dropped_namespaces=("",))
    with pytest.raises(CheckpointConflict, match=f"'thread' is at checkpoint c3, and {said} was read"):
        saver.commit(given)
    assert ids(saver.history("thread")) == ["c3", "c2", "c1"]
    assert (saver.lease("thread"), saver.events("thread")) == (None, [])


def test_what_is_already_known_about_the_new_frontier_is_saved_with_it(saver: InMemorySaver) -> None:
    known = Pending(attempts={TASK: 1})
    saver.commit(commit("c4", "c3", pending=known))
    assert loaded(saver).pending == known


def test_a_commit_that_follows_drops_journal_and_attempts_of_the_tasks_it_consumes(
    saver: InMemorySaver,
) -> None:
    saver.save_results(LINE, CheckpointId("c3"), Pending(journal=JOURNAL, attempts={TASK: 1}))
    saver.commit(commit("c4", "c3"))
    assert loaded(saver, checkpoint_id="c3").pending == Pending()


def test_a_fork_leaves_the_journal_of_what_it_was_forked_from(saver: InMemorySaver) -> None:
    saver.save_results(LINE, CheckpointId("c3"), Pending(journal=JOURNAL))
    saver.commit(commit("f1", None, branch_key=LINE._replace(branch="b"), parent_id="c3", source="fork"))
    assert loaded(saver, checkpoint_id="c3").pending.journal == JOURNAL


# -- branches and namespaces


@pytest.fixture
def forked(saver: InMemorySaver) -> InMemorySaver:
    """Has a branch with two checkpoints that left the main one after the first."""
    branch = LINE._replace(branch="b")
    saver.commit(commit("f1", None, branch_key=branch, parent_id="c1", source="fork"))
    saver.commit(commit("f2", "f1", branch_key=branch))
    return saver


@pytest.mark.parametrize(
    ("options", "found"),
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
def test_a_history_is_newest_first_and_follows_the_ancestors(
    forked: InMemorySaver, options: Any, found: list[str]
) -> None:
    assert ids(forked.history("thread", **options)) == found


@pytest.mark.parametrize(
    "options", [{"before": "c9"}, {"before": "c2", "branch": "b"}, {"before": "f1", "branch": "main"}]
)
def test_a_history_begins_before_one_of_its_own(forked: InMemorySaver, options: Any) -> None:
    with pytest.raises(CheckpointNotFound, match=f"'thread' has no checkpoint '{options['before']}'"):
        forked.history("thread", **options)


def test_branches_have_heads_of_their_own(forked: InMemorySaver) -> None:
    assert (loaded(forked).id, loaded(forked, branch="b").id) == ("c3", "f2")
    assert forked.branches("thread") == ["b", "main"]
    forked.commit(commit("c4", "c3"))
    assert loaded(forked, branch="b").id == "f2"


def test_namespaces_know_nothing_of_each_other(saver: InMemorySaver) -> None:
    inner = LINE._replace(namespace="sub:1")
    saver.commit(commit("s1", branch_key=inner))
    saver.commit(commit("s2", branch_key=inner._replace(branch="b")))
    assert (loaded(saver).id, loaded(saver, namespace="sub:1").id) == ("c3", "s1")
    assert (saver.branches("thread"), saver.branches("thread", namespace="sub:1")) == (["main"], ["b", "main"])
    assert ids(saver.history("thread", namespace="sub:1")) == ["s2", "s1"]
    assert saver.load("thread", checkpoint_id=CheckpointId("s1")) is None


@pytest.mark.parametrize(
    ("drops", "left"),
    [
        ((), ["a:1", "a:10", "a:1:2", "a:1|b:1", "b:1"]),
        (("a:1",), ["a:10", "b:1"]),
        (("a:1|b:1",), ["a:1", "a:10", "a:1:2", "b:1"]),
        (("a:1", "b:1"), ["a:10"]),
        (("unknown",), ["a:1", "a:10", "a:1:2", "a:1|b:1", "b:1"]),
    ],
)
def test_a_commit_drops_namespaces_with_those_inside(saver: InMemorySaver, drops: Any, left: list[str]) -> None:
    spaces = ["a:1", "a:10", "a:1:2", "a:1|b:1", "b:1"]
    for space in spaces:
        saver.commit(commit("s1", branch_key=LINE._replace(namespace=space)))
    saver.commit(commit("c4", "c3", dropped_namespaces=drops))
    assert [space for space in spaces if saver.load("thread", namespace=space)] == left
    assert [space for space in spaces if saver.branches("thread", namespace=space)] == left
    assert loaded(saver).id == "c4"


def test_a_dropped_namespace_can_begin_anew(saver: InMemorySaver) -> None:
    inner = LINE._replace(namespace="a:1")
    saver.commit(commit("s1", branch_key=inner))
    saver.commit(commit("c4", "c3", dropped_namespaces=("a:1",)))
    saver.commit(commit("s1", branch_key=inner))
    assert ids(saver.history("thread", namespace="a:1")) == ["s1"]


# -- results


def test_results_are_added_to_those_of_one_checkpoint(saver: InMemorySaver) -> None:
    asked = Interrupt(id=InterruptId("1"), value="?")
    saver.save_results(LINE, CheckpointId("c2"), Pending(interrupts={TASK: (asked,)}))
    saver.save_results(LINE, CheckpointId("c2"), Pending(answers={asked.id: None}, paused=True))

    assert loaded(saver, checkpoint_id="c2").pending == Pending(
        interrupts={TASK: (asked,)}, answers={asked.id: None}, paused=True
    )
    assert not loaded(saver).pending


def test_what_was_loaded_before_does_not_change(saver: InMemorySaver) -> None:
    before = loaded(saver)
    saver.save_results(LINE, before.id, Pending(attempts={TASK: 1}))
    assert (before.pending, loaded(saver).pending) == (Pending(), Pending(attempts={TASK: 1}))


# -- copies


def test_a_copy_has_all_checkpoints_branches_and_namespaces_under_the_new_name(forked: InMemorySaver) -> None:
    forked.commit(commit("s1", branch_key=LINE._replace(namespace="sub:1")))
    forked.save_results(LINE, CheckpointId("c3"), Pending(attempts={TASK: 1}))
    forked.copy_thread("thread", "copy")

    assert ids(forked.history("copy")) == ids(forked.history("thread"))
    assert forked.branches("copy") == ["b", "main"]
    assert loaded(forked, "copy", namespace="sub:1").branch_key == BranchKey("copy", "sub:1")
    assert {one.branch_key.thread_id for one in forked.history("copy")} == {"copy"}
    assert {one.branch_key.thread_id for one in forked.history("thread")} == {"thread"}
    assert loaded(forked, "copy").pending == Pending(attempts={TASK: 1})


def test_a_copy_and_its_original_go_their_own_ways(saver: InMemorySaver) -> None:
    saver.copy_thread("thread", "copy")
    saver.commit(commit("c4", "c3"))
    saver.commit(commit("d4", "c3", branch_key=BranchKey("copy")))
    saver.save_results(BranchKey("copy"), CheckpointId("c1"), Pending(attempts={TASK: 1}))

    assert (loaded(saver).id, loaded(saver, "copy").id) == ("c4", "d4")
    assert not loaded(saver, checkpoint_id="c1").pending
    saver.delete_thread("thread")
    assert ids(saver.history("copy")) == ["d4", "c3", "c2", "c1"]


def test_a_copy_is_held_by_nobody(saver: InMemorySaver) -> None:
    saver.renew("thread", hold("run", claims=True))
    saver.copy_thread("thread", "copy")
    assert saver.lease("copy") is None


def test_a_thread_that_exists_is_not_copied_over(saver: InMemorySaver) -> None:
    saver.commit(commit("o1", branch_key=BranchKey("other")))
    with pytest.raises(CheckpointConflict, match="'other' is at checkpoint o1"):
        saver.copy_thread("thread", "other")
    assert ids(saver.history("other")) == ["o1"]


def test_what_is_not_there_cannot_be_copied(saver: InMemorySaver) -> None:
    with pytest.raises(CheckpointNotFound, match="Thread 'nobody' does not exist"):
        saver.copy_thread("nobody", "copy")
    assert saver.load("copy") is None


def test_a_deleted_thread_can_begin_anew(saver: InMemorySaver) -> None:
    saver.renew("thread", hold("run", claims=True))
    saver.commit(commit("c4", "c3", log=log("run")))
    saver.delete_thread("thread")
    assert (saver.load("thread"), saver.lease("thread"), saver.events("thread")) == (None, None, [])
    saver.commit(commit("n1"))
    assert ids(saver.history("thread")) == ["n1"]


# -- holds


def test_a_run_claims_a_thread_keeps_it_and_lets_go(saver: InMemorySaver) -> None:
    assert saver.lease("thread") is None
    assert saver.renew("thread", hold("run", claims=True)) == Lease("run", ANY, NOW + MINUTE)
    assert saver.renew("thread", hold("run", at=MINUTE)) == Lease("run", ANY, NOW + 2 * MINUTE)
    assert saver.lease("thread") == Lease("run", ANY, NOW + 2 * MINUTE)
    assert saver.renew("thread", hold("run", length=None)) is None
    assert saver.lease("thread") is None


def test_every_write_may_take_keep_or_let_go(saver: InMemorySaver) -> None:
    saver.commit(commit("c4", "c3", hold=hold("run", claims=True)))
    assert saver.lease("thread") == Lease("run", ANY, NOW + MINUTE)
    saver.save_results(LINE, CheckpointId("c4"), Pending(paused=True), hold=hold("run", at=MINUTE))
    assert saver.lease("thread") == Lease("run", ANY, NOW + 2 * MINUTE)
    saver.commit(commit("c5", "c4", hold=hold("run", length=None)))
    assert saver.lease("thread") is None


def test_a_write_without_a_hold_leaves_the_lease_alone(saver: InMemorySaver) -> None:
    lease = saver.renew("thread", hold("run", claims=True))
    assert lease is not None
    saver.commit(commit("c4", "c3"))
    saver.save_results(LINE, CheckpointId("c4"), Pending(paused=True))
    assert saver.lease("thread") == lease._replace(epoch=ANY)


def write(saver: InMemorySaver, how: str, given: LeaseRequest) -> None:
    if how == "renew":
        saver.renew("thread", given)
    elif how == "commit":
        saver.commit(commit("c4", "c3", hold=given, log=log("run"), pending=Pending(paused=True)))
    else:
        saver.save_results(LINE, CheckpointId("c3"), Pending(paused=True), hold=given, log=log("run"))


@pytest.mark.parametrize("how", ["renew", "commit", "save_results"])
def test_a_thread_that_another_run_holds_is_busy_and_nothing_is_written(saver: InMemorySaver, how: str) -> None:
    lease = saver.renew("thread", hold("first", claims=True))
    with pytest.raises(ThreadBusy, match="'thread' is being advanced by run 'first'"):
        write(saver, how, hold("second", claims=True, at=MINUTE / 2))
    assert (loaded(saver).id, loaded(saver).pending, saver.events("thread")) == ("c3", Pending(), [])
    assert saver.lease("thread") == lease


@pytest.mark.parametrize("how", ["renew", "commit", "save_results"])
@pytest.mark.parametrize(
    ("taken", "holder"), [(True, "run 'second' has taken it over"), (False, "no run does")], ids=["taken", "ended"]
)
def test_a_run_that_has_lost_its_hold_is_fenced_off_and_nothing_is_written(
    saver: InMemorySaver, how: str, taken: bool, holder: str
) -> None:
    saver.renew("thread", hold("first", claims=True))
    if taken:
        saver.renew("thread", hold("second", claims=True, at=MINUTE))
    else:
        saver.renew("thread", hold("first", length=None))
    lease = saver.lease("thread")

    with pytest.raises(LeaseLost, match=f"'first' no longer holds thread 'thread': {holder}"):
        write(saver, how, hold("first", at=MINUTE))
    assert (loaded(saver).id, loaded(saver).pending, saver.events("thread")) == ("c3", Pending(), [])
    assert saver.lease("thread") == lease


@pytest.mark.parametrize(
    ("at", "taken"), [(NO_TIME, False), (MINUTE - timedelta(microseconds=1), False), (MINUTE, True), (2 * MINUTE, True)]
)
def test_a_thread_may_be_claimed_from_the_instant_at_which_its_lease_ends(
    saver: InMemorySaver, at: timedelta, taken: bool
) -> None:
    saver.renew("thread", hold("first", claims=True))
    if taken:
        assert saver.renew("thread", hold("second", claims=True, at=at)) == Lease("second", ANY, NOW + at + MINUTE)
    else:
        with pytest.raises(ThreadBusy):
            saver.renew("thread", hold("second", claims=True, at=at))


def test_a_lapsed_lease_that_nobody_has_claimed_can_still_be_renewed(saver: InMemorySaver) -> None:
    saver.renew("thread", hold("run", claims=True))
    assert saver.renew("thread", hold("run", at=5 * MINUTE)) == Lease("run", ANY, NOW + 6 * MINUTE)


def test_a_lapsed_lease_is_still_shown(saver: InMemorySaver) -> None:
    lease = saver.renew("thread", hold("run", claims=True, length=NO_TIME))
    assert lease is not None
    assert saver.lease("thread") == lease


def test_the_epoch_grows_with_every_run_that_takes_the_thread(saver: InMemorySaver) -> None:
    epochs: list[int] = []
    for run in ("first", "second", "first"):
        lease = saver.renew("thread", hold(run, claims=True))
        assert lease is not None
        epochs.append(lease.epoch)
        saver.renew("thread", hold(run, length=None))
    assert epochs == sorted(set(epochs))
    assert len(epochs) == 3


def test_claiming_what_one_has_already_is_keeping_it(saver: InMemorySaver) -> None:
    saver.renew("thread", hold("run", claims=True))
    assert saver.renew("thread", hold("run", claims=True, at=MINUTE)) == Lease("run", ANY, NOW + 2 * MINUTE)


def test_what_is_wanted_of_the_holder_is_told_until_it_lets_go(saver: InMemorySaver) -> None:
    assert saver.want("thread", "interrupt") is None
    saver.renew("thread", hold("run", claims=True))
    wanted = Lease("run", ANY, NOW + MINUTE, "rollback")
    assert saver.want("thread", "rollback") == wanted
    assert saver.lease("thread") == wanted
    assert saver.renew("thread", hold("run", at=MINUTE)) == wanted._replace(until=NOW + 2 * MINUTE)

    saver.renew("thread", hold("run", length=None))
    assert saver.renew("thread", hold("next", claims=True)) == Lease("next", ANY, NOW + MINUTE)


def test_a_run_that_takes_over_is_not_told_what_was_wanted_of_the_former(saver: InMemorySaver) -> None:
    saver.renew("thread", hold("run", claims=True))
    saver.want("thread", "interrupt")
    assert saver.renew("thread", hold("next", claims=True, at=MINUTE)) == Lease("next", ANY, NOW + 2 * MINUTE)


def test_threads_are_held_one_by_one(saver: InMemorySaver) -> None:
    saver.renew("thread", hold("first", claims=True))
    saver.copy_thread("thread", "other")
    assert saver.renew("other", hold("second", claims=True)) == Lease("second", ANY, NOW + MINUTE)


def test_there_is_no_lease_on_a_thread_that_does_not_exist(saver: InMemorySaver) -> None:
    assert saver.renew("nowhere", hold("first", claims=True)) is None
    assert saver.lease("nowhere") is None


# -- the log


@pytest.fixture
def logged(saver: InMemorySaver) -> InMemorySaver:
    """Has a log of two runs, written by commits and with results."""
    saver.commit(commit("c4", "c3", log=log("one")))
    saver.save_results(LINE, CheckpointId("c4"), Pending(), log=log("two", 2))
    saver.commit(commit("c5", "c4", log=log("one", 3)))
    return saver


@pytest.mark.parametrize(
    ("options", "found"),
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
def test_the_log_is_in_order_and_numbered_run_by_run(logged: InMemorySaver, options: Any, found: list[str]) -> None:
    assert [f"{event.run_id} {event.seq}" for event in logged.events("thread", **options)] == found


def test_what_is_done_with_the_answer_does_not_change_the_log(logged: InMemorySaver) -> None:
    logged.events("thread").clear()
    assert len(logged.events("thread")) == 6


def test_the_log_is_that_of_one_thread(logged: InMemorySaver) -> None:
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
def test_what_is_read_is_of_one_moment(saver: InMemorySaver, read: Any) -> None:
    """Nothing is written between two looks of one reading, so a claim sees a checkpoint and the epoch that it has."""
    reading = threading.Thread(target=read, args=(saver,), daemon=True)
    with saver._lock:
        reading.start()
        reading.join(0.05)
        assert reading.is_alive()
    reading.join(600)
    assert not reading.is_alive()

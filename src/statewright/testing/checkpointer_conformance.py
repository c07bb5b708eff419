"""What every checkpointer must do: derive from the suite, say how to make yours, and let pytest collect it.

class TestMySaver(CheckpointerConformance):
    def make_saver(self):
        return MySaver()
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from statewright.checkpoint import (
    NO_ARG,
    BranchKey,
    Checkpoint,
    Checkpointer,
    Commit,
    Interrupt,
    JournalEntry,
    LeaseRequest,
    Pending,
    SavedCheckpoint,
    Task,
    TaskResult,
    add_holder,
    discard_holder,
    new_owner,
)
from statewright.errors import CheckpointConflict, CheckpointNotFound, JournalConflict, LeaseLost, ThreadBusy
from statewright.events import Log
from statewright.futures import MaybeFuture, is_future
from statewright.ids import CheckpointId, InterruptId, draw_checkpoint_id

T = TypeVar("T")
LINE = BranchKey("thread")


def answer(given: MaybeFuture[T]) -> T:
    """The answer of a saver, waited for if it comes later."""
    return given.result() if is_future(given) else cast(T, given)


def commit_after(
    parent: str | None, *, line: BranchKey = LINE, n: int = 0, expected: Any = ..., drops: tuple[str, ...] = ()
) -> Commit:
    """A commit that follows `parent`, which is the head unless `expected` says otherwise."""
    identity = draw_checkpoint_id()
    return Commit(
        line=line,
        expected=cast(Any, parent) if expected is ... else expected,
        parent_id=CheckpointId(parent) if parent is not None else None,
        checkpoint=Checkpoint(identity, n, {"n": n}, (Task("a", NO_ARG, identity, 0),)),
        deltas={"n": n},
        source="loop",
        run_id="run",
        created_at=datetime.now(UTC),
        metadata={"nodes": ["a"]},
        drops=drops,
    )


class CheckpointerConformance:
    """The promises of the port, one test each."""

    def make_saver(self) -> Checkpointer:
        """A new, empty saver."""
        raise NotImplementedError

    def chain(self, saver: Checkpointer, count: int, line: BranchKey = LINE) -> list[CheckpointId]:
        """Commit `count` checkpoints, each on the one before."""
        ids: list[CheckpointId] = []
        for n in range(count):
            ids.append(answer(saver.commit(commit_after(ids[-1] if ids else None, line=line, n=n))))
        return ids

    def test_nothing_is_there_at_first(self) -> None:
        saver = self.make_saver()
        assert answer(saver.load("thread")) is None
        assert list(answer(saver.history("thread"))) == []
        assert list(answer(saver.branches("thread"))) == []
        assert list(answer(saver.namespaces("thread"))) == []

    def test_the_head_is_what_was_committed_last(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 3)
        head = _loaded(saver)
        assert (head.id, head.parent_id, head.checkpoint.values) == (ids[2], ids[1], {"n": 2})
        assert (head.source, head.run_id, head.metadata["nodes"]) == ("loop", "run", ["a"])

    def test_an_older_checkpoint_is_loaded_by_its_id(self) -> None:
        saver = self.make_saver()
        first, *_ = self.chain(saver, 3)
        saved = answer(saver.load("thread", checkpoint_id=first))
        assert saved is not None
        assert saved.checkpoint.values == {"n": 0}

    def test_a_commit_on_an_old_head_is_refused_and_changes_nothing(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 2)
        refused = raises(CheckpointConflict, lambda: answer(saver.commit(commit_after(ids[0], n=9))))
        assert (refused.expected, refused.found) == (ids[0], ids[1])
        assert _loaded(saver).id == ids[1]
        assert [one.id for one in answer(saver.history("thread"))] == [ids[1], ids[0]]

    def test_of_many_commits_on_one_head_one_wins(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        outcomes: list[bool] = []
        together = threading.Barrier(8)

        def race(n: int) -> None:
            together.wait()
            try:
                answer(saver.commit(commit_after(head, n=n)))
            except CheckpointConflict:
                outcomes.append(False)
            else:
                outcomes.append(True)

        racers = [threading.Thread(target=race, args=(n,)) for n in range(8)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert sorted(outcomes) == [False] * 7 + [True]
        assert len(list(answer(saver.history("thread")))) == 2

    def test_results_are_added_to_what_is_known(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        task = _loaded(saver).checkpoint.frontier[0]
        question = Interrupt(id=InterruptId("0" * 32), value="?")
        answer(saver.save_results(LINE, head, Pending(interrupts={task.id: (question,)})))
        assert _loaded(saver).pending.open == (question,)
        answer(saver.save_results(LINE, head, Pending(answers={question.id: None})))
        answer(saver.save_results(LINE, head, Pending(completed={task.id: TaskResult(task, {"n": 1}, ("b",))})))
        pending = _loaded(saver).pending
        assert (pending.open, pending.answers) == ((), {question.id: None})
        assert (pending.completed[task.id].writes, list(pending.completed[task.id].targets)) == ({"n": 1}, ["b"])

    def test_everything_that_is_known_of_a_frontier_is_kept(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        task = _loaded(saver).checkpoint.frontier[0]
        entry = JournalEntry("given", ["value"])
        known = Pending(attempts={task.id: 2}, journal={(task.id, "step", 0): entry}, errors={task.id: "E: why"})
        answer(saver.save_results(LINE, head, known))
        answer(saver.save_results(LINE, head, Pending(paused=True)))
        pending = _loaded(saver).pending
        assert (pending.attempts, pending.errors, pending.paused) == ({task.id: 2}, {task.id: "E: why"}, True)
        assert pending.journal == {(task.id, "step", 0): entry}

    def test_a_journal_goes_with_the_commit_that_consumes_its_tasks_but_not_with_a_fork(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        task = _loaded(saver).checkpoint.frontier[0]
        answer(saver.save_results(LINE, head, Pending(journal={(task.id, "step", 0): JournalEntry("", 1)})))
        fork = replace(commit_after(head, line=LINE._replace(branch="b"), expected=None), source="fork")
        answer(saver.commit(fork))
        kept = answer(saver.load("thread", checkpoint_id=head))
        assert kept is not None
        assert kept.pending.journal != {}
        answer(saver.commit(commit_after(head)))
        gone = answer(saver.load("thread", checkpoint_id=head))
        assert gone is not None
        assert gone.pending.journal == {}

    def test_results_for_a_checkpoint_that_is_not_there_are_refused(self) -> None:
        saver = self.make_saver()
        self.chain(saver, 1)
        unknown = CheckpointId("nothing")
        raises(CheckpointNotFound, lambda: answer(saver.save_results(LINE, unknown, Pending(paused=True))))
        raises(CheckpointNotFound, lambda: answer(saver.save_results(BranchKey("nobody"), unknown, Pending())))

    # -- holds

    def test_a_thread_that_is_held_takes_no_other_owner(self) -> None:
        saver = self.make_saver()
        head = answer(saver.commit(replace(commit_after(None), hold=_hold("first", claims=True))))
        other = _hold("second", claims=True)
        refused = raises(ThreadBusy, lambda: answer(saver.commit(replace(commit_after(head), hold=other))))
        assert refused.owner == "first"
        raises(ThreadBusy, lambda: answer(saver.save_results(LINE, head, Pending(paused=True), hold=other)))
        raises(ThreadBusy, lambda: answer(saver.renew("thread", other)))
        assert _loaded(saver).id == head
        assert not _loaded(saver).pending.paused
        lease = answer(saver.lease("thread"))
        assert lease is not None
        assert lease.owner == "first"

    def test_an_owner_goes_on_until_it_lets_go(self) -> None:
        saver = self.make_saver()
        head = answer(saver.commit(replace(commit_after(None), hold=_hold("first", claims=True))))
        head = answer(saver.commit(replace(commit_after(head), hold=_hold("first"))))
        answer(saver.save_results(LINE, head, Pending(paused=True), hold=_hold("first", seconds=None)))
        assert answer(saver.lease("thread")) is None
        raises(LeaseLost, lambda: answer(saver.commit(replace(commit_after(head), hold=_hold("first")))))
        answer(saver.commit(replace(commit_after(head), hold=_hold("second", claims=True))))

    def test_a_hold_that_has_lapsed_is_taken_over_with_a_higher_epoch(self) -> None:
        saver = self.make_saver()
        head = answer(saver.commit(replace(commit_after(None), hold=_hold("first", claims=True))))
        before = answer(saver.lease("thread"))
        head = answer(saver.commit(replace(commit_after(head), hold=_hold("second", after=61, claims=True))))
        after = answer(saver.lease("thread"))
        assert before is not None
        assert after is not None
        assert (after.owner, after.epoch > before.epoch) == ("second", True)
        raises(LeaseLost, lambda: answer(saver.save_results(LINE, head, Pending(), hold=_hold("first", after=62))))
        raises(LeaseLost, lambda: answer(saver.renew("thread", _hold("first", after=62))))

    def test_a_claim_is_refused_if_anything_was_written_after_its_load(self) -> None:
        """Whatever lies between a load and a claim, the epoch tells of it, though the head may be the same."""
        for write in (_claim_and_release, _answer_from_outside, _commit_and_release, _revive):
            self._check_that_a_claim_notices(write)

    def _check_that_a_claim_notices(self, write: Callable[[Checkpointer, CheckpointId], None]) -> None:
        saver = self.make_saver()
        head = answer(saver.commit(replace(commit_after(None), hold=_hold("first", claims=True))))
        answer(saver.renew("thread", _hold("first", seconds=1)))
        loaded = _loaded(saver)
        assert loaded.epoch is not None
        assert loaded.lease is not None
        assert loaded.lease.owner == "first"
        write(saver, head)

        claim = _hold("second", after=3600, claims=True)._replace(expected_epoch=loaded.epoch)
        current = _loaded(saver)
        raises(CheckpointConflict, lambda: answer(saver.commit(replace(commit_after(head), hold=claim))))
        raises(CheckpointConflict, lambda: answer(saver.save_results(LINE, head, Pending(paused=True), hold=claim)))
        raises(CheckpointConflict, lambda: answer(saver.renew("thread", claim)))
        assert (_loaded(saver), _loaded(saver).epoch) == (current, current.epoch), write

        answer(saver.renew("thread", claim._replace(expected_epoch=current.epoch)))
        lease = _loaded(saver).lease
        assert lease is not None
        assert lease.owner == "second"

    def test_writes_of_the_holder_leave_the_epoch_until_it_lets_go(self) -> None:
        saver = self.make_saver()
        head = answer(saver.commit(replace(commit_after(None), hold=_hold("first", claims=True))))
        epochs = [_loaded(saver).epoch]
        head = answer(saver.commit(replace(commit_after(head), hold=_hold("first", after=1))))
        epochs.append(_loaded(saver).epoch)
        answer(saver.save_results(LINE, head, Pending(paused=True), hold=_hold("first", after=50)))
        answer(saver.renew("thread", _hold("first", after=100)))
        epochs.append(_loaded(saver).epoch)
        assert len(set(epochs)) == 1
        answer(saver.renew("thread", _hold("first", after=100, seconds=None)))
        assert _loaded(saver).epoch not in epochs

    def test_the_first_record_of_a_step_stays(self) -> None:
        saver = self.make_saver()
        commit = commit_after(None)
        head, (task,) = answer(saver.commit(commit)), commit.checkpoint.frontier
        key = (task.id, "charge", 0)
        first = Pending(journal={key: JournalEntry("args", "receipt 1")})
        answer(saver.save_results(LINE, head, first))
        again = Pending(journal={key: JournalEntry("args", "receipt 2")}, paused=True)
        refused = raises(JournalConflict, lambda: answer(saver.save_results(LINE, head, again)))
        assert (refused.name, refused.ordinal) == ("charge", 0)
        assert _loaded(saver).pending.journal == first.journal
        assert not _loaded(saver).pending.paused
        answer(saver.save_results(LINE, head, Pending(journal={(task.id, "charge", 1): JournalEntry("args", "more")})))
        assert len(_loaded(saver).pending.journal) == 2

    def test_the_lease_of_a_process_that_is_gone_is_not_waited_for(self) -> None:
        saver = self.make_saver()
        gone, alive = new_owner("gone"), new_owner("alive")
        add_holder(gone)
        add_holder(alive)
        try:
            head = answer(saver.commit(replace(commit_after(None), hold=_hold(gone, claims=True))))
            raises(ThreadBusy, lambda: answer(saver.renew("thread", _hold(alive, claims=True))))
            discard_holder(gone)
            answer(saver.save_results(LINE, head, Pending(paused=True), hold=_hold(alive, claims=True)))
            raises(LeaseLost, lambda: answer(saver.renew("thread", _hold(gone))))
        finally:
            discard_holder(gone)
            discard_holder(alive)

    def test_a_holder_can_be_told_what_is_wanted_of_it(self) -> None:
        saver = self.make_saver()
        assert answer(saver.want("thread", "interrupt")) is None
        answer(saver.commit(replace(commit_after(None), hold=_hold("first", claims=True))))
        answer(saver.want("thread", "rollback"))
        renewed = answer(saver.renew("thread", _hold("first")))
        assert renewed is not None
        assert renewed.wanted == "rollback"

    def test_a_refused_first_write_leaves_no_thread_behind(self) -> None:
        saver = self.make_saver()
        raises(CheckpointConflict, lambda: answer(saver.commit(commit_after(None, expected="other"))))
        raises(CheckpointNotFound, lambda: answer(saver.copy_thread("thread", "copy")))

    # -- logs

    def test_events_are_numbered_run_by_run_with_the_write_that_brings_them(self) -> None:
        saver = self.make_saver()
        head = answer(saver.commit(replace(commit_after(None), log=_log("a", "a", "b"))))
        refused = replace(commit_after("elsewhere"), log=_log("a"))
        raises(CheckpointConflict, lambda: answer(saver.commit(refused)))
        answer(saver.save_results(LINE, head, Pending(), log=_log("b")))
        answer(saver.save_results(LINE, head, Pending(), log=_log("a")))
        log = answer(saver.events("thread"))
        assert [(one.run_id, one.seq) for one in log] == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
        assert [one.seq for one in answer(saver.events("thread", run_id="a", after=1))] == [2, 3]
        assert [one.seq for one in answer(saver.events("thread", run_id="a", limit=1))] == [1]
        assert list(answer(saver.events("nobody"))) == []

    # -- histories, branches, threads

    def test_history_is_newest_first_and_can_be_cut(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 4)
        assert [one.id for one in answer(saver.history("thread"))] == ids[::-1]
        assert [one.id for one in answer(saver.history("thread", before=ids[2]))] == [ids[1], ids[0]]
        assert [one.id for one in answer(saver.history("thread", limit=2))] == [ids[3], ids[2]]
        unknown = CheckpointId("nothing")
        raises(CheckpointNotFound, lambda: list(answer(saver.history("thread", before=unknown))))

    def test_a_limit_below_nothing_is_nothing(self) -> None:
        saver = self.make_saver()
        logged = replace(commit_after(None), log=Log("run", datetime.now(UTC), (("run_started", 0, None, None, None),)))
        answer(saver.commit(logged))
        assert len(answer(saver.events("thread"))) == 1
        for limit in (0, -1, -7):
            assert list(answer(saver.history("thread", limit=limit))) == []
            assert list(answer(saver.threads(limit=limit))) == []
            assert list(answer(saver.events("thread", limit=limit))) == []

    def test_an_id_in_other_letters_is_another_id(self) -> None:
        saver = self.make_saver()
        small, large = CheckpointId("ab" * 16), CheckpointId("AB" * 16)
        spaced = CheckpointId(" ".join(["ab"] * 16))
        for n, identity in enumerate((small, spaced)):
            one = commit_after(small if n else None, n=n)
            answer(saver.commit(replace(one, checkpoint=Checkpoint(identity, n, {"n": n}, ()))))
        assert answer(saver.load("thread", checkpoint_id=large)) is None
        raises(CheckpointNotFound, lambda: list(answer(saver.history("thread", before=large))))
        assert [one.id for one in answer(saver.history("thread"))] == [spaced, small]
        one = commit_after(spaced, n=2)
        answer(saver.commit(replace(one, checkpoint=Checkpoint(large, 2, {"n": 2}, ()))))
        for n, identity in enumerate((small, spaced, large)):
            saved = answer(saver.load("thread", checkpoint_id=identity))
            assert saved is not None
            assert (saved.id, saved.checkpoint.values) == (identity, {"n": n})

    def test_values_that_are_stored_whole_leave_nothing_of_the_parent(self) -> None:
        saver = self.make_saver()
        first = commit_after(None)
        state = Checkpoint(first.checkpoint.id, 0, {"n": 0, "list": [1], "gone": 1}, (), reported=(("a", {"n": 1}),))
        answer(saver.commit(replace(first, checkpoint=state, deltas=None, reported=[["a", {"n": 1}]])))
        parent = state.id
        states: list[tuple[dict[str, Any], Any]] = [
            ({"n": 1, "list": [2]}, ()),
            ({"n": 2}, (("b", {"n": 2}),)),
            ({}, ()),
        ]
        for values, reported in states:
            one = commit_after(parent)
            whole = Checkpoint(one.checkpoint.id, values.get("n", 0), values, (), reported=reported)
            answer(saver.commit(replace(one, checkpoint=whole, deltas=None)))
            assert (_loaded(saver).checkpoint.values, _loaded(saver).checkpoint.reported) == (values, reported)
            parent = one.checkpoint.id

    def test_threads_are_found_by_what_their_ids_begin_with(self) -> None:
        saver = self.make_saver()
        names = ["a", "a\x00", "a\x00b", "ab", "a%", "a_b", "A", "ä", "äb", "🦉", "🦉b"]
        for name in names:
            answer(saver.commit(commit_after(None, line=BranchKey(name))))
        for prefix in ("", *names, "a\x00bc", "%", "_"):
            found = [one.thread_id for one in answer(saver.threads(prefix=prefix))]
            assert sorted(found) == sorted(name for name in names if name.startswith(prefix))

    def test_a_branch_has_its_own_head_and_the_history_of_its_ancestors(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 3)
        fork = answer(saver.commit(commit_after(ids[0], line=LINE._replace(branch="b"), n=7, expected=None)))
        assert _loaded(saver).id == ids[2]
        assert _loaded(saver, branch="b").id == fork
        assert [one.id for one in answer(saver.history("thread", branch="b"))] == [fork, ids[0]]
        assert list(answer(saver.branches("thread"))) == ["b", "main"]

    def test_namespaces_are_lines_of_their_own_and_are_dropped_with_those_inside(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        for namespace in ("a:1", "a:1|b:2", "a:1:1", "a:10"):
            self.chain(saver, 1, LINE._replace(namespace=namespace))
        self.chain(saver, 1, LINE._replace(namespace="a:10", branch="other"))
        assert list(answer(saver.namespaces("thread"))) == ["", "a:1", "a:10", "a:1:1", "a:1|b:2"]
        answer(saver.commit(commit_after(head, drops=("a:1",))))
        left = [one for one in ("a:1", "a:1|b:2", "a:1:1", "a:10") if answer(saver.load("thread", namespace=one))]
        assert left == ["a:10"]
        assert list(answer(saver.namespaces("thread"))) == ["", "a:10"]

    def test_a_namespace_is_dropped_on_one_branch_and_what_forked_from_it_there_stays_whole(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        call = LINE._replace(namespace="a:1")
        ids = self.chain(saver, 3, call)
        fork = answer(saver.commit(commit_after(ids[1], line=call._replace(branch="b"), n=7, expected=None)))
        answer(saver.commit(commit_after(head, drops=("a:1",))))
        assert answer(saver.load("thread", namespace="a:1")) is None
        left = answer(saver.load("thread", namespace="a:1", branch="b"))
        assert left is not None
        assert (left.id, left.checkpoint.values) == (fork, {"n": 7})
        assert answer(saver.history("thread", namespace="a:1", branch="b"))[0].id == fork

    def test_what_is_committed_beside_is_saved_with_it_or_not_at_all(self) -> None:
        saver = self.make_saver()
        (head,) = self.chain(saver, 1)
        call = LINE._replace(namespace="a:1", branch="b")
        refused = commit_after("nothing", line=LINE._replace(branch="b"))
        refused.beside = (commit_after(None, line=call, n=5),)
        raises(CheckpointConflict, lambda: answer(saver.commit(refused)))
        assert list(answer(saver.namespaces("thread"))) == [""]
        commit = commit_after(head, line=LINE._replace(branch="b"), expected=None)
        commit.beside = (commit_after(None, line=call, n=5),)
        answer(saver.commit(commit))
        assert _loaded(saver, branch="b").id == commit.checkpoint.id
        beside = answer(saver.load("thread", namespace="a:1", branch="b"))
        assert beside is not None
        assert beside.checkpoint.values == {"n": 5}

    def test_a_copied_thread_goes_its_own_way(self) -> None:
        saver = self.make_saver()
        ids = self.chain(saver, 2)
        answer(saver.copy_thread("thread", "copy"))
        answer(saver.commit(commit_after(ids[1], n=5)))
        copied = answer(saver.load("copy"))
        assert copied is not None
        assert (copied.id, copied.line.thread_id) == (ids[1], "copy")
        raises(CheckpointConflict, lambda: answer(saver.copy_thread("thread", "copy")))
        raises(CheckpointNotFound, lambda: answer(saver.copy_thread("nobody", "other")))

    def test_a_deleted_thread_is_forgotten_and_another_one_is_not(self) -> None:
        saver = self.make_saver()
        self.chain(saver, 2)
        self.chain(saver, 1, BranchKey("other"))
        answer(saver.delete_thread("thread"))
        answer(saver.delete_thread("nobody"))
        assert answer(saver.load("thread")) is None
        assert answer(saver.load("other")) is not None


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _claim_and_release(saver: Checkpointer, head: CheckpointId) -> None:
    answer(saver.renew("thread", _hold("other", after=10, claims=True)))
    answer(saver.renew("thread", _hold("other", after=10, seconds=None)))


def _answer_from_outside(saver: Checkpointer, head: CheckpointId) -> None:
    answer(saver.save_results(LINE, head, Pending(paused=True)))


def _commit_and_release(saver: Checkpointer, head: CheckpointId) -> None:
    hold = _hold("other", after=10, seconds=None, claims=True)
    answer(saver.save_results(LINE, head, Pending(paused=True), hold=hold))


def _revive(saver: Checkpointer, head: CheckpointId) -> None:
    """The holder was frozen past its lease, and writes again before anybody has taken the thread."""
    answer(saver.save_results(LINE, head, Pending(paused=True), hold=_hold("first", after=10)))


def _hold(owner: str, *, after: float = 0.0, seconds: float | None = 60.0, claims: bool = False) -> LeaseRequest:
    """A hold that is written `after` so many seconds, for so many; None lets go."""
    now = NOW + timedelta(seconds=after)
    return LeaseRequest(owner, now, None if seconds is None else now + timedelta(seconds=seconds), claims)


def _log(run_id: str, *nodes: str) -> Log:
    """What a run adds to its log: two entries if two nodes are named, else one."""
    return Log(run_id, NOW, tuple(("task_finished", 1, node, None, None) for node in nodes or ("a",)))


def _loaded(saver: Checkpointer, branch: str = "main") -> SavedCheckpoint:
    saved = answer(saver.load("thread", branch=branch))
    assert saved is not None
    return saved


E = TypeVar("E", bound=Exception)


def raises(kind: type[E], function: Callable[[], object]) -> E:
    """The exception that a call raises; fails if it raises none. So the suite needs no test framework."""
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")

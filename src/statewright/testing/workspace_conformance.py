"""What every checkpointer with workspaces must do, beside what every checkpointer must.

class TestMySaver(WorkspaceCheckpointerConformance):
    def make_saver(self):
        return MySaver()
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from statewright.checkpoint import (
    DEFAULT_WORKSPACE,
    BranchKey,
    Checkpointer,
    LeaseRequest,
    Pending,
    PrunePolicy,
    WorkspaceCheckpointer,
)
from statewright.errors import CheckpointConflict, CheckpointNotFound, InvalidConfig
from statewright.events import Log
from statewright.ids import CheckpointId
from statewright.testing.checkpointer_conformance import (
    LINE,
    CheckpointerConformance,
    answer,
    commit_after,
    raises,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class WorkspaceCheckpointerConformance(CheckpointerConformance):
    """The promises of workspaces, one test each: threads of the same id share nothing."""

    def make_saver(self) -> WorkspaceCheckpointer:
        """A new, empty saver, bound to the default workspace."""
        raise NotImplementedError

    def _two(self) -> tuple[WorkspaceCheckpointer, WorkspaceCheckpointer]:
        """Savers of two workspaces of the same data."""
        saver = self.make_saver()
        return saver.for_workspace("one"), saver.for_workspace("two")

    def test_a_new_saver_is_bound_to_the_default_workspace(self) -> None:
        saver = self.make_saver()
        assert isinstance(saver, WorkspaceCheckpointer)
        assert saver.workspace == DEFAULT_WORKSPACE
        assert saver.for_workspace("one").workspace == "one"

    def test_savers_of_one_workspace_see_the_same_threads(self) -> None:
        saver = self.make_saver()
        one, again, two = (saver.for_workspace(name) for name in ("one", "one", "two"))
        (head,) = self.chain(one, 1)
        assert _head(again) == head
        assert one.scope == again.scope == two.for_workspace("one").scope
        assert len({hash(one.scope), hash(again.scope)}) == 1
        assert two.scope not in (one.scope, saver.scope)
        assert one.scope != self.make_saver().for_workspace("one").scope

    def test_a_commit_that_nobody_has_waited_for_is_seen_by_savers_of_its_workspace(self) -> None:
        saver = self.make_saver()
        commit = commit_after(None)
        commit.overlaps = True
        written = saver.for_workspace("one").commit(commit)
        assert _head(saver.for_workspace("one")) == commit.checkpoint.id
        assert answer(written) == commit.checkpoint.id

    def test_only_workspaces_with_threads_are_listed(self) -> None:
        saver = self.make_saver()
        one, two = saver.for_workspace("one"), saver.for_workspace("two")
        assert list(answer(saver.workspaces())) == []
        self.chain(two, 1)
        self.chain(one, 1)
        assert answer(saver.for_workspace("empty").load("thread")) is None
        assert list(answer(saver.workspaces())) == list(answer(two.workspaces())) == ["one", "two"]
        answer(two.delete_thread("thread"))
        assert list(answer(one.workspaces())) == ["one"]

    def test_a_workspace_needs_a_name(self) -> None:
        saver = self.make_saver()
        wrong: Any
        for wrong in ("", None, 1):
            raises(InvalidConfig, lambda wrong=wrong: saver.for_workspace(wrong))

    def test_checkpoints_are_those_of_the_own_workspace(self) -> None:
        one, two = self._two()
        ids, others = self.chain(one, 3), self.chain(two, 1)
        self.chain(two, 1, LINE._replace(branch="b"))
        self.chain(two, 1, LINE._replace(namespace="a:1"))
        assert (_head(one), _head(two)) == (ids[-1], others[-1])
        assert [saved.id for saved in answer(one.history("thread"))] == ids[::-1]
        assert [saved.id for saved in answer(two.history("thread", branch="main"))] == others
        assert answer(two.load("thread", checkpoint_id=ids[0])) is None
        assert (list(answer(one.branches("thread"))), list(answer(one.namespaces("thread")))) == (["main"], [""])
        assert list(answer(two.branches("thread"))) == ["b", "main"]
        assert list(answer(two.namespaces("thread"))) == ["", "a:1"]
        raises(CheckpointNotFound, lambda: list(answer(two.history("thread", before=ids[1]))))

    def test_nothing_is_added_to_a_thread_of_another_workspace(self) -> None:
        one, two = self._two()
        (head,) = self.chain(one, 1)
        raises(CheckpointConflict, lambda: answer(two.commit(commit_after(head))))
        raises(CheckpointNotFound, lambda: answer(two.save_results(LINE, head, Pending(paused=True))))
        self.chain(two, 1)
        answer(two.save_results(LINE, CheckpointId(_head(two)), Pending(paused=True)))
        raises(CheckpointNotFound, lambda: answer(two.save_results(LINE, head, Pending(paused=True))))
        loaded = answer(one.load("thread"))
        assert loaded is not None
        assert (loaded.id, loaded.pending.paused) == (head, False)

    def test_threads_are_held_apart(self) -> None:
        one, two = self._two()
        answer(one.commit(replace(commit_after(None), hold=_hold("first", claims=True))))
        assert answer(two.lease("thread")) is None
        assert answer(two.want("thread", "interrupt")) is None
        answer(two.commit(replace(commit_after(None), hold=_hold("second", claims=True))))
        answer(two.want("thread", "rollback"))
        answer(two.renew("thread", _hold("second", seconds=120)))
        held, other = answer(one.renew("thread", _hold("first"))), answer(two.lease("thread"))
        assert held is not None
        assert (held.owner, held.wanted) == ("first", None)
        assert other is not None
        assert (other.owner, other.wanted) == ("second", "rollback")
        answer(two.renew("thread", _hold("second", seconds=None)))
        assert answer(one.lease("thread")) is not None

    def test_logs_are_kept_apart_also_of_runs_of_one_name(self) -> None:
        one, two = self._two()
        answer(one.commit(replace(commit_after(None), log=_log("a"))))
        head = answer(two.commit(replace(commit_after(None), log=_log("b"))))
        answer(two.save_results(LINE, head, Pending(), log=_log("a")))
        assert [(event.run_id, event.seq) for event in answer(one.events("thread"))] == [("a", 1)]
        assert [(event.run_id, event.seq) for event in answer(two.events("thread"))] == [("b", 1), ("a", 1)]

    def test_lists_have_the_threads_of_the_own_workspace(self) -> None:
        one, two = self._two()
        for saver, names in ((one, "ab"), (two, "bc")):
            for name in names:
                self.chain(saver, 1, BranchKey(f"thread-{name}"))
        for saver, names in ((one, "ab"), (two, "bc")):
            assert sorted(_listed(saver)) == [f"thread-{name}" for name in names]
            assert len(_listed(saver, limit=1)) == 1
        assert _listed(one, prefix="thread-c") == []

    def test_pruning_spares_other_workspaces(self) -> None:
        one, two = self._two()
        self.chain(one, 3)
        ids = self.chain(two, 3)
        for thread_id in ("thread", None):
            answer(one.prune(PrunePolicy(keep_last=1), thread_id=thread_id))
        assert len(answer(one.history("thread"))) == 1
        assert [saved.id for saved in answer(two.history("thread"))] == ids[::-1]
        assert answer(one.prune(PrunePolicy(keep_last=1), dry_run=True)).checkpoints == 0
        assert answer(two.prune(PrunePolicy(keep_last=1), dry_run=True)).checkpoints == 2

    def test_a_thread_is_copied_within_its_workspace(self) -> None:
        one, two = self._two()
        ids, others = self.chain(one, 2), self.chain(two, 1)
        self.chain(two, 1, BranchKey("only"))
        raises(CheckpointNotFound, lambda: answer(one.copy_thread("only", "copy")))
        answer(one.copy_thread("thread", "copy"))
        assert answer(two.load("copy")) is None
        answer(two.copy_thread("thread", "copy"))
        assert (_head(one, "copy"), _head(two, "copy")) == (ids[-1], others[-1])
        refused = raises(CheckpointConflict, lambda: answer(two.copy_thread("only", "copy")))
        assert others[-1] in str(refused)

    def test_a_thread_is_deleted_from_its_workspace(self) -> None:
        one, two = self._two()
        self.chain(one, 2)
        ids = self.chain(two, 2)
        answer(one.delete_thread("thread"))
        assert answer(one.load("thread")) is None
        assert [saved.id for saved in answer(two.history("thread"))] == ids[::-1]
        (head,) = self.chain(one, 1)
        assert (_head(one), _head(two)) == (head, ids[-1])


def _head(saver: Checkpointer, thread_id: str = "thread") -> str:
    saved = answer(saver.load(thread_id))
    assert saved is not None
    return saved.id


def _listed(saver: Checkpointer, **options: Any) -> list[str]:
    return [entry.thread_id for entry in answer(saver.threads(**options))]


def _hold(owner: str, *, seconds: float | None = 60.0, claims: bool = False) -> LeaseRequest:
    until = None if seconds is None else NOW + timedelta(seconds=seconds)
    return LeaseRequest(owner, NOW, until, claims)


def _log(run_id: str) -> Log:
    return Log(run_id, NOW, (("task_finished", 1, "node", None, None),))

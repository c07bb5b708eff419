"""The conformance suite for checkpointers with workspaces.

Derive a class from `WorkspaceCheckpointerConformance`, and pytest collects its tests:

    class TestMySaver(WorkspaceCheckpointerConformance):
        def make_saver(self):
            return MySaver()
"""

from __future__ import annotations

from typing import Any

from statewright.checkpoint import (
    DEFAULT_WORKSPACE,
    BranchKey,
    Checkpointer,
    Pending,
    PrunePolicy,
    WorkspaceCheckpointer,
)
from statewright.errors import CheckpointConflict, CheckpointNotFound, InvalidConfig
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.testing.conformance.assertions import raises
from statewright.testing.conformance.checkpointer import CheckpointerConformance
from statewright.testing.conformance.checkpointer.samples import (
    MAIN,
    commit_after,
    history_ids,
    lease_request,
    load_head,
    make_log,
    write_commit,
)


class WorkspaceCheckpointerConformance(CheckpointerConformance):
    """The requirements of checkpointers with workspaces, one test each.

    Threads with the same id in two workspaces share nothing.
    """

    def make_saver(self) -> WorkspaceCheckpointer:
        """Return a new, empty saver, bound to the default workspace."""
        raise NotImplementedError

    def _two_workspaces(self) -> tuple[WorkspaceCheckpointer, WorkspaceCheckpointer]:
        """Return savers for two workspaces on the same storage."""
        saver = self.make_saver()
        return saver.for_workspace("one"), saver.for_workspace("two")

    def test_a_new_saver_is_bound_to_the_default_workspace(self) -> None:
        saver = self.make_saver()
        assert isinstance(saver, WorkspaceCheckpointer)
        assert saver.workspace == DEFAULT_WORKSPACE
        assert saver.for_workspace("one").workspace == "one"

    def test_savers_of_one_workspace_see_the_same_threads(self) -> None:
        saver = self.make_saver()
        first, again, second = (saver.for_workspace(name) for name in ("one", "one", "two"))
        (head,) = self.write_chain(first, 1)
        assert load_head(again).id == head
        assert first.scope == again.scope == second.for_workspace("one").scope
        assert len({hash(first.scope), hash(again.scope)}) == 1
        assert second.scope not in (first.scope, saver.scope)
        assert first.scope != self.make_saver().for_workspace("one").scope

    def test_an_unawaited_commit_is_seen_by_savers_of_its_workspace(self) -> None:
        saver = self.make_saver()
        commit = commit_after(None)
        commit.overlaps = True
        written = saver.for_workspace("one").commit(commit)
        assert load_head(saver.for_workspace("one")).id == commit.checkpoint.id
        assert resolve(written) == commit.checkpoint.id

    def test_only_workspaces_with_threads_are_listed(self) -> None:
        saver = self.make_saver()
        first, second = saver.for_workspace("one"), saver.for_workspace("two")
        assert list(resolve(saver.workspaces())) == []
        self.write_chain(second, 1)
        self.write_chain(first, 1)
        assert resolve(saver.for_workspace("empty").load("thread")) is None
        assert list(resolve(saver.workspaces())) == list(resolve(second.workspaces())) == ["one", "two"]
        resolve(second.delete_thread("thread"))
        assert list(resolve(first.workspaces())) == ["one"]

    def test_a_workspace_needs_a_name(self) -> None:
        saver = self.make_saver()
        wrong: Any
        for wrong in ("", None, 1):
            raises(InvalidConfig, lambda wrong=wrong: saver.for_workspace(wrong))

    def test_checkpoints_are_visible_in_their_workspace_only(self) -> None:
        first, second = self._two_workspaces()
        ids, others = self.write_chain(first, 3), self.write_chain(second, 1)
        self.write_chain(second, 1, MAIN._replace(branch="b"))
        self.write_chain(second, 1, MAIN._replace(namespace="a:1"))
        assert (load_head(first).id, load_head(second).id) == (ids[-1], others[-1])
        assert history_ids(first) == ids[::-1]
        assert history_ids(second, branch="main") == others
        assert resolve(second.load("thread", checkpoint_id=ids[0])) is None
        assert (list(resolve(first.branches("thread"))), list(resolve(first.namespaces("thread")))) == (["main"], [""])
        assert list(resolve(second.branches("thread"))) == ["b", "main"]
        assert list(resolve(second.namespaces("thread"))) == ["", "a:1"]
        raises(CheckpointNotFound, lambda: list(resolve(second.history("thread", before=ids[1]))))

    def test_nothing_is_added_to_a_thread_of_another_workspace(self) -> None:
        first, second = self._two_workspaces()
        (head,) = self.write_chain(first, 1)
        raises(CheckpointConflict, lambda: write_commit(second, head))
        raises(CheckpointNotFound, lambda: resolve(second.save_results(MAIN, head, Pending(paused=True))))
        self.write_chain(second, 1)
        resolve(second.save_results(MAIN, CheckpointId(load_head(second).id), Pending(paused=True)))
        raises(CheckpointNotFound, lambda: resolve(second.save_results(MAIN, head, Pending(paused=True))))
        loaded = load_head(first)
        assert (loaded.id, loaded.pending.paused) == (head, False)

    def test_leases_are_separate_between_workspaces(self) -> None:
        first, second = self._two_workspaces()
        write_commit(first, None, hold=lease_request("first", claims=True))
        assert resolve(second.lease("thread")) is None
        assert resolve(second.want("thread", "interrupt")) is None
        write_commit(second, None, hold=lease_request("second", claims=True))
        resolve(second.want("thread", "rollback"))
        resolve(second.renew("thread", lease_request("second", seconds=120)))
        held, other = resolve(first.renew("thread", lease_request("first"))), resolve(second.lease("thread"))
        assert held is not None
        assert (held.owner, held.wanted) == ("first", None)
        assert other is not None
        assert (other.owner, other.wanted) == ("second", "rollback")
        resolve(second.renew("thread", lease_request("second", seconds=None)))
        assert resolve(first.lease("thread")) is not None

    def test_logs_are_separate_between_workspaces_even_for_equal_run_ids(self) -> None:
        first, second = self._two_workspaces()
        write_commit(first, None, log=make_log("a"))
        head = write_commit(second, None, log=make_log("b"))
        resolve(second.save_results(MAIN, head, Pending(), log=make_log("a")))
        assert [(event.run_id, event.seq) for event in resolve(first.events("thread"))] == [("a", 1)]
        assert [(event.run_id, event.seq) for event in resolve(second.events("thread"))] == [("b", 1), ("a", 1)]

    def test_threads_are_listed_by_workspace(self) -> None:
        first, second = self._two_workspaces()
        for saver, names in ((first, "ab"), (second, "bc")):
            for name in names:
                self.write_chain(saver, 1, BranchKey(f"thread-{name}"))
        for saver, names in ((first, "ab"), (second, "bc")):
            assert sorted(_thread_ids(saver)) == [f"thread-{name}" for name in names]
            assert len(_thread_ids(saver, limit=1)) == 1
        assert _thread_ids(first, prefix="thread-c") == []

    def test_pruning_spares_other_workspaces(self) -> None:
        first, second = self._two_workspaces()
        self.write_chain(first, 3)
        ids = self.write_chain(second, 3)
        for thread_id in ("thread", None):
            resolve(first.prune(PrunePolicy(keep_last=1), thread_id=thread_id))
        assert len(resolve(first.history("thread"))) == 1
        assert history_ids(second) == ids[::-1]
        assert resolve(first.prune(PrunePolicy(keep_last=1), dry_run=True)).checkpoints == 0
        assert resolve(second.prune(PrunePolicy(keep_last=1), dry_run=True)).checkpoints == 2

    def test_a_thread_is_copied_within_its_workspace(self) -> None:
        first, second = self._two_workspaces()
        ids, others = self.write_chain(first, 2), self.write_chain(second, 1)
        self.write_chain(second, 1, BranchKey("only"))
        raises(CheckpointNotFound, lambda: resolve(first.copy_thread("only", "copy")))
        resolve(first.copy_thread("thread", "copy"))
        assert resolve(second.load("copy")) is None
        resolve(second.copy_thread("thread", "copy"))
        assert (load_head(first, "copy").id, load_head(second, "copy").id) == (ids[-1], others[-1])
        error = raises(CheckpointConflict, lambda: resolve(second.copy_thread("only", "copy")))
        assert others[-1] in str(error)

    def test_a_thread_is_deleted_from_its_workspace(self) -> None:
        first, second = self._two_workspaces()
        self.write_chain(first, 2)
        ids = self.write_chain(second, 2)
        resolve(first.delete_thread("thread"))
        assert resolve(first.load("thread")) is None
        assert history_ids(second) == ids[::-1]
        (head,) = self.write_chain(first, 1)
        assert (load_head(first).id, load_head(second).id) == (head, ids[-1])


def _thread_ids(saver: Checkpointer, **options: Any) -> list[str]:
    return [entry.thread_id for entry in resolve(saver.threads(**options))]

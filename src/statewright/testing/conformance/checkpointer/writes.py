"""Tests of commits, and of task results that are saved between two commits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from statewright.checkpoint import BranchKey, Checkpoint, Interrupt, JournalEntry, Pending, TaskResult
from statewright.errors import CheckpointConflict, CheckpointNotFound
from statewright.futures import resolve
from statewright.ids import CheckpointId, InterruptId
from statewright.testing.conformance.assertions import raises, run_concurrently
from statewright.testing.conformance.checkpointer.samples import (
    MAIN,
    CheckpointerSuite,
    commit_after,
    history_ids,
    load_head,
    write_commit,
)


class WriteTests(CheckpointerSuite):
    """A commit must follow the head of its branch. Results of tasks are added to the head."""

    def test_a_new_saver_is_empty(self) -> None:
        saver = self.make_saver()
        assert resolve(saver.load("thread")) is None
        assert list(resolve(saver.history("thread"))) == []
        assert list(resolve(saver.branches("thread"))) == []
        assert list(resolve(saver.namespaces("thread"))) == []

    def test_the_head_is_the_last_commit(self) -> None:
        saver = self.make_saver()
        ids = self.write_chain(saver, 3)
        head = load_head(saver)
        assert (head.id, head.parent_id, head.checkpoint.values) == (ids[2], ids[1], {"n": 2})
        assert (head.source, head.run_id, head.metadata["nodes"]) == ("loop", "run", ["a"])

    def test_an_older_checkpoint_is_loaded_by_its_id(self) -> None:
        saver = self.make_saver()
        first, *_ = self.write_chain(saver, 3)
        saved = load_head(saver, checkpoint_id=first)
        assert saved.checkpoint.values == {"n": 0}

    def test_a_commit_on_an_old_head_is_refused_and_changes_nothing(self) -> None:
        saver = self.make_saver()
        ids = self.write_chain(saver, 2)
        error = raises(CheckpointConflict, lambda: write_commit(saver, ids[0], n=9))
        assert (error.expected, error.found) == (ids[0], ids[1])
        assert load_head(saver).id == ids[1]
        assert history_ids(saver) == [ids[1], ids[0]]

    def test_one_of_several_commits_on_the_same_head_wins(self) -> None:
        saver = self.make_saver()
        (head,) = self.write_chain(saver, 1)
        errors = run_concurrently(8, lambda n: write_commit(saver, head, n=n))
        assert [type(error) for error in errors] == [CheckpointConflict] * 7
        assert len(list(resolve(saver.history("thread")))) == 2

    def test_a_commit_without_deltas_replaces_all_values_of_its_parent(self) -> None:
        saver = self.make_saver()
        first = commit_after(None)
        state = Checkpoint(first.checkpoint.id, 0, {"n": 0, "list": [1], "old": 1}, (), reported=(("a", {"n": 1}),))
        resolve(saver.commit(replace(first, checkpoint=state, deltas=None, reported=[["a", {"n": 1}]])))
        parent = state.id
        states: list[tuple[dict[str, Any], Any]] = [
            ({"n": 1, "list": [2]}, ()),
            ({"n": 2}, (("b", {"n": 2}),)),
            ({}, ()),
        ]
        for values, reported in states:
            commit = commit_after(parent)
            whole = Checkpoint(commit.checkpoint.id, values.get("n", 0), values, (), reported=reported)
            resolve(saver.commit(replace(commit, checkpoint=whole, deltas=None)))
            assert (load_head(saver).checkpoint.values, load_head(saver).checkpoint.reported) == (values, reported)
            parent = commit.checkpoint.id

    def test_saved_results_are_merged(self) -> None:
        saver = self.make_saver()
        (head,) = self.write_chain(saver, 1)
        task = load_head(saver).checkpoint.frontier[0]
        question = Interrupt(id=InterruptId("0" * 32), value="?")
        resolve(saver.save_results(MAIN, head, Pending(interrupts={task.id: (question,)})))
        assert load_head(saver).pending.open == (question,)
        resolve(saver.save_results(MAIN, head, Pending(answers={question.id: None})))
        resolve(saver.save_results(MAIN, head, Pending(completed={task.id: TaskResult(task, {"n": 1}, ("b",))})))
        pending = load_head(saver).pending
        assert (pending.open, pending.answers) == ((), {question.id: None})
        assert (pending.completed[task.id].writes, list(pending.completed[task.id].targets)) == ({"n": 1}, ["b"])

    def test_all_parts_of_saved_results_are_kept(self) -> None:
        saver = self.make_saver()
        (head,) = self.write_chain(saver, 1)
        task = load_head(saver).checkpoint.frontier[0]
        entry = JournalEntry("args", ["value"])
        pending = Pending(attempts={task.id: 2}, journal={(task.id, "step", 0): entry}, errors={task.id: "E: why"})
        resolve(saver.save_results(MAIN, head, pending))
        resolve(saver.save_results(MAIN, head, Pending(paused=True)))
        pending = load_head(saver).pending
        assert (pending.attempts, pending.errors, pending.paused) == ({task.id: 2}, {task.id: "E: why"}, True)
        assert pending.journal == {(task.id, "step", 0): entry}

    def test_a_journal_is_deleted_by_the_commit_that_consumes_its_tasks_but_not_by_a_fork(self) -> None:
        saver = self.make_saver()
        (head,) = self.write_chain(saver, 1)
        task = load_head(saver).checkpoint.frontier[0]
        resolve(saver.save_results(MAIN, head, Pending(journal={(task.id, "step", 0): JournalEntry("", 1)})))
        fork = commit_after(head, branch_key=MAIN._replace(branch="b"), expected=None, source="fork")
        resolve(saver.commit(fork))
        saved = load_head(saver, checkpoint_id=head)
        assert saved.pending.journal != {}
        write_commit(saver, head)
        saved = load_head(saver, checkpoint_id=head)
        assert saved.pending.journal == {}

    def test_results_for_a_missing_checkpoint_are_refused(self) -> None:
        saver = self.make_saver()
        self.write_chain(saver, 1)
        unknown = CheckpointId("unknown")
        raises(CheckpointNotFound, lambda: resolve(saver.save_results(MAIN, unknown, Pending(paused=True))))
        raises(CheckpointNotFound, lambda: resolve(saver.save_results(BranchKey("unknown"), unknown, Pending())))

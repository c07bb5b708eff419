"""Tests of jobs, which are changes to a ledger that a checkpointer makes in a transaction of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from statewright.checkpoint import BranchKey, Pending
from statewright.errors import CheckpointConflict, RecordConflict, StatewrightError
from statewright.futures import resolve
from statewright.ids import TaskId
from statewright.runs import Absent, Advance, Change, Delete, Insert, Ledger, NewEvent, Run, RunLabel, where
from statewright.testing.conformance.assertions import raises
from statewright.testing.conformance.checkpointer.samples import commit_after, history_ids, load_head, write_commit
from statewright.testing.conformance.ledger.samples import NOW, LedgerSuite, get_record, ids, label, run


class CommitTests(LedgerSuite):
    """A job and the commit that contains it are both written, or neither is."""

    def changes(self) -> list[Change]:
        """Return changes that can be written once: the first requires the initial version of the run `r1`."""
        return [Advance("r1", NOW, {"begun": True}, [NewEvent("A", {})], where(version=1)), Insert(label("1"))]

    def is_written(self, ledger: Ledger) -> bool:
        """Return whether these changes were made; fail if only some of them were."""
        begun = get_record(ledger, Run, "r1").begun
        assert begun == bool(resolve(ledger.events("r1"))) == bool(ids(ledger, RunLabel))
        return begun

    def test_a_job_is_committed_with_a_checkpoint(self) -> None:
        ledger = self.ledger_of(run())
        saver, changes = self.make_saver(ledger), self.changes()
        job = ledger.job(changes)
        assert not self.is_written(ledger)
        resolve(saver.commit(commit_after(None), also=[job]))
        assert self.is_written(ledger)
        assert [event.seq for event in cast(Advance, changes[0]).written_events] == [1]
        assert resolve(saver.load("thread")) is not None

    def test_a_job_is_not_committed_without_its_checkpoint(self) -> None:
        ledger = self.ledger_of(run())
        saver = self.make_saver(ledger)
        write_commit(saver, None)
        job = ledger.job(self.changes())
        raises(CheckpointConflict, lambda: resolve(saver.commit(commit_after(None), also=[job])))
        assert not self.is_written(ledger)

    def test_a_checkpoint_is_not_committed_without_its_job(self) -> None:
        ledger = self.ledger_of(run(version=2))
        saver, first = self.make_saver(ledger), commit_after(None)
        job = ledger.job(self.changes())
        raises(RecordConflict, lambda: resolve(saver.commit(first, also=[job])))
        assert resolve(saver.load("thread")) is None
        resolve(saver.commit(first))
        second = commit_after(first.checkpoint.id, n=1)
        raises(RecordConflict, lambda: resolve(saver.commit(second, also=[job])))
        assert history_ids(saver) == [first.checkpoint.id]
        assert not self.is_written(ledger)

    def test_a_job_is_atomic_with_saved_results(self) -> None:
        ledger = self.ledger_of(run())
        saver, commit, task = self.make_saver(ledger), commit_after(None), TaskId("0" * 32)
        head, branch_key = resolve(saver.commit(commit)), BranchKey("thread")
        job, repeated_job = ledger.job(self.changes()), ledger.job(self.changes())
        with suppress(StatewrightError):
            resolve(saver.save_results(branch_key, cast(Any, "f" * 32), Pending(errors={task: "first"}), also=[job]))
        assert not self.is_written(ledger)
        resolve(saver.save_results(branch_key, head, Pending(errors={task: "second"}), also=[job]))
        assert self.is_written(ledger)
        failing = Pending(errors={task: "third"})
        raises(RecordConflict, lambda: resolve(saver.save_results(branch_key, head, failing, also=[repeated_job])))
        loaded = load_head(saver)
        assert loaded.pending.errors == {task: "second"}

    def test_a_job_is_atomic_with_a_deletion(self) -> None:
        ledger = self.ledger_of(run())
        saver = self.make_saver(ledger)
        write_commit(saver, None)
        resolve(saver.delete_thread("thread", also=[ledger.job(self.changes())]))
        assert resolve(saver.load("thread")) is None
        assert self.is_written(ledger)
        first = commit_after(None)
        resolve(saver.commit(first))
        for changes in (self.changes(), [Absent(Run, where(id="r1"))], [Delete(RunLabel, []), *self.changes()]):
            job = ledger.job(changes)
            raises(RecordConflict, lambda job=job: resolve(saver.delete_thread("thread", also=[job])))
            load_head(saver)
            assert self.is_written(ledger)
        write_commit(saver, first.checkpoint.id, n=1)
        assert len(resolve(saver.history("thread"))) == 2

    def test_a_job_is_committed_even_if_the_deleted_thread_does_not_exist(self) -> None:
        ledger = self.ledger_of(run())
        saver = self.make_saver(ledger)
        resolve(saver.delete_thread("thread", also=[ledger.job(self.changes())]))
        assert self.is_written(ledger)
        job = ledger.job(self.changes())
        raises(RecordConflict, lambda: resolve(saver.delete_thread("thread", also=[job])))

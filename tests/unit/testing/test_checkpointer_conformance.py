"""The conformance suite of checkpointers: it passes correct savers and detects broken ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from statewright.checkpoint import (
    Checkpoint,
    Commit,
    InMemorySaver,
    Lease,
    LeaseRequest,
    Pending,
    SavedCheckpoint,
    ThreadEntry,
)
from statewright.errors import CheckpointConflict, CheckpointNotFound, StatewrightError, ThreadBusy
from statewright.ids import CheckpointId
from statewright.testing import CheckpointerConformance

Factory = Callable[[], Any]


def broken_promises(factory: Factory) -> set[str]:
    """Name the tests of the suite that a saver fails."""

    class Suite(CheckpointerConformance):
        def make_saver(self) -> Any:
            return factory()

    failed: set[str] = set()
    for name in [name for name in dir(Suite) if name.startswith("test_")]:
        try:
            getattr(Suite(), name)()
        except (AssertionError, KeyError, StatewrightError):  # any other error is a mistake in this file
            failed.add(name)
    return failed


def head_of(saver: InMemorySaver, commit: Commit) -> CheckpointId | None:
    """Load the id of the head of the branch that a commit is for."""
    key = commit.branch_key
    head = saver.load(key.thread_id, namespace=key.namespace, branch=key.branch)
    return head.id if head is not None else None


class NeverEmpty(InMemorySaver):
    def branches(self, thread_id: str, *, namespace: str = "") -> list[str]:
        return super().branches(thread_id, namespace=namespace) or ["main"]


class LoadsNothing(InMemorySaver):
    def load(self, thread_id: str, **options: Any) -> None:
        return None


class LoadsAlwaysTheHead(InMemorySaver):
    def load(self, thread_id: str, **options: Any) -> SavedCheckpoint | None:
        options.pop("checkpoint_id", None)
        return super().load(thread_id, **options)


class AcceptsEveryCommit(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, expected=head_of(self, commit)))


class SavesRejectedCommits(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        try:
            return super().commit(commit)
        except CheckpointConflict:
            super().commit(replace(commit, expected=head_of(self, commit)))
            raise


class ChecksBeforeLocking(InMemorySaver):
    """Concurrent commits on one head all find it unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self._checked = threading.Barrier(8, timeout=600)
        self._writing = threading.Lock()

    def commit(self, commit: Commit) -> Any:
        if head_of(self, commit) != commit.expected:
            return super().commit(commit)
        if threading.current_thread() is not threading.main_thread():
            self._checked.wait()
        with self._writing:
            return super().commit(replace(commit, expected=head_of(self, commit)))


class ForgetsMetadata(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, metadata={}))


class ForgetsParents(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, parent_id=None))


class ReplacesResults(InMemorySaver):
    def save_results(self, branch_key: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        saved = self._threads[branch_key.thread_id].commits[branch_key.namespace]
        saved[checkpoint_id] = replace(saved[checkpoint_id], pending=pending)


class TreatsNoneAsNoAnswer(InMemorySaver):
    def save_results(self, branch_key: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        answers = {key: value for key, value in pending.answers.items() if value is not None}
        super().save_results(branch_key, checkpoint_id, replace(pending, answers=answers), **options)


class AcceptsEveryClaim(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, hold=_without_epoch(commit.hold)))

    def save_results(self, *args: Any, hold: LeaseRequest | None = None, **options: Any) -> None:
        super().save_results(*args, hold=_without_epoch(hold), **options)

    def renew(self, thread_id: str, hold: LeaseRequest) -> Lease | None:
        return super().renew(thread_id, hold._replace(expected_epoch=None))


def _without_epoch(hold: LeaseRequest | None) -> LeaseRequest | None:
    return hold._replace(expected_epoch=None) if hold is not None else None


class ClaimsByTheEpochOnly(InMemorySaver):
    def save_results(self, branch_key: Any, *args: Any, hold: LeaseRequest | None = None, **options: Any) -> None:
        if hold is not None and hold.expected_epoch == self._threads[branch_key.thread_id].epoch:
            hold = _without_epoch(hold)
        super().save_results(branch_key, *args, hold=hold, **options)


class IncrementsTheEpochOnEveryWrite(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        checkpoint_id = super().commit(commit)
        self._threads[commit.branch_key.thread_id].epoch += 1
        return checkpoint_id


class KeepsTheLastJournalEntry(InMemorySaver):
    def save_results(self, branch_key: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        known = self._threads[branch_key.thread_id].commits[branch_key.namespace][checkpoint_id].pending
        for key in pending.journal if known is not None else ():
            known.journal.pop(key, None)
        super().save_results(branch_key, checkpoint_id, pending, **options)


class WaitsForEndedProcesses(InMemorySaver):
    def save_results(self, branch_key: Any, *args: Any, hold: LeaseRequest | None = None, **options: Any) -> None:
        lease = self._threads[branch_key.thread_id].lease
        if hold is not None and hold.claims and lease is not None and lease.until > hold.now:
            raise ThreadBusy(branch_key.thread_id, lease.owner, lease.until)
        super().save_results(branch_key, *args, hold=hold, **options)


class ListsOldestFirst(InMemorySaver):
    def history(self, thread_id: str, **options: Any) -> Sequence[SavedCheckpoint]:
        return super().history(thread_id, **options)[::-1]


class IgnoresLimits(InMemorySaver):
    def history(self, thread_id: str, *, limit: int | None = None, **options: Any) -> Sequence[SavedCheckpoint]:
        return super().history(thread_id, **options)


class IgnoresBefore(InMemorySaver):
    def history(self, thread_id: str, *, before: Any = None, **options: Any) -> Sequence[SavedCheckpoint]:
        return super().history(thread_id, **options)


class IncludesTheCheckpointBeforeWhichToList(InMemorySaver):
    def history(self, thread_id: str, *, before: Any = None, **options: Any) -> Sequence[SavedCheckpoint]:
        history = super().history(thread_id, **options)
        if before is None:
            return history
        positions = [position for position, saved in enumerate(history) if saved.id == before]
        if not positions:
            raise CheckpointNotFound("There is none.")
        return history[positions[0] :]


class ListsNothingBeforeAnUnknownCheckpoint(InMemorySaver):
    def history(self, thread_id: str, **options: Any) -> Sequence[SavedCheckpoint]:
        try:
            return super().history(thread_id, **options)
        except CheckpointNotFound:
            return []


class IgnoresBranches(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, branch_key=commit.branch_key._replace(branch="main")))


class ListsBranchesInReverseOrder(InMemorySaver):
    def branches(self, thread_id: str, *, namespace: str = "") -> list[str]:
        return super().branches(thread_id, namespace=namespace)[::-1]


class OmitsAncestorsOfBranches(InMemorySaver):
    def history(self, thread_id: str, *, branch: str | None = None, **options: Any) -> Sequence[SavedCheckpoint]:
        history = super().history(thread_id, branch=branch, **options)
        return [saved for saved in history if branch is None or saved.branch_key.branch == branch]


class NeverDropsNamespaces(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, dropped_namespaces=()))


class KeepsNestedNamespaces(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        checkpoint_id = super().commit(replace(commit, dropped_namespaces=()))
        for namespace in commit.dropped_namespaces:
            self._forget({namespace})
        return checkpoint_id

    def _forget(self, spaces: set[str]) -> None:
        thread = self._threads["thread"]
        for space in spaces:
            thread.commits.pop(space, None)
        thread.heads = {key: head for key, head in thread.heads.items() if key[0] not in spaces}


class DropsNamespacesWithTheSamePrefix(KeepsNestedNamespaces):
    def commit(self, commit: Commit) -> Any:
        checkpoint_id = InMemorySaver.commit(self, replace(commit, dropped_namespaces=()))
        for namespace in commit.dropped_namespaces:
            self._forget({space for space in self._threads["thread"].commits if space.startswith(namespace)})
        return checkpoint_id


class DropsNamespacesOfAllBranches(KeepsNestedNamespaces):
    def commit(self, commit: Commit) -> Any:
        checkpoint_id = super().commit(commit)
        for namespace in commit.dropped_namespaces:
            nested = (namespace + "|", namespace + ":")
            self._forget({space for space in self._threads["thread"].commits if space.startswith(nested)})
        return checkpoint_id


class IgnoresSiblings(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, siblings=()))


class SavesSiblingsFirst(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        for sibling in commit.siblings:
            super().commit(sibling)
        return super().commit(replace(commit, siblings=()))


class SharesCopies(InMemorySaver):
    def copy_thread(self, thread_id: str, to: str) -> None:
        super().copy_thread(thread_id, to)
        self._threads[to] = self._threads[thread_id]


class OverwritesOnCopy(InMemorySaver):
    def copy_thread(self, thread_id: str, to: str) -> None:
        self.delete_thread(to)
        super().copy_thread(thread_id, to)


class IgnoresCopiesOfMissingThreads(InMemorySaver):
    def copy_thread(self, thread_id: str, to: str) -> None:
        if thread_id in self._threads:
            super().copy_thread(thread_id, to)


class KeepsTheOldIdInCopies(InMemorySaver):
    def copy_thread(self, thread_id: str, to: str) -> None:
        super().copy_thread(thread_id, to)
        for checkpoints in self._threads[to].commits.values():
            for key, saved in checkpoints.items():
                checkpoints[key] = replace(saved, branch_key=saved.branch_key._replace(thread_id=thread_id))


class DeletesNothing(InMemorySaver):
    def delete_thread(self, thread_id: str) -> None:
        pass


class DeletesAllThreads(InMemorySaver):
    def delete_thread(self, thread_id: str) -> None:
        self._threads.clear()


class FailsToDeleteMissingThreads(InMemorySaver):
    def delete_thread(self, thread_id: str) -> None:
        del self._threads[thread_id]


class IgnoresLeases(InMemorySaver):
    """Lets any owner write to a held thread."""

    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, hold=None))

    def save_results(self, branch_key: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        super().save_results(branch_key, checkpoint_id, pending, **{**options, "hold": None})

    def renew(self, thread_id: str, hold: Any) -> None:
        return None


class KeepsNoLog(InMemorySaver):
    def events(self, thread_id: str, **options: Any) -> list[Any]:
        return []


class DropsEventsWithTheirNamespace(InMemorySaver):
    def events(self, thread_id: str, **options: Any) -> list[Any]:
        namespaces = self.namespaces(thread_id)
        return [event for event in super().events(thread_id, **options) if event.namespace in namespaces]


class ForgetsRequests(InMemorySaver):
    def want(self, thread_id: str, what: str) -> Any:
        return self.lease(thread_id)


class ForgetsBreakpoints(InMemorySaver):
    def save_results(self, branch_key: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        super().save_results(
            branch_key, checkpoint_id, replace(pending, paused=False, journal={}, attempts={}), **options
        )


class KeepsJournals(InMemorySaver):
    """Keeps journal entries of consumed tasks."""

    def commit(self, commit: Commit) -> Any:
        before = self.load(commit.branch_key.thread_id, checkpoint_id=commit.parent_id) if commit.parent_id else None
        result = super().commit(commit)
        if before is not None:
            super().save_results(before.branch_key, before.id, Pending(journal=before.pending.journal))
        return result


class IgnoresResultsForMissingCheckpoints(InMemorySaver):
    def save_results(self, branch_key: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        with suppress(CheckpointNotFound):
            super().save_results(branch_key, checkpoint_id, pending, **options)


class NeverReleases(InMemorySaver):
    def save_results(
        self, branch_key: Any, checkpoint_id: Any, pending: Pending, *, hold: Any = None, **options: Any
    ) -> None:
        kept = hold._replace(until=hold.now + timedelta(hours=1)) if hold is not None and hold.until is None else hold
        super().save_results(branch_key, checkpoint_id, pending, hold=kept, **options)


class NeverExpires(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        hold = commit.hold
        if hold is not None and hold.until is not None:
            commit = replace(commit, hold=hold._replace(until=hold.now + timedelta(days=1)))
        return super().commit(commit)


class LeavesThreadsOfRejectedWrites(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        try:
            return super().commit(commit)
        except CheckpointConflict:
            super().commit(replace(commit, expected=None)) if commit.branch_key.thread_id not in self._threads else None
            raise


class TreatsNegativeLimitsAsNone(InMemorySaver):
    def threads(self, *, prefix: str = "", limit: int | None = None) -> list[ThreadEntry]:
        return super().threads(prefix=prefix, limit=None if limit is not None and limit < 0 else limit)


class LowercasesIds(InMemorySaver):
    def load(self, thread_id: str, **options: Any) -> SavedCheckpoint | None:
        checkpoint_id = options.pop("checkpoint_id", None)
        return super().load(thread_id, checkpoint_id=checkpoint_id and CheckpointId(checkpoint_id.lower()), **options)


class MergesWithTheParent(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        parent = self.load(commit.branch_key.thread_id, checkpoint_id=commit.parent_id) if commit.parent_id else None
        if parent is not None and commit.deltas is None:
            values = {**parent.checkpoint.values, **commit.checkpoint.values}
            checkpoint = commit.checkpoint
            commit = replace(
                commit,
                checkpoint=Checkpoint(
                    checkpoint.id, checkpoint.step, values, checkpoint.frontier, reported=checkpoint.reported
                ),
            )
        return super().commit(commit)


class IgnoresTheCaseOfPrefixes(InMemorySaver):
    def threads(self, *, prefix: str = "", limit: int | None = None) -> list[ThreadEntry]:
        entries = super().threads()
        return [entry for entry in entries if entry.thread_id.lower().startswith(prefix.lower())][:limit]


BROKEN_SAVERS: dict[type[InMemorySaver], str] = {
    TreatsNegativeLimitsAsNone: "test_a_limit_of_zero_or_less_selects_nothing",
    LowercasesIds: "test_ids_are_compared_exactly",
    MergesWithTheParent: "test_a_commit_without_deltas_replaces_all_values_of_its_parent",
    IgnoresTheCaseOfPrefixes: "test_threads_are_listed_by_a_prefix_of_their_ids",
    ForgetsBreakpoints: "test_all_parts_of_saved_results_are_kept",
    KeepsJournals: "test_a_journal_is_deleted_by_the_commit_that_consumes_its_tasks_but_not_by_a_fork",
    IgnoresResultsForMissingCheckpoints: "test_results_for_a_missing_checkpoint_are_refused",
    IgnoresLeases: "test_a_held_thread_cannot_be_claimed_by_another_owner",
    ClaimsByTheEpochOnly: "test_a_claim_with_results_is_refused_if_the_holder_has_moved_the_head_since_its_load",
    NeverReleases: "test_an_owner_may_write_until_it_releases_the_thread",
    NeverExpires: "test_an_expired_lease_is_taken_over_with_a_higher_epoch",
    ForgetsRequests: "test_a_holder_learns_of_requests_when_it_renews_its_lease",
    LeavesThreadsOfRejectedWrites: "test_a_refused_first_write_leaves_no_thread_behind",
    DropsEventsWithTheirNamespace: "test_the_events_of_deleted_namespaces_are_kept",
    KeepsNoLog: "test_events_are_numbered_by_run_and_written_with_their_commit",
    NeverEmpty: "test_a_new_saver_is_empty",
    LoadsNothing: "test_the_head_is_the_last_commit",
    LoadsAlwaysTheHead: "test_an_older_checkpoint_is_loaded_by_its_id",
    AcceptsEveryCommit: "test_a_commit_on_an_old_head_is_refused_and_changes_nothing",
    SavesRejectedCommits: "test_a_commit_on_an_old_head_is_refused_and_changes_nothing",
    ChecksBeforeLocking: "test_one_of_several_commits_on_the_same_head_wins",
    ForgetsMetadata: "test_the_head_is_the_last_commit",
    ForgetsParents: "test_the_head_is_the_last_commit",
    ReplacesResults: "test_saved_results_are_merged",
    TreatsNoneAsNoAnswer: "test_saved_results_are_merged",
    ListsOldestFirst: "test_history_is_newest_first_and_can_be_limited",
    IgnoresLimits: "test_history_is_newest_first_and_can_be_limited",
    IgnoresBefore: "test_history_is_newest_first_and_can_be_limited",
    IncludesTheCheckpointBeforeWhichToList: "test_history_is_newest_first_and_can_be_limited",
    ListsNothingBeforeAnUnknownCheckpoint: "test_history_is_newest_first_and_can_be_limited",
    IgnoresBranches: "test_a_branch_has_its_own_head_and_the_history_of_its_ancestors",
    ListsBranchesInReverseOrder: "test_a_branch_has_its_own_head_and_the_history_of_its_ancestors",
    OmitsAncestorsOfBranches: "test_a_branch_has_its_own_head_and_the_history_of_its_ancestors",
    NeverDropsNamespaces: "test_namespaces_have_their_own_history_and_are_deleted_with_nested_ones",
    KeepsNestedNamespaces: "test_namespaces_have_their_own_history_and_are_deleted_with_nested_ones",
    DropsNamespacesWithTheSamePrefix: "test_namespaces_have_their_own_history_and_are_deleted_with_nested_ones",
    DropsNamespacesOfAllBranches: "test_a_namespace_is_deleted_on_one_branch_and_its_forks_stay_complete",
    IgnoresSiblings: "test_commits_in_one_transaction_are_saved_together_or_not_at_all",
    SavesSiblingsFirst: "test_commits_in_one_transaction_are_saved_together_or_not_at_all",
    SharesCopies: "test_a_copied_thread_is_independent",
    AcceptsEveryClaim: "test_a_claim_is_refused_if_anything_was_written_after_its_load",
    IncrementsTheEpochOnEveryWrite: "test_writes_of_the_holder_keep_the_epoch_until_it_releases_the_thread",
    KeepsTheLastJournalEntry: "test_the_first_journal_entry_of_a_step_wins",
    WaitsForEndedProcesses: "test_the_lease_of_a_process_that_is_gone_is_not_waited_for",
    OverwritesOnCopy: "test_a_copied_thread_is_independent",
    IgnoresCopiesOfMissingThreads: "test_a_copied_thread_is_independent",
    KeepsTheOldIdInCopies: "test_a_copied_thread_is_independent",
    DeletesNothing: "test_deleting_a_thread_leaves_other_threads",
    DeletesAllThreads: "test_deleting_a_thread_leaves_other_threads",
    FailsToDeleteMissingThreads: "test_deleting_a_thread_leaves_other_threads",
}


class ReturnsFutures(InMemorySaver):
    """Returns futures, like a saver that talks to a server."""

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name.startswith("_") or not callable(attribute):
            return attribute

        def call(*args: Any, **options: Any) -> Future[Any]:
            future: Future[Any] = Future()
            try:
                future.set_result(attribute(*args, **options))
            except Exception as error:
                future.set_exception(error)
            return future

        return call


@pytest.mark.parametrize("saver", [InMemorySaver, ReturnsFutures], ids=lambda kind: kind.__name__)
def test_a_correct_saver_passes(saver: Factory) -> None:
    assert broken_promises(saver) == set()


@pytest.mark.parametrize(("saver", "promise"), BROKEN_SAVERS.items(), ids=[kind.__name__ for kind in BROKEN_SAVERS])
def test_a_saver_that_breaks_a_promise_fails_its_test(saver: Factory, promise: str) -> None:
    assert promise in broken_promises(saver)


def test_every_test_of_the_suite_detects_a_broken_saver() -> None:
    tests = {name for name in dir(CheckpointerConformance) if name.startswith("test_")}
    assert tests - set(BROKEN_SAVERS.values()) == set()


def test_a_subclass_of_the_suite_must_define_make_saver() -> None:
    with pytest.raises(NotImplementedError):
        CheckpointerConformance().make_saver()

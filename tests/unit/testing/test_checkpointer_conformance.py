"""The suite for checkpointers: it passes savers that keep the promises of the port, and finds those that do not."""

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

Make = Callable[[], Any]


def broken_promises(make: Make) -> set[str]:
    """The names of the tests of the suite that a saver fails."""

    class Suite(CheckpointerConformance):
        def make_saver(self) -> Any:
            return make()

    failed: set[str] = set()
    for name in [name for name in dir(Suite) if name.startswith("test_")]:
        try:
            getattr(Suite(), name)()
        except (AssertionError, KeyError, StatewrightError):  # anything else is a mistake of this file
            failed.add(name)
    return failed


def head_of(saver: InMemorySaver, commit: Commit) -> CheckpointId | None:
    """The head of the line that a commit is for."""
    line = commit.branch_key
    head = saver.load(line.thread_id, namespace=line.namespace, branch=line.branch)
    return head.id if head is not None else None


class NeverEmpty(InMemorySaver):
    def branches(self, thread_id: str, *, namespace: str = "") -> list[str]:
        return super().branches(thread_id, namespace=namespace) or ["main"]


class Forgetful(InMemorySaver):
    def load(self, thread_id: str, **options: Any) -> None:
        return None


class LoadsOnlyTheHead(InMemorySaver):
    def load(self, thread_id: str, **options: Any) -> SavedCheckpoint | None:
        options.pop("checkpoint_id", None)
        return super().load(thread_id, **options)


class TakesEveryCommit(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, expected=head_of(self, commit)))


class SavesWhatItRefuses(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        try:
            return super().commit(commit)
        except CheckpointConflict:
            super().commit(replace(commit, expected=head_of(self, commit)))
            raise


class ChecksBeforeItLocks(InMemorySaver):
    """Of several that look at one head at the same time, all see the same."""

    def __init__(self) -> None:
        super().__init__()
        self._looked = threading.Barrier(8, timeout=600)
        self._writing = threading.Lock()

    def commit(self, commit: Commit) -> Any:
        if head_of(self, commit) != commit.expected:
            return super().commit(commit)
        if threading.current_thread() is not threading.main_thread():
            self._looked.wait()
        with self._writing:
            return super().commit(replace(commit, expected=head_of(self, commit)))


class ForgetsMetadata(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, metadata={}))


class ForgetsParents(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, parent_id=None))


class ReplacesResults(InMemorySaver):
    def save_results(self, line: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        saved = self._threads[line.thread_id].commits[line.namespace]
        saved[checkpoint_id] = replace(saved[checkpoint_id], pending=pending)


class TakesNoneForNoAnswer(InMemorySaver):
    def save_results(self, line: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        answers = {key: value for key, value in pending.answers.items() if value is not None}
        super().save_results(line, checkpoint_id, replace(pending, answers=answers), **options)


class AcceptsEveryClaim(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, hold=_without_epoch(commit.hold)))

    def save_results(self, *args: Any, hold: LeaseRequest | None = None, **options: Any) -> None:
        super().save_results(*args, hold=_without_epoch(hold), **options)

    def renew(self, thread_id: str, hold: LeaseRequest) -> Lease | None:
        return super().renew(thread_id, hold._replace(expected_epoch=None))


def _without_epoch(hold: LeaseRequest | None) -> LeaseRequest | None:
    return hold._replace(expected_epoch=None) if hold is not None else None


class CountsEveryWrite(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        identity = super().commit(commit)
        self._threads[commit.branch_key.thread_id].epoch += 1
        return identity


class KeepsTheLastRecord(InMemorySaver):
    def save_results(self, line: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        known = self._threads[line.thread_id].commits[line.namespace][checkpoint_id].pending
        for key in pending.journal if known is not None else ():
            known.journal.pop(key, None)
        super().save_results(line, checkpoint_id, pending, **options)


class WaitsForTheDead(InMemorySaver):
    def save_results(self, line: Any, *args: Any, hold: LeaseRequest | None = None, **options: Any) -> None:
        lease = self._threads[line.thread_id].lease
        if hold is not None and hold.claims and lease is not None and lease.until > hold.now:
            raise ThreadBusy(line.thread_id, lease.owner, lease.until)
        super().save_results(line, *args, hold=hold, **options)


class OldestFirst(InMemorySaver):
    def history(self, thread_id: str, **options: Any) -> Sequence[SavedCheckpoint]:
        return super().history(thread_id, **options)[::-1]


class NeverCutsAtTheEnd(InMemorySaver):
    def history(self, thread_id: str, *, limit: int | None = None, **options: Any) -> Sequence[SavedCheckpoint]:
        return super().history(thread_id, **options)


class NeverCutsAtTheFront(InMemorySaver):
    def history(self, thread_id: str, *, before: Any = None, **options: Any) -> Sequence[SavedCheckpoint]:
        return super().history(thread_id, **options)


class CutsIncludingTheOneNamed(InMemorySaver):
    def history(self, thread_id: str, *, before: Any = None, **options: Any) -> Sequence[SavedCheckpoint]:
        found = super().history(thread_id, **options)
        if before is None:
            return found
        places = [place for place, one in enumerate(found) if one.id == before]
        if not places:
            raise CheckpointNotFound("There is none.")
        return found[places[0] :]


class ListsNothingBeforeTheUnknown(InMemorySaver):
    def history(self, thread_id: str, **options: Any) -> Sequence[SavedCheckpoint]:
        try:
            return super().history(thread_id, **options)
        except CheckpointNotFound:
            return []


class KnowsNoBranches(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, branch_key=commit.branch_key._replace(branch="main")))


class ListsBranchesAsTheyCame(InMemorySaver):
    def branches(self, thread_id: str, *, namespace: str = "") -> list[str]:
        return super().branches(thread_id, namespace=namespace)[::-1]


class CutsBranchesOff(InMemorySaver):
    def history(self, thread_id: str, *, branch: str | None = None, **options: Any) -> Sequence[SavedCheckpoint]:
        found = super().history(thread_id, branch=branch, **options)
        return [one for one in found if branch is None or one.branch_key.branch == branch]


class DropsNothing(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, dropped_namespaces=()))


class DropsWithoutWhatIsInside(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        identity = super().commit(replace(commit, dropped_namespaces=()))
        for namespace in commit.dropped_namespaces:
            self._forget({namespace})
        return identity

    def _forget(self, spaces: set[str]) -> None:
        thread = self._threads["thread"]
        for space in spaces:
            thread.commits.pop(space, None)
        thread.heads = {key: head for key, head in thread.heads.items() if key[0] not in spaces}


class DropsWhatOnlyBeginsAlike(DropsWithoutWhatIsInside):
    def commit(self, commit: Commit) -> Any:
        identity = InMemorySaver.commit(self, replace(commit, dropped_namespaces=()))
        for namespace in commit.dropped_namespaces:
            self._forget({space for space in self._threads["thread"].commits if space.startswith(namespace)})
        return identity


class DropsOnAllBranches(DropsWithoutWhatIsInside):
    def commit(self, commit: Commit) -> Any:
        identity = super().commit(commit)
        for one in commit.dropped_namespaces:
            inside = (one + "|", one + ":")
            self._forget({space for space in self._threads["thread"].commits if space.startswith(inside)})
        return identity


class SavesNothingBeside(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, siblings=()))


class SavesBesideFirst(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        for one in commit.siblings:
            super().commit(one)
        return super().commit(replace(commit, siblings=()))


class SharesCopies(InMemorySaver):
    def copy_thread(self, thread_id: str, to: str) -> None:
        super().copy_thread(thread_id, to)
        self._threads[to] = self._threads[thread_id]


class CopiesOverOthers(InMemorySaver):
    def copy_thread(self, thread_id: str, to: str) -> None:
        self.delete_thread(to)
        super().copy_thread(thread_id, to)


class CopiesNobody(InMemorySaver):
    def copy_thread(self, thread_id: str, to: str) -> None:
        if thread_id in self._threads:
            super().copy_thread(thread_id, to)


class CopiesUnderTheOldName(InMemorySaver):
    def copy_thread(self, thread_id: str, to: str) -> None:
        super().copy_thread(thread_id, to)
        for saved in self._threads[to].commits.values():
            for key, one in saved.items():
                saved[key] = replace(one, branch_key=one.branch_key._replace(thread_id=thread_id))


class DeletesNothing(InMemorySaver):
    def delete_thread(self, thread_id: str) -> None:
        pass


class DeletesAll(InMemorySaver):
    def delete_thread(self, thread_id: str) -> None:
        self._threads.clear()


class DeletesOnlyWhatIsThere(InMemorySaver):
    def delete_thread(self, thread_id: str) -> None:
        del self._threads[thread_id]


class IgnoresHolds(InMemorySaver):
    """Lets everybody write to a thread that somebody holds."""

    def commit(self, commit: Commit) -> Any:
        return super().commit(replace(commit, hold=None))

    def save_results(self, line: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        super().save_results(line, checkpoint_id, pending, **{**options, "hold": None})

    def renew(self, thread_id: str, hold: Any) -> None:
        return None


class KeepsNoLog(InMemorySaver):
    def events(self, thread_id: str, **options: Any) -> list[Any]:
        return []


class ForgetsWhatIsWanted(InMemorySaver):
    def want(self, thread_id: str, what: str) -> Any:
        return self.lease(thread_id)


class ForgetsBreakpoints(InMemorySaver):
    def save_results(self, line: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        super().save_results(line, checkpoint_id, replace(pending, paused=False, journal={}, attempts={}), **options)


class KeepsJournals(InMemorySaver):
    """Does not let go of entries whose tasks are consumed."""

    def commit(self, commit: Commit) -> Any:
        before = self.load(commit.branch_key.thread_id, checkpoint_id=commit.parent_id) if commit.parent_id else None
        done = super().commit(commit)
        if before is not None:
            super().save_results(before.branch_key, before.id, Pending(journal=before.pending.journal))
        return done


class TakesResultsForNothing(InMemorySaver):
    def save_results(self, line: Any, checkpoint_id: Any, pending: Pending, **options: Any) -> None:
        with suppress(CheckpointNotFound):
            super().save_results(line, checkpoint_id, pending, **options)


class NeverLetsGo(InMemorySaver):
    def save_results(
        self, line: Any, checkpoint_id: Any, pending: Pending, *, hold: Any = None, **options: Any
    ) -> None:
        kept = hold._replace(until=hold.now + timedelta(hours=1)) if hold is not None and hold.until is None else hold
        super().save_results(line, checkpoint_id, pending, hold=kept, **options)


class NeverLapses(InMemorySaver):
    """Holds for ever what was once taken."""

    def commit(self, commit: Commit) -> Any:
        hold = commit.hold
        if hold is not None and hold.until is not None:
            commit = replace(commit, hold=hold._replace(until=hold.now + timedelta(days=1)))
        return super().commit(commit)


class LeavesThreadsBehind(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        try:
            return super().commit(commit)
        except CheckpointConflict:
            super().commit(replace(commit, expected=None)) if commit.branch_key.thread_id not in self._threads else None
            raise


class TakesLessThanNothingForAll(InMemorySaver):
    def threads(self, *, prefix: str = "", limit: int | None = None) -> list[ThreadEntry]:
        return super().threads(prefix=prefix, limit=None if limit is not None and limit < 0 else limit)


class KnowsNoCapitals(InMemorySaver):
    def load(self, thread_id: str, **options: Any) -> SavedCheckpoint | None:
        wanted = options.pop("checkpoint_id", None)
        return super().load(thread_id, checkpoint_id=wanted and CheckpointId(wanted.lower()), **options)


class LaysOverTheParent(InMemorySaver):
    def commit(self, commit: Commit) -> Any:
        parent = self.load(commit.branch_key.thread_id, checkpoint_id=commit.parent_id) if commit.parent_id else None
        if parent is not None and commit.deltas is None:
            values = {**parent.checkpoint.values, **commit.checkpoint.values}
            one = commit.checkpoint
            commit = replace(
                commit, checkpoint=Checkpoint(one.id, one.step, values, one.frontier, reported=one.reported)
            )
        return super().commit(commit)


class EndsTextAtNothing(InMemorySaver):
    def threads(self, *, prefix: str = "", limit: int | None = None) -> list[ThreadEntry]:
        return super().threads(prefix=prefix.partition("\x00")[0], limit=limit)


BROKEN: dict[type[InMemorySaver], str] = {
    TakesLessThanNothingForAll: "test_a_limit_of_zero_or_less_selects_nothing",
    KnowsNoCapitals: "test_ids_are_compared_exactly",
    LaysOverTheParent: "test_a_commit_without_deltas_replaces_all_values_of_its_parent",
    EndsTextAtNothing: "test_threads_are_listed_by_a_prefix_of_their_ids",
    ForgetsBreakpoints: "test_all_parts_of_saved_results_are_kept",
    KeepsJournals: "test_a_journal_is_deleted_by_the_commit_that_consumes_its_tasks_but_not_by_a_fork",
    TakesResultsForNothing: "test_results_for_a_missing_checkpoint_are_refused",
    IgnoresHolds: "test_a_held_thread_cannot_be_claimed_by_another_owner",
    NeverLetsGo: "test_an_owner_may_write_until_it_releases_the_thread",
    NeverLapses: "test_an_expired_lease_is_taken_over_with_a_higher_epoch",
    ForgetsWhatIsWanted: "test_a_holder_learns_of_requests_when_it_renews_its_lease",
    LeavesThreadsBehind: "test_a_refused_first_write_leaves_no_thread_behind",
    KeepsNoLog: "test_events_are_numbered_by_run_and_written_with_their_commit",
    NeverEmpty: "test_a_new_saver_is_empty",
    Forgetful: "test_the_head_is_the_last_commit",
    LoadsOnlyTheHead: "test_an_older_checkpoint_is_loaded_by_its_id",
    TakesEveryCommit: "test_a_commit_on_an_old_head_is_refused_and_changes_nothing",
    SavesWhatItRefuses: "test_a_commit_on_an_old_head_is_refused_and_changes_nothing",
    ChecksBeforeItLocks: "test_one_of_several_commits_on_the_same_head_wins",
    ForgetsMetadata: "test_the_head_is_the_last_commit",
    ForgetsParents: "test_the_head_is_the_last_commit",
    ReplacesResults: "test_saved_results_are_merged",
    TakesNoneForNoAnswer: "test_saved_results_are_merged",
    OldestFirst: "test_history_is_newest_first_and_can_be_limited",
    NeverCutsAtTheEnd: "test_history_is_newest_first_and_can_be_limited",
    NeverCutsAtTheFront: "test_history_is_newest_first_and_can_be_limited",
    CutsIncludingTheOneNamed: "test_history_is_newest_first_and_can_be_limited",
    ListsNothingBeforeTheUnknown: "test_history_is_newest_first_and_can_be_limited",
    KnowsNoBranches: "test_a_branch_has_its_own_head_and_the_history_of_its_ancestors",
    ListsBranchesAsTheyCame: "test_a_branch_has_its_own_head_and_the_history_of_its_ancestors",
    CutsBranchesOff: "test_a_branch_has_its_own_head_and_the_history_of_its_ancestors",
    DropsNothing: "test_namespaces_have_their_own_history_and_are_deleted_with_nested_ones",
    DropsWithoutWhatIsInside: "test_namespaces_have_their_own_history_and_are_deleted_with_nested_ones",
    DropsWhatOnlyBeginsAlike: "test_namespaces_have_their_own_history_and_are_deleted_with_nested_ones",
    DropsOnAllBranches: "test_a_namespace_is_deleted_on_one_branch_and_its_forks_stay_complete",
    SavesNothingBeside: "test_commits_in_one_transaction_are_saved_together_or_not_at_all",
    SavesBesideFirst: "test_commits_in_one_transaction_are_saved_together_or_not_at_all",
    SharesCopies: "test_a_copied_thread_is_independent",
    AcceptsEveryClaim: "test_a_claim_is_refused_if_anything_was_written_after_its_load",
    CountsEveryWrite: "test_writes_of_the_holder_keep_the_epoch_until_it_releases_the_thread",
    KeepsTheLastRecord: "test_the_first_journal_entry_of_a_step_wins",
    WaitsForTheDead: "test_the_lease_of_a_process_that_is_gone_is_not_waited_for",
    CopiesOverOthers: "test_a_copied_thread_is_independent",
    CopiesNobody: "test_a_copied_thread_is_independent",
    CopiesUnderTheOldName: "test_a_copied_thread_is_independent",
    DeletesNothing: "test_deleting_a_thread_leaves_other_threads",
    DeletesAll: "test_deleting_a_thread_leaves_other_threads",
    DeletesOnlyWhatIsThere: "test_deleting_a_thread_leaves_other_threads",
}


class AnswersLater(InMemorySaver):
    """Gives futures, as a saver does that talks to a server."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def later(*args: Any, **options: Any) -> Future[Any]:
            answer: Future[Any] = Future()
            try:
                answer.set_result(found(*args, **options))
            except Exception as error:
                answer.set_exception(error)
            return answer

        return later


@pytest.mark.parametrize("saver", [InMemorySaver, AnswersLater], ids=lambda kind: kind.__name__)
def test_a_saver_that_keeps_the_promises_passes(saver: Make) -> None:
    assert broken_promises(saver) == set()


@pytest.mark.parametrize(("saver", "promise"), BROKEN.items(), ids=[kind.__name__ for kind in BROKEN])
def test_a_saver_that_breaks_a_promise_fails_the_test_of_that_promise(saver: Make, promise: str) -> None:
    assert promise in broken_promises(saver)


def test_every_test_of_the_suite_finds_a_broken_saver() -> None:
    tests = {name for name in dir(CheckpointerConformance) if name.startswith("test_")}
    assert tests - set(BROKEN.values()) == set()


def test_a_saver_has_to_be_made_by_those_who_derive_the_suite() -> None:
    with pytest.raises(NotImplementedError):
        CheckpointerConformance().make_saver()

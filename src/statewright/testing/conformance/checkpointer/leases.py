"""Tests of leases, which ensure that only one run at a time writes to a thread."""

from __future__ import annotations

from collections.abc import Callable

from statewright.checkpoint import Checkpointer, JournalEntry, Pending, add_holder, discard_holder, new_owner
from statewright.errors import CheckpointConflict, CheckpointNotFound, JournalConflict, LeaseLost, ThreadBusy
from statewright.futures import resolve
from statewright.ids import CheckpointId
from statewright.testing.conformance.assertions import raises
from statewright.testing.conformance.checkpointer.samples import (
    MAIN,
    CheckpointerSuite,
    commit_after,
    get_lease,
    lease_request,
    load_head,
    write_commit,
)


class LeaseTests(CheckpointerSuite):
    """A thread has at most one lease holder, and a write by any other caller changes the epoch of the thread."""

    def test_a_held_thread_cannot_be_claimed_by_another_owner(self) -> None:
        saver = self.make_saver()
        head = write_commit(saver, None, hold=lease_request("first", claims=True))
        other = lease_request("second", claims=True)
        error = raises(ThreadBusy, lambda: write_commit(saver, head, hold=other))
        assert error.owner == "first"
        raises(ThreadBusy, lambda: resolve(saver.save_results(MAIN, head, Pending(paused=True), hold=other)))
        raises(ThreadBusy, lambda: resolve(saver.renew("thread", other)))
        assert load_head(saver).id == head
        assert not load_head(saver).pending.paused
        lease = get_lease(saver)
        assert lease.owner == "first"

    def test_an_owner_may_write_until_it_releases_the_thread(self) -> None:
        saver = self.make_saver()
        head = write_commit(saver, None, hold=lease_request("first", claims=True))
        head = write_commit(saver, head, hold=lease_request("first"))
        resolve(saver.save_results(MAIN, head, Pending(paused=True), hold=lease_request("first", seconds=None)))
        assert resolve(saver.lease("thread")) is None
        raises(LeaseLost, lambda: write_commit(saver, head, hold=lease_request("first")))
        write_commit(saver, head, hold=lease_request("second", claims=True))

    def test_an_expired_lease_is_taken_over_with_a_higher_epoch(self) -> None:
        saver = self.make_saver()
        head = write_commit(saver, None, hold=lease_request("first", claims=True))
        before = get_lease(saver)
        head = write_commit(saver, head, hold=lease_request("second", after=61, claims=True))
        after = get_lease(saver)
        assert (after.owner, after.epoch > before.epoch) == ("second", True)
        raises(
            LeaseLost, lambda: resolve(saver.save_results(MAIN, head, Pending(), hold=lease_request("first", after=62)))
        )
        raises(LeaseLost, lambda: resolve(saver.renew("thread", lease_request("first", after=62))))

    def test_a_claim_is_refused_if_anything_was_written_after_its_load(self) -> None:
        """Each write between a load and a claim changes the epoch, even if the head stays the same."""
        for write in (_claim_and_release, _save_without_lease, _commit_and_release, _write_after_expiry):
            self._check_that_a_claim_notices(write)

    def _check_that_a_claim_notices(self, write: Callable[[Checkpointer, CheckpointId], None]) -> None:
        saver = self.make_saver()
        head = write_commit(saver, None, hold=lease_request("first", claims=True))
        resolve(saver.renew("thread", lease_request("first", seconds=1)))
        loaded = load_head(saver)
        assert loaded.epoch is not None
        assert loaded.lease == get_lease(saver)
        write(saver, head)

        claim = lease_request("second", after=3600, claims=True)._replace(expected_epoch=loaded.epoch)
        current = load_head(saver)
        raises(CheckpointConflict, lambda: write_commit(saver, head, hold=claim))
        raises(CheckpointConflict, lambda: resolve(saver.save_results(MAIN, head, Pending(paused=True), hold=claim)))
        raises(CheckpointConflict, lambda: resolve(saver.renew("thread", claim)))
        assert (load_head(saver), load_head(saver).epoch) == (current, current.epoch), write

        resolve(saver.renew("thread", claim._replace(expected_epoch=current.epoch)))
        assert get_lease(saver).owner == "second"

    def test_a_claim_with_results_is_refused_if_the_holder_has_moved_the_head_since_its_load(self) -> None:
        saver = self.make_saver()
        head = write_commit(saver, None, hold=lease_request("first", claims=True))
        loaded = load_head(saver)
        current = write_commit(saver, head, hold=lease_request("first", after=1))  # the epoch stays the same
        claim = lease_request("second", after=3600, claims=True)._replace(expected_epoch=loaded.epoch)
        raises(CheckpointConflict, lambda: resolve(saver.save_results(MAIN, head, Pending(paused=True), hold=claim)))
        resolve(saver.save_results(MAIN, current, Pending(paused=True), hold=claim))
        assert get_lease(saver).owner == "second"

    def test_writes_of_the_holder_keep_the_epoch_until_it_releases_the_thread(self) -> None:
        saver = self.make_saver()
        head = write_commit(saver, None, hold=lease_request("first", claims=True))
        epochs = [load_head(saver).epoch]
        head = write_commit(saver, head, hold=lease_request("first", after=1))
        epochs.append(load_head(saver).epoch)
        resolve(saver.save_results(MAIN, head, Pending(paused=True), hold=lease_request("first", after=50)))
        resolve(saver.renew("thread", lease_request("first", after=100)))
        epochs.append(load_head(saver).epoch)
        assert len(set(epochs)) == 1
        resolve(saver.renew("thread", lease_request("first", after=100, seconds=None)))
        assert load_head(saver).epoch not in epochs

    def test_the_first_journal_entry_of_a_step_wins(self) -> None:
        saver = self.make_saver()
        commit = commit_after(None)
        head, (task,) = resolve(saver.commit(commit)), commit.checkpoint.frontier
        key = (task.id, "charge", 0)
        first = Pending(journal={key: JournalEntry("args", "receipt 1")})
        resolve(saver.save_results(MAIN, head, first))
        again = Pending(journal={key: JournalEntry("args", "receipt 2")}, paused=True)
        error = raises(JournalConflict, lambda: resolve(saver.save_results(MAIN, head, again)))
        assert (error.name, error.ordinal) == ("charge", 0)
        assert load_head(saver).pending.journal == first.journal
        assert not load_head(saver).pending.paused
        resolve(saver.save_results(MAIN, head, Pending(journal={(task.id, "charge", 1): JournalEntry("args", "more")})))
        assert len(load_head(saver).pending.journal) == 2

    def test_the_lease_of_a_process_that_is_gone_is_not_waited_for(self) -> None:
        saver = self.make_saver()
        gone, alive = new_owner("gone"), new_owner("alive")
        add_holder(gone)
        add_holder(alive)
        try:
            head = write_commit(saver, None, hold=lease_request(gone, claims=True))
            raises(ThreadBusy, lambda: resolve(saver.renew("thread", lease_request(alive, claims=True))))
            discard_holder(gone)
            resolve(saver.save_results(MAIN, head, Pending(paused=True), hold=lease_request(alive, claims=True)))
            raises(LeaseLost, lambda: resolve(saver.renew("thread", lease_request(gone))))
        finally:
            discard_holder(gone)
            discard_holder(alive)

    def test_a_holder_learns_of_requests_when_it_renews_its_lease(self) -> None:
        saver = self.make_saver()
        assert resolve(saver.want("thread", "interrupt")) is None
        write_commit(saver, None, hold=lease_request("first", claims=True))
        resolve(saver.want("thread", "rollback"))
        renewed = resolve(saver.renew("thread", lease_request("first")))
        assert renewed is not None
        assert renewed.wanted == "rollback"

    def test_a_refused_first_write_leaves_no_thread_behind(self) -> None:
        saver = self.make_saver()
        raises(CheckpointConflict, lambda: write_commit(saver, None, expected="other"))
        raises(CheckpointNotFound, lambda: resolve(saver.copy_thread("thread", "copy")))


def _claim_and_release(saver: Checkpointer, head: CheckpointId) -> None:
    resolve(saver.renew("thread", lease_request("other", after=10, claims=True)))
    resolve(saver.renew("thread", lease_request("other", after=10, seconds=None)))


def _save_without_lease(saver: Checkpointer, head: CheckpointId) -> None:
    resolve(saver.save_results(MAIN, head, Pending(paused=True)))


def _commit_and_release(saver: Checkpointer, head: CheckpointId) -> None:
    hold = lease_request("other", after=10, seconds=None, claims=True)
    resolve(saver.save_results(MAIN, head, Pending(paused=True), hold=hold))


def _write_after_expiry(saver: Checkpointer, head: CheckpointId) -> None:
    """Write as a holder whose lease has expired, before another owner claims the thread."""
    resolve(saver.save_results(MAIN, head, Pending(paused=True), hold=lease_request("first", after=10)))

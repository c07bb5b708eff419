"""The methods of a compiled graph that inspect and change threads from outside a run."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, Unpack, cast

from statewright.checkpoint import BranchKey, Checkpointer, LeaseRequest, Pruned, PrunePolicy, ThreadEntry
from statewright.errors import InvalidUpdateError, LeaseLost, RunCancelled
from statewright.events import Event
from statewright.futures import resolve
from statewright.graph import ContextT, InputT, OutputT, ResultT, StateT
from statewright.ids import checked_name
from statewright.runtime.concurrency.control import LinkedControl, RunControl
from statewright.runtime.config import OnBusy, as_thread_id, read_settings
from statewright.runtime.core.effects import Effect
from statewright.runtime.drivers.saver_calls import perform_all
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.snapshot import (
    StateSnapshot,
    checkpoint_config,
    empty_snapshot,
    renew_questions_around,
    snapshot_of,
    with_subgraphs,
)
from statewright.runtime.lifecycle.thread_lease import ThreadHold
from statewright.runtime.lifecycle.thread_state import (
    Update,
    check_updates,
    diff,
    fork_thread,
    iter_history,
    load_checkpoint,
    peek_head,
    roll_back_thread,
    update_thread,
)
from statewright.runtime.lifecycle.turn import take_turn
from statewright.runtime.methods.run_factory import RunFactory
from statewright.runtime.options import CallOptions, Config
from statewright.stale_reads import for_history

HISTORY_PAGE: Final = 100
"""The number of checkpoints to read at once while iterating over a history."""
T = TypeVar("T")


class ThreadMethods(RunFactory[StateT, ContextT, InputT, OutputT, ResultT]):
    """Inspects and changes the threads of a graph.

    The methods raise InvalidConfig if the graph has no checkpointer. If a run holds the thread, a method that changes
    it raises ThreadBusy or waits its turn, depending on `on_busy`.
    """

    def get_state(
        self, config: Config = None, *, subgraphs: bool = False, **options: Unpack[CallOptions[ContextT]]
    ) -> StateSnapshot[ResultT]:
        """Return the state of a thread at its head, or at the checkpoint that the config names.

        With `subgraphs`, each task whose subgraph has begun has a snapshot of the subgraph as its `state`, at any
        depth. The config of such a snapshot has a `namespace`. If it is passed to this method, the state of that
        subgraph is returned.
        """
        run = self._thread_run(config, options)
        saved = perform_all(run, load_checkpoint(run))
        if saved is None:
            return empty_snapshot(run.program, run.node_config())
        snapshot = snapshot_of(run.program, saved)
        return with_subgraphs(run, snapshot) if subgraphs else snapshot

    def get_state_history(
        self,
        config: Config = None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  # the field's word
        before: Any = None,
        limit: int | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> Iterator[StateSnapshot[ResultT]]:
        """Iterate over the checkpoints of the thread's branch, the newest first.

        If the branch is a fork, the checkpoints before the fork follow. If `config` names a checkpoint, the iteration
        begins with it. If `before`, another config, names a checkpoint, the iteration begins with the previous one.
        `filter` selects checkpoints whose metadata contains its entries.
        """
        run = self._thread_run(config, options)
        start = read_settings(before).checkpoint_id if before is not None else run.settings.checkpoint_id
        criteria = (filter or {}).items()
        page = limit if limit is not None and not criteria else HISTORY_PAGE
        saved = iter_history(run, start, page, inclusive=before is None)
        snapshots = (snapshot_of(run.program, checkpoint) for checkpoint in saved)
        matches = (
            snapshot for snapshot in snapshots if all(snapshot.metadata.get(key) == value for key, value in criteria)
        )
        return itertools.islice(matches, limit)

    def update_state(
        self,
        config: Config,
        values: Any,
        as_node: str | None = None,
        *,
        cancel_pending: bool = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> dict[str, Any]:
        """Change the state as if a node had returned `values`. Return the config of the new checkpoint.

        After the update, the successors of the node are due. Other due tasks stay due, unless `cancel_pending`.
        `as_node` is by default the node that ran last, if there is just one. After an update with END as `as_node`, no
        task is due.
        Raises InvalidUpdateError if several tasks of the node are due, because an update is the result of one task.
        """
        return self.bulk_update_state(config, [(values, as_node)], cancel_pending=cancel_pending, **options)

    def bulk_update_state(
        self,
        config: Config,
        updates: Sequence[Update],
        *,
        cancel_pending: bool = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> dict[str, Any]:
        """Apply several updates `(values, as_node)`, in order, as one superstep. Otherwise like `update_state`."""
        if not updates:
            raise InvalidUpdateError("There are no updates. Pass at least one pair (values, as_node).")
        run = self._thread_run(config, options)
        before = perform_all(run, peek_head(run)) if run.namespace else None
        branch_key, head = _change_thread(
            run,
            lambda: update_thread(run, updates, cancel_pending=cancel_pending),
            check=lambda: check_updates(run, updates),
        )
        if branch_key.namespace:
            renew_questions_around(run, before)
        return checkpoint_config(branch_key, head)

    def get_events(
        self,
        config: Config = None,
        *,
        after: int = 0,
        limit: int | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> Sequence[Event]:
        """Return at most `limit` events from the log of the thread, after the entry number `after`.

        With a `run_id`, return only the events of that run.
        """
        run = self._thread_run(config, options)
        thread_id, run_id = cast(BranchKey, run.branch_key).thread_id, run.settings.run_id
        return resolve(cast(Checkpointer, run.saver).events(thread_id, run_id=run_id, after=after, limit=limit))

    def fork(
        self,
        config: Config,
        *,
        branch: str | None = None,
        thread_id: str | None = None,
        on_busy: OnBusy | None = None,
    ) -> dict[str, Any]:
        """Make the checkpoint that the config names the head of a new branch, by default of its own branch again.

        Return the config of the new head. The tasks that were due at the checkpoint are due again, with the same ids.
        Their saved results are kept, but not the answers to their questions.
        """
        run = self._thread_run(config, {"thread_id": thread_id, "on_busy": on_busy})
        branch_key, head = _change_thread(run, lambda: fork_thread(run, branch), may_reload=True)
        return checkpoint_config(branch_key, head)

    def roll_back(self, config: Config = None, **options: Unpack[CallOptions[ContextT]]) -> None:
        """Restore the state before the last input of the thread, as a new head. The history is kept.

        Raises CheckpointConflict if a `checkpoint_id` is passed that is no longer the head of the thread.
        """
        run = self._thread_run(config, options)
        _change_thread(run, lambda: roll_back_thread(run, expected=run.settings.checkpoint_id, releases_thread=True))

    def release(self, thread_id: str) -> None:
        """End the lease of the run that holds a thread, whether or not this run still exists.

        Use this if the run hangs, or its machine is gone, so that other runs need not wait until the lease expires. If
        the run continues after all, its next write is refused with `LeaseLost`.
        """
        saver = self._require_saver()
        thread_id = checked_name("thread_id", str(thread_id))
        lease = resolve(saver.lease(thread_id))
        if lease is not None:
            with suppress(LeaseLost):  # the lease was released meanwhile, or another run has taken over the thread
                resolve(saver.renew(thread_id, LeaseRequest(lease.owner, self._clock.now(), None)))

    async def arelease(self, thread_id: str) -> None:
        """Do the same as `release`, without blocking the running event loop."""
        await run_in_thread(self.release, thread_id)

    def diff(
        self, before: Config, after: Config, **options: Unpack[CallOptions[ContextT]]
    ) -> dict[str, tuple[Any, Any]]:
        """Compare two checkpoints, which are named by configs. Return the old and new values of fields that differ."""
        old, new = (cast(Any, self.get_state(config, **options).values) for config in (before, after))
        return diff(old, new)

    def threads(self, *, prefix: str = "", limit: int | None = None) -> Sequence[ThreadEntry]:
        """Return the threads in the checkpointer, even those of other graphs, the most recently changed first."""
        return resolve(for_history(self._require_saver()).threads(prefix=prefix, limit=limit))

    def copy_thread(self, thread_id: str, to: str) -> None:
        """Copy a thread, with its history and logs, to a new thread `to`. Raises CheckpointConflict if `to` exists."""
        resolve(self._require_saver().copy_thread(as_thread_id(thread_id), checked_name("to", as_thread_id(to))))

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its history and its logs."""
        resolve(self._require_saver().delete_thread(as_thread_id(thread_id)))

    def prune(self, policy: PrunePolicy, *, thread_id: str | None = None, dry_run: bool = False) -> Pruned:
        """Delete old checkpoints of one thread, or of all threads, and return what was deleted.

        With `dry_run`, delete nothing, and return what would be deleted.
        """
        return resolve(self._require_saver().prune(policy, thread_id=as_thread_id(thread_id), dry_run=dry_run))

    async def aget_state(
        self, config: Config = None, *, subgraphs: bool = False, **options: Unpack[CallOptions[ContextT]]
    ) -> StateSnapshot[ResultT]:
        """Do the same as `get_state`, without blocking the running event loop."""
        return await run_in_thread(self.get_state, config, subgraphs=subgraphs, **options)

    async def aget_state_history(self, config: Config = None, **options: Any) -> AsyncIterator[StateSnapshot[ResultT]]:
        """Do the same as `get_state_history`, without blocking the running event loop."""
        for snapshot in await run_in_thread(lambda: list(self.get_state_history(config, **options))):
            yield snapshot

    async def aupdate_state(
        self,
        config: Config,
        values: Any,
        as_node: str | None = None,
        *,
        cancel_pending: bool = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> dict[str, Any]:
        """Do the same as `update_state`, without blocking the running event loop.

        If this is cancelled while it waits for its turn on the thread, it changes nothing.
        """
        # A worker thread cannot be cancelled, so a control ends its wait for the thread.
        control = LinkedControl(options.get("control") or RunControl())
        keywords: dict[str, Any] = {**options, "cancel_pending": cancel_pending, "control": control}
        with control.linked():
            try:
                return await run_in_thread(self.update_state, config, values, as_node, **keywords)
            except BaseException:
                control.request_cancel("the call that waited for it was cancelled")
                raise


def _change_thread(
    run: Run,
    change: Callable[[], Generator[Effect, Any, T]],
    *,
    may_reload: bool | None = None,
    check: Callable[[], object] | None = None,
) -> T:
    """Wait for a turn on the thread, change it from outside a run, and return the result of `change`.

    `may_reload` and `check` are passed to `take_turn`.
    """
    if may_reload is None:
        may_reload = run.settings.checkpoint_id is None
    hold = ThreadHold(run)
    try:
        with hold:
            result = perform_all(run, take_turn(run, change, may_reload=may_reload, check=check))
    finally:
        hold.drop_unless_ended()
    if type(result) is RunOutcome:  # its control has stopped it while it waited
        raise result.error or RunCancelled("it was stopped while it waited for the thread")
    return cast(T, result)


async def run_in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a blocking function on a worker thread, and await its result."""
    from statewright.runtime.concurrency.thread_calls import call_in_thread  # loads asyncio

    return await call_in_thread(function, *args, **kwargs)

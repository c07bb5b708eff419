"""The methods of a compiled graph that inspect and change threads from outside a run."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast

from statewright.checkpoint import (
    BranchKey,
    Checkpointer,
    LeaseRequest,
    Pruned,
    PrunePolicy,
    ThreadEntry,
)
from statewright.errors import (
    InvalidConfig,
    InvalidUpdateError,
    LeaseLost,
    RunCancelled,
)
from statewright.events import Event
from statewright.futures import resolve
from statewright.graph import (
    ContextT,
    InputT,
    OutputT,
    ResultT,
    StateT,
)
from statewright.ids import checked_name
from statewright.runtime.concurrency.control import LinkedControl, RunControl
from statewright.runtime.config import (
    OnBusy,
    read_settings,
    thread_name,
)
from statewright.runtime.core.effects import Effect
from statewright.runtime.drivers.saver_calls import perform_all
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.lifecycle.snapshot import (
    StateSnapshot,
    empty_snapshot,
    renew_questions_around,
    snapshot_of,
    with_subgraphs,
)
from statewright.runtime.lifecycle.thread_lease import Holding
from statewright.runtime.lifecycle.thread_state import (
    Update,
    check_updates,
    diff,
    fork_thread,
    iter_history,
    load_branch_head,
    load_saved,
    roll_back_thread,
    update_thread,
)
from statewright.runtime.lifecycle.turn import take_turn
from statewright.runtime.options import CallOptions, Config
from statewright.runtime.run_factory import RunFactory

if TYPE_CHECKING:
    pass


HISTORY_PAGE: Final = 100
"""How many checkpoints are read at once for those who walk the history of a thread."""
T = TypeVar("T")


class ThreadMethods(RunFactory[StateT, ContextT, InputT, OutputT, ResultT]):
    """Inspects and changes the threads of a graph."""

    def get_state(
        self, config: Config = None, *, subgraphs: bool = False, **options: Unpack[CallOptions[ContextT]]
    ) -> StateSnapshot[ResultT]:
        """The thread at its head, or at the checkpoint that the config names.

        With `subgraphs` the tasks of subgraphs that have begun hold the state of those in `state`, at any depth. A
        config with a `namespace`, like those in there, is the state of a subgraph.
        """
        run = self._thread_run(config, options)
        saved = perform_all(run, load_saved(run))
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
        """The checkpoints of the thread's branch and their ancestors, the newest first.

        A config that names a checkpoint begins with that one; `before`, a config too, with the one before it.
        `filter` keeps those whose metadata holds its entries.
        """
        run = self._thread_run(config, options)
        start = read_settings(before).checkpoint_id if before is not None else run.settings.checkpoint_id
        wanted = (filter or {}).items()
        page = limit if limit is not None and not wanted else HISTORY_PAGE
        saved = iter_history(run, start, page, inclusive=before is None)
        found = (snapshot_of(run.program, one) for one in saved)
        kept = (one for one in found if all(one.metadata.get(key) == value for key, value in wanted))
        return itertools.islice(kept, limit)

    def update_state(
        self,
        config: Config,
        values: Any,
        as_node: str | None = None,
        *,
        cancel_pending: bool = False,
        **options: Unpack[CallOptions[ContextT]],
    ) -> dict[str, Any]:
        """Change the state as if a node had answered `values`; the config of the new checkpoint.

        What follows the node is due then. Other tasks that were due stay so, unless `cancel_pending`. Without
        `as_node` it is the node that ran last, if that is clear. With END nothing is due any more. Raises
        InvalidUpdateError if several tasks of the node are due: it would be the answer of one.
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
        """Several updates `(values, as_node)` as one superstep, in their order."""
        if not updates:
            raise InvalidUpdateError("There are no updates. Give at least one pair of values and a node.")
        run = self._thread_run(config, options)
        before = perform_all(run, load_branch_head(run)) if run.namespace else None
        line, head = _change_thread(
            run,
            lambda: update_thread(run, updates, cancel_pending=cancel_pending),
            check=lambda: check_updates(run, updates),
        )
        if line.namespace:
            renew_questions_around(run, before)
        return checkpoint_config(line, head)

    def get_events(
        self,
        config: Config = None,
        *,
        after: int = 0,
        limit: int | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> Sequence[Event]:
        """The log of the thread's runs, in order; of the one run that is named by `run_id`, after the entry `after`."""
        run = self._thread_run(config, options)
        thread_id, run_id = cast(BranchKey, run.line).thread_id, run.settings.run_id
        return resolve(cast(Checkpointer, run.saver).events(thread_id, run_id=run_id, after=after, limit=limit))

    def fork(
        self,
        config: Config,
        *,
        branch: str | None = None,
        thread_id: str | None = None,
        on_busy: OnBusy | None = None,
    ) -> dict[str, Any]:
        """Make a checkpoint the head of a new branch, or of its own branch again; the config of that head.

        Tasks that were due there are due again with their ids, what had landed is kept, answers are not.
        """
        run = self._thread_run(config, {"thread_id": thread_id, "on_busy": on_busy})
        line, head = _change_thread(run, lambda: fork_thread(run, branch), may_reload=True)
        return checkpoint_config(line, head)

    def roll_back(self, config: Config = None, **options: Unpack[CallOptions[ContextT]]) -> None:
        """Put the thread back to before its last input, as a new head. History keeps what was undone.

        With a `checkpoint_id`, from that head only: raises CheckpointConflict if the thread has another one by now.
        """
        run = self._thread_run(config, options)
        _change_thread(run, lambda: roll_back_thread(run, expected=run.settings.checkpoint_id, releases=True))

    def release(self, thread_id: str) -> None:
        """Take a thread from the run that holds it, whether or not that run still exists; nothing if it is free.

        For a holder that is gone for good on another machine, or hangs: others need not wait for its lease. If it
        still runs, its next write is refused with `LeaseLost`.
        """
        saver = self._needed_saver()
        thread_id = checked_name("thread_id", str(thread_id))
        lease = resolve(saver.lease(thread_id))
        if lease is not None:
            with suppress(LeaseLost):  # it has let go by itself, or another run has the thread by now
                resolve(saver.renew(thread_id, LeaseRequest(lease.owner, self._clock.now(), None)))

    async def arelease(self, thread_id: str) -> None:
        """`release`, without blocking the running event loop."""
        await run_in_thread(self.release, thread_id)

    def diff(
        self, before: Config, after: Config, **options: Unpack[CallOptions[ContextT]]
    ) -> dict[str, tuple[Any, Any]]:
        """For each field that differs between two checkpoints, which two configs name, its value in both."""
        first, second = (cast(Any, self.get_state(config, **options).values) for config in (before, after))
        return diff(first, second)

    def threads(self, *, prefix: str = "", limit: int | None = None) -> Sequence[ThreadEntry]:
        """The threads that the checkpointer keeps, those of other graphs included; the last changed first."""
        return resolve(self._needed_saver().threads(prefix=prefix, limit=limit))

    def copy_thread(self, thread_id: str, to: str) -> None:
        """Give a new thread all that a thread has. Raises CheckpointConflict if there is a thread `to`."""
        resolve(self._needed_saver().copy_thread(thread_name(thread_id), checked_name("to", thread_name(to))))

    def delete_thread(self, thread_id: str) -> None:
        """Forget a thread, with its history and its logs."""
        resolve(self._needed_saver().delete_thread(thread_name(thread_id)))

    def prune(self, policy: PrunePolicy, *, thread_id: str | None = None, dry_run: bool = False) -> Pruned:
        """Forget old checkpoints of a thread, or of all threads; what that was, or would be with `dry_run`."""
        return resolve(self._needed_saver().prune(policy, thread_id=thread_name(thread_id), dry_run=dry_run))

    def _needed_saver(self) -> Checkpointer:
        if self.checkpointer is None:
            raise InvalidConfig("Threads need a checkpointer: compile(checkpointer=...).")
        return self.checkpointer

    async def aget_state(
        self, config: Config = None, *, subgraphs: bool = False, **options: Unpack[CallOptions[ContextT]]
    ) -> StateSnapshot[ResultT]:
        """`get_state`, without blocking the running event loop."""
        return await run_in_thread(self.get_state, config, subgraphs=subgraphs, **options)

    async def aget_state_history(self, config: Config = None, **options: Any) -> AsyncIterator[StateSnapshot[ResultT]]:
        """`get_state_history`, without blocking the running event loop."""
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
        """`update_state`, without blocking the running event loop. Cancelled while it waits its turn, it changes
        nothing."""
        # A thread cannot be cancelled: a control of this call alone tells it to leave the line.
        control = LinkedControl(options.get("control") or RunControl())
        others: dict[str, Any] = {**options, "cancel_pending": cancel_pending, "control": control}
        with control.linked():
            try:
                return await run_in_thread(self.update_state, config, values, as_node, **others)
            except BaseException:
                control.request_cancel("the call that waited for it was cancelled")
                raise


def checkpoint_config(line: BranchKey, checkpoint_id: str) -> dict[str, Any]:
    """The config that names a checkpoint."""
    named = {"thread_id": line.thread_id, "checkpoint_id": checkpoint_id, "branch": line.branch}
    if line.namespace:
        named["namespace"] = line.namespace
    return {"configurable": named}


def _change_thread(
    run: Run,
    change: Callable[[], Generator[Effect, Any, T]],
    *,
    may_reload: bool | None = None,
    check: Callable[[], object] | None = None,
) -> T:
    """Perform a change of a thread from outside a run, when its turn comes (`on_busy`); what the change returns."""
    if may_reload is None:
        may_reload = run.settings.checkpoint_id is None
    with Holding(run):
        result = perform_all(run, take_turn(run, change, may_reload=may_reload, check=check))
    if type(result) is RunOutcome:  # it was stopped by its control, while it waited
        raise result.error or RunCancelled("it was stopped while it waited for the thread")
    return cast(T, result)


async def run_in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    from statewright.runtime.concurrency.worker_threads import call_in_thread  # loads asyncio

    return await call_in_thread(function, *args, **kwargs)

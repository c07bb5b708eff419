"""Starting runs: the record is written, and the worker of this process begins at once if it has capacity.

A run that begins at once is claimed in the transaction that creates it. Because it needs no second transaction to be
claimed, the latency of its start is halved. This is only possible for a run that has a new thread, no limit on
concurrent runs, and no later start time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from statewright.async_futures import adrive, aresolve
from statewright.errors import DuplicateRecord, RecordConflict, RecordPresent, RequestConflict
from statewright.runs import ApiKey, Change, Insert, Run
from statewright.service.access import check_scope
from statewright.service.access.approval_permission import check_definition, check_thread_change
from statewright.service.context.requests import Fork, StartRun
from statewright.service.context.service_context import ServiceContext
from statewright.service.engine.worker import RunWorker
from statewright.service.following.follow import wait_for_settling, wait_until_settled
from statewright.service.operations.control import ControlOperations
from statewright.service.operations.forked_runs import write_forked_run
from statewright.service.operations.starting import Started, Starter, ThreadSlot, claimed

_MAX_TRIES: Final = 100
"""Maximum number of tries to start a run on a thread that other runs acquire and release concurrently."""


class LaunchOperations(ControlOperations):
    """Starts runs, and cancels the runs that use their thread if requested."""

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self.starter = Starter(context)
        self.worker: RunWorker | None = None
        """The worker of this process; None while the service does not advance runs."""

    async def start(self, workspace_id: str, request: StartRun) -> Started:
        """Start a run, or return the one that was started with the same idempotency key.

        Raises InvalidRequest, NotFound for an unknown graph or definition, RequestConflict for a busy thread,
        PayloadTooLarge, SpendingLimitReached.
        """
        for _ in range(_MAX_TRIES):
            with suppress(RecordConflict):  # the use of the thread has changed since it was read
                return await self._start(workspace_id, request)
        raise RequestConflict(f"Thread {request.thread_id!r} is used by other runs concurrently. Try again.")

    async def start_and_wait(self, workspace_id: str, request: StartRun, seconds: float) -> Started:
        """Start a run, and wait at most `seconds` until it has ended, waits or is paused."""
        context = self.context
        run_id = request.run_id or self.starter.new_id()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        with context.hub.listening(run_id) as listener, context.watch.watching(run_id, listener):
            started = await self.start(workspace_id, replace(request, run_id=run_id))
            if not started.created:
                run = await wait_until_settled(context, workspace_id, started.run.id, seconds)
                return Started(run, created=False)
            await wait_for_settling(context.hub, listener, seconds)
        # `wait_for_settling` also returns after other changes, such as the first step if another process advances the
        # run.
        run = await wait_until_settled(context, workspace_id, run_id, end - loop.time())
        return Started(run, created=True)

    async def _start(self, workspace_id: str, request: StartRun) -> Started:
        existing = await self.starter.find_by_key(workspace_id, request.idempotency_key)
        if existing is not None:
            return Started(existing, created=False)
        # The request is validated completely before any other runs are cancelled in favor of the new run.
        run, (_, *labels) = await self.starter.prepare(workspace_id, request, self.context.now())
        if request.fork is not None:
            return await self._start_forked(workspace_id, replace(run, begun=True), labels, request)
        slot = await self.starter.find_slot(run, self.prepare_cancellation)
        if isinstance(slot, Run):
            return Started(slot, created=False)
        worker = self.worker
        reservation = worker.reserve() if worker is not None and await self._can_begin(run) else None
        if worker is None or reservation is None:
            return await self._write(workspace_id, request, slot, labels)
        claimed_run = None
        changes = [*slot.changes, *self.starter.limit_guards(run)]
        try:
            claimed_slot = replace(slot, run=claimed(slot.run, worker.id), changes=changes)
            started = await self._write(workspace_id, request, claimed_slot, labels)
            claimed_run = started.run if started.created else None
        except RecordPresent:  # a limit was set since it was read
            self.starter.forget_limits(run)
            started = None
        except RecordConflict:
            raise
        except BaseException:  # the run may have been written nevertheless
            worker.note_lost_claim()
            raise
        finally:
            worker.settle(reservation, claimed_run)
        return started if started is not None else await self._write(workspace_id, request, slot, labels)

    async def _start_forked(self, workspace_id: str, run: Run, labels: Sequence[Change], request: StartRun) -> Started:
        """Start a run that goes on from a checkpoint. Its thread is new, so it need not wait for others."""
        assert request.fork is not None
        try:
            await write_forked_run(self.context, run, [Insert(run), *labels], request.fork)
        except DuplicateRecord:
            existing = await self.starter.find_by_key(workspace_id, request.idempotency_key)
            return Started(existing or run, created=False)
        self.context.announce_due()
        if run.deadline_at is not None:
            self.context.wake_background()
        return Started(run, created=True)

    async def check_fork(self, workspace_id: str, request: StartRun, fork: Fork, key: ApiKey | None) -> None:
        """Raise Forbidden if a key may not start a run from a checkpoint.

        It reads a thread and may change its state, and the run may go on past an approval.
        """
        if key is None:
            return
        if await self.starter.find_by_key(workspace_id, request.idempotency_key) is not None:
            return  # nothing will be started
        check_scope(key, "threads:write")

        async def body_of(definition_id: str) -> Any:
            return (await adrive(self.context.versions.find_by_id(workspace_id, definition_id))).body

        as_node = fork.edit.as_node if fork.edit is not None else None
        await check_thread_change(key, self.context.ledger, workspace_id, fork.thread_id, body_of, as_node=as_node)
        definition = await adrive(self.context.versions.find_requested(workspace_id, request))
        check_definition(key, definition.body, as_node=as_node)

    async def _write(self, workspace_id: str, request: StartRun, slot: ThreadSlot, labels: Sequence[Change]) -> Started:
        run = slot.run
        try:
            await aresolve(self.context.ledger.write([*slot.changes, Insert(run), *labels]))
        except DuplicateRecord:
            existing = await self.starter.find_by_key(workspace_id, request.idempotency_key)
            return Started(existing or run, created=False)
        slot.publish()
        if run.claim is None:
            self.context.announce_due()
            if run.deadline_at is not None:
                self.context.wake_background()
        return Started(run, created=True)

    async def _can_begin(self, run: Run) -> bool:
        """Return True if a new run can begin at once in this process: it has a new thread, no limit, and is due now."""
        if run.due_at is None or run.due_at > self.context.now() or run.thread_id != run.id:
            return False
        queues = self.context.settings.queues
        if queues is not None and run.queue not in queues:
            return False
        return run.concurrency_key is None and run.sequence is None and not await self.starter.is_limited(run)

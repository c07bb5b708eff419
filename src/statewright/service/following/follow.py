"""Following runs: yielding their events as they are written, and waiting until they have settled.

A run has settled when it makes no progress by itself: it has ended, waits, or is paused. Both functions subscribe to
the hub and to the poll of `run_watch` before they read the ledger, so that nothing written in between is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

from statewright.async_futures import aresolve
from statewright.runs import ENDED, Run, RunEvent, RunStatus
from statewright.service.context.service_context import ServiceContext
from statewright.service.following.hub import FollowedEvent, Hub, Listener, LiveEvent

BATCH_SIZE: Final = 500
"""Maximum number of events that one query reads."""
_ENDING_EVENTS: Final = frozenset({"WORKFLOW_COMPLETED", "WORKFLOW_FAILED", "WORKFLOW_CANCELLED"})
_SETTLING_EVENTS: Final = frozenset({*_ENDING_EVENTS, "WORKFLOW_PAUSED"})


async def follow(
    context: ServiceContext, run_id: str, after: int, *, live: bool = False
) -> AsyncIterator[FollowedEvent]:
    """Yield the events of a run after a sequence number, until the run has ended.

    With `live`, events that are not stored are also yielded, as they are published.
    """
    last_seq = after
    with context.hub.listening(run_id, is_expected=live) as listener, context.watch.watching(run_id, listener):
        # What was kept for an expected listener. Of the stored events, the ledger has them all.
        kept = [event for event in context.hub.take_events(listener) if isinstance(event, LiveEvent)]
        events: Sequence[FollowedEvent] = [*kept, *await _read_events(context, run_id, last_seq)]
        while True:
            for event in events:
                if isinstance(event, LiveEvent):
                    if live:
                        yield event
                elif event.seq > last_seq:  # the hub may publish events that were read from the ledger
                    last_seq = event.seq
                    yield event
            # An event that says that the run has ended is not enough, because a failed run may have been retried since.
            if (not events or events[-1].type in _ENDING_EVENTS) and await _has_ended(context, run_id, last_seq):
                return
            if len(events) >= BATCH_SIZE:  # the ledger may have more
                events = await _read_events(context, run_id, last_seq)
            else:
                events = await _wait_for_events(context, run_id, last_seq, listener)


async def _wait_for_events(
    context: ServiceContext, run_id: str, last_seq: int, listener: Listener
) -> Sequence[FollowedEvent]:
    """Wait for the next events, and return them as they were published, or from the ledger if any were missed.

    Return an empty sequence if the run may have ended without another event.
    """
    while True:
        published = context.hub.take_events(listener)
        if published:
            new_seqs = [event.seq for event in published if isinstance(event, RunEvent) and event.seq > last_seq]
            has_gap = new_seqs != list(range(last_seq + 1, last_seq + 1 + len(new_seqs)))
            return await _read_events(context, run_id, last_seq) if has_gap else published
        if any(seq is None or seq > last_seq for seq in listener.take_poll_results()):
            return await _read_events(context, run_id, last_seq)
        await listener.wait_for_activity()


async def _read_events(context: ServiceContext, run_id: str, after: int) -> Sequence[RunEvent]:
    return await aresolve(context.ledger.events(run_id, after=after, limit=BATCH_SIZE))


async def _has_ended(context: ServiceContext, run_id: str, last_seq: int) -> bool:
    """Return True if a run was deleted, or has ended and has no events after a sequence number."""
    run = await aresolve(context.ledger.get(Run, run_id))
    return run is None or (run.status in ENDED and run.last_event <= last_seq)


async def wait_until_settled(context: ServiceContext, workspace_id: str, run_id: str, seconds: float) -> Run:
    """Return a run as soon as it has ended, waits or is paused, or else as it is after `seconds`.

    The seconds are measured in real time, because the clock of the service may stand still in a test.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    with context.hub.listening(run_id) as listener, context.watch.watching(run_id, listener):
        while True:
            listener.take_poll_results()
            run = await context.records.run(workspace_id, run_id)
            remaining = end - loop.time()
            if _is_settled(run, context.now()) or remaining <= 0:
                return run
            await wait_for_settling(context.hub, listener, remaining)


def _is_settled(run: Run, now: datetime) -> bool:
    if run.status in (RunStatus.WAITING, RunStatus.PAUSED):
        # A run that is due will be resumed at once, because it has an answer or a new day of spending has begun.
        return run.claim is None and (run.due_at is None or run.due_at > now)
    return run.status in ENDED


async def wait_for_settling(hub: Hub, listener: Listener, seconds: float) -> None:
    """Wait at most `seconds` until the run has settled, or another process has changed it."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (remaining := end - loop.time()) > 0:
        await listener.wait_for_activity(remaining)
        if any(event.type in _SETTLING_EVENTS for event in hub.take_events(listener)) or listener.take_poll_results():
            return

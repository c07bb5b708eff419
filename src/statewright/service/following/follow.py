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

    With `live`, events that are not stored are included as they are published.
    """
    last = after
    with context.hub.listening(run_id) as listener, context.watch.watching(run_id, listener):
        events: Sequence[FollowedEvent] = await _read(context, run_id, last)
        while True:
            for event in events:
                if isinstance(event, LiveEvent):
                    if live:
                        yield event
                elif event.seq > last:  # events that were read may be published again
                    last = event.seq
                    yield event
            # An event of the end is not enough: a failed run may have been retried since.
            if (not events or events[-1].type in _ENDING_EVENTS) and await _has_ended(context, run_id, last):
                return
            may_have_more = len(events) >= BATCH_SIZE
            events = await (_read(context, run_id, last) if may_have_more else _next(context, run_id, last, listener))


async def _next(context: ServiceContext, run_id: str, last: int, listener: Listener) -> Sequence[FollowedEvent]:
    """Wait for the next events, and return them: as published, or from the ledger if any were missed.

    Returns no events if the run may have ended without one.
    """
    while True:
        published = context.hub.take_events(listener)
        if published:
            numbers = [event.seq for event in published if isinstance(event, RunEvent) and event.seq > last]
            has_gap = numbers != list(range(last + 1, last + 1 + len(numbers)))
            return await _read(context, run_id, last) if has_gap else published
        if any(seq is None or seq > last for seq in listener.take_polled()):
            return await _read(context, run_id, last)
        await listener.wait_for_news()


async def _read(context: ServiceContext, run_id: str, after: int) -> Sequence[RunEvent]:
    return await aresolve(context.ledger.events(run_id, after=after, limit=BATCH_SIZE))


async def _has_ended(context: ServiceContext, run_id: str, last: int) -> bool:
    run = await aresolve(context.ledger.get(Run, run_id))
    return run is None or (run.status in ENDED and run.last_event <= last)


async def wait_until_settled(context: ServiceContext, workspace_id: str, run_id: str, seconds: float) -> Run:
    """Return a run once it has ended, waits or is paused, or as it is after `seconds`.

    The seconds are measured in real time. The clock of the service may stand still in a test.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    with context.hub.listening(run_id) as listener, context.watch.watching(run_id, listener):
        while True:
            listener.take_polled()
            run = await context.records.run(workspace_id, run_id)
            remaining = until - loop.time()
            if _is_settled(run, context.now()) or remaining <= 0:
                return run
            await wait_for_settling(context.hub, listener, remaining)


def _is_settled(run: Run, now: datetime) -> bool:
    if run.status in (RunStatus.WAITING, RunStatus.PAUSED):
        # A run that is due will be resumed at once: it has an answer, or the day of a spending limit is over.
        return run.claim is None and (run.due_at is None or run.due_at > now)
    return run.status in ENDED


async def wait_for_settling(hub: Hub, listener: Listener, seconds: float) -> None:
    """Wait at most `seconds` until the run has settled, or another process has changed it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (remaining := until - loop.time()) > 0:
        await listener.wait_for_news(remaining)
        if any(event.type in _SETTLING_EVENTS for event in hub.take_events(listener)) or listener.take_polled():
            return

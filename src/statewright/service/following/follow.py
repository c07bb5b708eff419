"""Following runs: their events as they are written, and waiting until they rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

from statewright.async_futures import aresolve
from statewright.runs import ENDED, Run, RunEvent, RunStatus
from statewright.service.context.service_context import ServiceContext
from statewright.service.following.hub import FollowedEvent, Hub, Listener, LiveEvent

PART: Final = 500
"""Events that one query reads."""
_ENDS: Final = frozenset({"WORKFLOW_COMPLETED", "WORKFLOW_FAILED", "WORKFLOW_CANCELLED"})
_RESTS: Final = frozenset({*_ENDS, "WORKFLOW_PAUSED"})


async def follow(
    context: ServiceContext, run_id: str, after: int, *, live: bool = False
) -> AsyncIterator[FollowedEvent]:
    """Yield the events of a run after a sequence number, until it has ended. A failed run may be retried and continue.

    With `live` what happens meanwhile and is not kept comes between them.
    """
    last = after
    with context.hub.listening(run_id) as listener, context.watch.watching(run_id, listener):
        events: Sequence[FollowedEvent] = await _read(context, run_id, last)
        while True:
            for event in events:
                if isinstance(event, LiveEvent):
                    if live:
                        yield event
                elif event.seq > last:  # read and published events overlap
                    last = event.seq
                    yield event
            if (not events or events[-1].type in _ENDS) and await _has_ended(context, run_id, last):
                return
            # A part that is full is not all that there is.
            more = _read(context, run_id, last) if len(events) >= PART else _next(context, run_id, last, listener)
            events = await more


async def _next(context: ServiceContext, run_id: str, last: int, listener: Listener) -> Sequence[FollowedEvent]:
    """Return the next events, as published, or read if some were missed; none if the run may have ended."""
    while True:
        news = context.hub.news(listener)
        if news:
            fresh = [event.seq for event in news if isinstance(event, RunEvent) and event.seq > last]
            if fresh == list(range(last + 1, last + 1 + len(fresh))):
                return news
            return await _read(context, run_id, last)
        noticed = listener.noticed()
        if any(seq is None or seq > last for seq in noticed):
            return await _read(context, run_id, last)
        await listener.arrival()


async def _read(context: ServiceContext, run_id: str, after: int) -> Sequence[RunEvent]:
    return await aresolve(context.ledger.events(run_id, after=after, limit=PART))


async def _has_ended(context: ServiceContext, run_id: str, last: int) -> bool:
    run = await aresolve(context.ledger.get(Run, run_id))
    return run is None or (run.status in ENDED and run.last_event <= last)


async def wait_until_settled(context: ServiceContext, workspace_id: str, run_id: str, seconds: float) -> Run:
    """Return a run once it has ended, waits or is paused; in its current state after so many seconds.

    The seconds are real time, not that of the clock of the service, which may stand still in a test.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    with context.hub.listening(run_id) as listener, context.watch.watching(run_id, listener):
        while True:
            listener.noticed()
            run = await context.records.run(workspace_id, run_id)
            left = until - loop.time()
            if _is_at_rest(run, context.now()) or left <= 0:
                return run
            await until_rest(context.hub, listener, left)


def _is_at_rest(run: Run, now: datetime) -> bool:
    """Return whether a run makes no progress by itself; a waiting run that has its answer is about to be resumed."""
    if run.status in (
        RunStatus.WAITING,
        RunStatus.PAUSED,
    ):  # a spending limit pauses a run until a new day
        return run.claim is None and (run.due_at is None or run.due_at > now)
    return run.status in ENDED


async def until_rest(hub: Hub, listener: Listener, seconds: float) -> None:
    """Wait until the run rests or another process has changed it, for so many seconds at most."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0:
        await listener.arrival(left)
        if any(event.type in _RESTS for event in hub.news(listener)) or listener.noticed():
            return

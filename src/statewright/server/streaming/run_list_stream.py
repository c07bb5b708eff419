"""The stream of the runs of a workspace: an event for each run that has changed, as the list shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any, Final

from statewright.clock import instant_of, microseconds
from statewright.errors import InvalidRequest
from statewright.runs import Run
from statewright.server.context.auth import Caller
from statewright.server.http.encode import encode
from statewright.server.resources import ACTIVITY, RUN
from statewright.service.following.run_feed import LONGEST_BREAK
from statewright.service.operations.activity import Activity

_HIDDEN: Final = {"input": None, "output": None}
"""The values that lists and their streams leave out, because they may be large."""


def encode_in_list(run: Run, activity: Activity, *, is_brief: bool) -> dict[str, Any]:
    """Encode a run as an item of a list, with its activity, and without large values if `is_brief`."""
    hidden = _HIDDEN if is_brief else {}
    return {**RUN.encode(run), "activity": ACTIVITY.encode(activity), **hidden}


def parse_position(event_id: str | None, now: datetime) -> datetime | None:
    """Return the time at which to continue after a break; None if there was none.

    Raises InvalidRequest for a text that is not the id of an event.
    """
    if event_id is None or event_id in ("", "-1"):
        return None
    if not event_id.isascii() or not event_id.isdigit() or not 1 <= len(event_id) <= 17:
        raise InvalidRequest(f"Last-Event-ID is {event_id[:40]!r}, but must be the id of an event of this stream.")
    position = instant_of(int(event_id))
    return position if now - LONGEST_BREAK <= position <= now + timedelta(minutes=1) else datetime.min


async def follow_runs(caller: Caller, since: datetime | None) -> AsyncIterator[bytes]:
    """Yield encoded events: `run` for each run that has changed, and `reset` if too much was missed to tell."""
    service = caller.service
    if since == datetime.min:
        yield b"event: reset\ndata: {}\n\n"
        since = None
    async with aclosing(service.feed(caller.workspace_id, since=since)) as feed:
        async for changes in feed:
            activities = await service.activities(changes.runs)
            position = microseconds(changes.until)
            if not changes.runs:
                yield b"event: position\ndata: {}\nid: %d\n\n" % position
            for index, run in enumerate(changes.runs, 1):
                data = encode(encode_in_list(run, activities[run.id], is_brief=True))
                # Only the last event has the new position: after a break among them, all are sent again.
                last = b"id: %d\n\n" % position if index == len(changes.runs) else b"\n"
                yield b"event: run\ndata: %b\n%b" % (data, last)

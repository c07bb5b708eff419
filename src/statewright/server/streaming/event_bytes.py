"""Encoding of run events for streams, cached so that an event for many readers is encoded once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from statewright.runs import RunEvent
from statewright.server.http.encode import encode
from statewright.service import LiveEvent

_KEPT: Final = 1024
"""Events."""
_LARGEST: Final = 16 * 1024
"""The largest cached event, in bytes."""


def shown_event(event: RunEvent) -> dict[str, Any]:
    """Return an event in the API's format."""
    return {
        "id": f"{event.run_id}:{event.seq}",
        "seq": event.seq,
        "workflowRunId": event.run_id,
        "stepRunId": event.step_id,
        "eventType": event.type,
        "payload": event.payload,
        "createdAt": event.at,
    }


def shown_live(event: LiveEvent) -> dict[str, Any]:
    """Return a live event in the API's format."""
    return {
        "workflowRunId": event.run_id,
        "stepName": event.step,
        "eventType": event.type,
        "payload": event.payload,
    }


class EventBytes:
    """A cache of encoded events: `event`, one line of `data`, `id`.

    An event of the log never changes, so run and number are enough to know it by. What is not in the log has no number,
    and is known by itself: all readers are told the same object.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], tuple[RunEvent | LiveEvent, bytes]] = OrderedDict()

    def of(self, event: RunEvent | LiveEvent) -> bytes:
        live = isinstance(event, LiveEvent)
        key = ("", id(event)) if live else (event.run_id, event.seq)
        found = self._kept.get(key)
        if found is not None and (not live or found[0] is event):
            return found[1]
        written = _written_live(event) if live else _written(event)
        if len(written) <= _LARGEST:
            self._kept[key] = event, written
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return written


def _written(event: RunEvent) -> bytes:
    return b"event: %b\ndata: %b\nid: %d\n\n" % (event.type.encode(), encode(shown_event(event)), event.seq)


def _written_live(event: LiveEvent) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.type.encode(), encode(shown_live(event)))

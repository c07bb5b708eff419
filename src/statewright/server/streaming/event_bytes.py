"""Encoding of run events for streams, cached so that an event for many readers is encoded once."""

from __future__ import annotations

from typing import Any, Final

from statewright.lru_cache import LRUCache
from statewright.runs import RunEvent
from statewright.server.http.encode import encode
from statewright.service import LiveEvent

_MAX_EVENTS: Final = 1024
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

    An event of the log never changes, so run and number identify it. A live event has no number; all readers receive
    the same object, which identifies it.
    """

    def __init__(self) -> None:
        self._cache: LRUCache[tuple[str, int], tuple[RunEvent | LiveEvent, bytes]] = LRUCache(_MAX_EVENTS)

    def of(self, event: RunEvent | LiveEvent) -> bytes:
        """Return the bytes of an event."""
        live = isinstance(event, LiveEvent)
        key = ("", id(event)) if live else (event.run_id, event.seq)
        cached = self._cache.get(key)
        if cached is not None and (not live or cached[0] is event):
            return cached[1]
        encoded = _encode_live(event) if live else _encode(event)
        if len(encoded) <= _LARGEST:
            self._cache.put(key, (event, encoded))
        return encoded


def _encode(event: RunEvent) -> bytes:
    return b"event: %b\ndata: %b\nid: %d\n\n" % (event.type.encode(), encode(shown_event(event)), event.seq)


def _encode_live(event: LiveEvent) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.type.encode(), encode(shown_live(event)))

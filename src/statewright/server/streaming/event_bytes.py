"""Encoding of run events for streams, cached so that an event for many readers is encoded once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from statewright.runs import RunEvent
from statewright.server.http.encode import encode
from statewright.server.resources import EVENT, LIVE_EVENT
from statewright.service import LiveEvent

_CAPACITY: Final = 1024
"""The size of the cache, in events."""
_LARGEST: Final = 16 * 1024
"""The largest cached event, in bytes."""


class EventBytes:
    """A cache of encoded events, each with the lines `event`, `data` and `id`.

    A stored event never changes, so its key is the run and the number. A live event has no number and is identified by
    the object, which all readers share. An entry keeps its event, so that no other object can have the same `id()`.
    """

    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[str, int], tuple[RunEvent | LiveEvent, bytes]] = OrderedDict()

    def encode(self, event: RunEvent | LiveEvent) -> bytes:
        """Return an event as the bytes to send."""
        is_live = isinstance(event, LiveEvent)
        key = ("", id(event)) if is_live else (event.run_id, event.seq)
        entry = self._cache.get(key)
        if entry is not None and (not is_live or entry[0] is event):
            return entry[1]
        data = encode((LIVE_EVENT if is_live else EVENT).encode(event))
        end = b"\n" if is_live else b"id: %d\n\n" % event.seq
        content = b"event: %b\ndata: %b\n%b" % (event.type.encode(), data, end)
        if len(content) <= _LARGEST:
            self._cache[key] = event, content
            if len(self._cache) > _CAPACITY:
                self._cache.popitem(last=False)
        return content

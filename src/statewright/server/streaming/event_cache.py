"""Encoding of run events for streams, with a cache, so that an event with many readers is encoded only once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from statewright.runs import RunEvent
from statewright.server.http.encode import encode
from statewright.server.resources import EVENT, LIVE_EVENT
from statewright.service import LiveEvent

_CAPACITY: Final = 1024
"""The maximum number of events in the cache."""
_MAX_SIZE: Final = 16 * 1024
"""The maximum size of a cached event, in bytes."""


class EventCache:
    """A cache of encoded events, from which the oldest is evicted first.

    A stored event never changes, so its key is its run and its sequence number. A live event has no number. Its key is
    the `id()` of the object, which all readers share, and the entry keeps the object alive, so that the `id()` is not
    reused.
    """

    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[str, int], tuple[RunEvent | LiveEvent, bytes]] = OrderedDict()

    def encode(self, event: RunEvent | LiveEvent) -> bytes:
        """Encode an event as the lines `event`, `data` and, for a stored event, `id`."""
        is_live = isinstance(event, LiveEvent)
        key = ("", id(event)) if is_live else (event.run_id, event.seq)
        entry = self._cache.get(key)
        if entry is not None and (not is_live or entry[0] is event):
            return entry[1]
        data = encode((LIVE_EVENT if is_live else EVENT).encode(event))
        last_lines = b"\n" if is_live else b"id: %d\n\n" % event.seq
        content = b"event: %b\ndata: %b\n%b" % (event.type.encode(), data, last_lines)
        if len(content) <= _MAX_SIZE:
            self._cache[key] = event, content
            if len(self._cache) > _CAPACITY:
                self._cache.popitem(last=False)
        return content

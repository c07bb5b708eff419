"""An event for many readers is encoded once, in a cache of limited size."""

from __future__ import annotations

from datetime import UTC, datetime

from statewright.runs import RunEvent
from statewright.server.streaming.event_cache import EventCache
from statewright.service import LiveEvent

AT = datetime(2026, 1, 2, tzinfo=UTC)


def event(run: str, seq: int, text: str = "") -> RunEvent:
    return RunEvent(run, seq, "STEP_STARTED", {"text": text}, None, AT)


def test_the_same_event_is_encoded_once():
    cache = EventCache()
    assert cache.encode(event("a", 1)) is cache.encode(event("a", 1))
    assert cache.encode(event("a", 1)) != cache.encode(event("b", 1))
    assert cache.encode(event("a", 1)) != cache.encode(event("a", 2))


def test_large_and_old_events_are_not_cached():
    cache = EventCache()
    large = event("a", 1, "x" * 20_000)
    assert cache.encode(large) is not cache.encode(large)
    first = cache.encode(event("b", 1))
    for seq in range(2, 2000):
        cache.encode(event("b", seq))
    assert cache.encode(event("b", 1)) is not first
    assert cache.encode(event("b", 1999)) is cache.encode(event("b", 1999))


def test_a_live_event_has_no_number_and_is_cached_by_identity():
    cache = EventCache()
    piece = LiveEvent("a", "message", {"text": "hel"}, "draft")
    assert cache.encode(piece) is cache.encode(piece)
    assert cache.encode(piece) == (
        b"event: message\n"
        b'data: {"workflowRunId":"a","stepName":"draft","eventType":"message","payload":{"text":"hel"}}\n\n'
    )
    encoded = [cache.encode(LiveEvent("a", "message", {"n": n}, None)) for n in range(2000)]
    assert len(set(encoded)) == 2000

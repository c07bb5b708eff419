"""Event streams that break, end and are resumed, without a network."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.client.scripted import ScriptedConnection

from statewright.client.call import Reply
from statewright.client.connection import ConnectionLost, complete
from statewright.client.follow import RunFollower
from statewright.client.settings import ClientSettings
from statewright.errors import NotFound, ServiceError
from statewright.testing import FakeClock

OPEN = Reply(status=200, headers={})


def data_of(seq: int) -> dict[str, Any]:
    created = "2026-01-01T00:00:00Z"
    fields = {"id": f"r:{seq}", "seq": seq, "workflowRunId": "r", "stepRunId": None, "eventType": "E"}
    return {**fields, "payload": {}, "createdAt": created}


def stream(*numbers: int) -> bytes:
    return b"".join(b"event: E\ndata: %b\nid: %d\n\n" % (json.dumps(data_of(seq)).encode(), seq) for seq in numbers)


def success(data: Any) -> Reply:
    return Reply(status=200, headers={}, content=json.dumps({"success": True, "data": data}).encode())


def page(*numbers: int) -> Reply:
    return success([data_of(seq) for seq in numbers])


class ScriptedService:
    """A service that answers from a list of outcomes."""

    def __init__(self, *outcomes: Any, retries: int = 2, is_live: bool = False, after: int = 0) -> None:
        self.clock = FakeClock()
        settings = ClientSettings(retries=retries, clock=self.clock)
        self.connection = ScriptedConnection(*outcomes, settings=settings)
        self.follower = RunFollower("r", after, self.connection, live=is_live)
        self.events: list[Any] = []

    @property
    def opened(self) -> list[str | None]:
        return self.connection.opened

    @property
    def pauses(self) -> int:
        return len(self.connection.pauses)

    def follow(self) -> list[int]:
        complete(self._collect())
        assert not self.connection.outcomes
        assert self.connection.open_streams == 0
        return [getattr(event, "seq", 0) for event in self.events]

    async def _collect(self) -> None:
        async for event in self.follower.events():
            self.events.append(event)


def test_events_are_followed_until_the_run_has_ended() -> None:
    service = ScriptedService(OPEN, stream(1, 2), stream(3), b"", success({"status": "completed"}), page())
    assert service.follow() == [1, 2, 3]
    assert (service.opened, service.pauses) == ([None], 0)


def test_a_broken_stream_is_resumed_after_the_last_event() -> None:
    half = stream(3)[:20]
    service = ScriptedService(
        OPEN,
        stream(1, 2) + half,
        ConnectionLost("reset"),
        OPEN,
        stream(2, 3),
        b"",
        success({"status": "failed"}),
        page(),
    )
    assert service.follow() == [1, 2, 3]
    assert service.opened == [None, "2"]


def test_a_stream_that_ends_before_its_run_is_opened_again() -> None:
    service = ScriptedService(
        OPEN,
        stream(1),
        b"",
        success({"status": "waiting"}),
        OPEN,
        stream(2),
        b"",
        success({"status": "cancelled"}),
        page(),
    )
    assert service.follow() == [1, 2]
    assert service.opened == [None, "1"]


def test_events_after_the_end_of_the_stream_are_fetched() -> None:
    service = ScriptedService(OPEN, stream(1), b"", success({"status": "completed"}), page(2, 3), page())
    assert service.follow() == [1, 2, 3]


def test_following_can_begin_after_an_event() -> None:
    service = ScriptedService(OPEN, stream(5), b"", success({"status": "completed"}), page(), after=4)
    assert service.follow() == [5]
    assert service.opened == ["4"]


def test_consecutive_failures_are_limited() -> None:
    lost = ConnectionLost("refused")
    service = ScriptedService(
        lost, lost, OPEN, stream(1), lost, lost, OPEN, b"", success({"status": "completed"}), page()
    )
    assert service.follow() == [1]
    with pytest.raises(ServiceError, match="stream got no answer: refused"):
        ScriptedService(lost, lost, lost).follow()


def test_a_connection_that_lasted_resets_the_count_of_failures() -> None:
    """Proxies may close a silent connection repeatedly."""
    failures = [OPEN, ConnectionLost("silent")] * 10
    service = ScriptedService(*failures, OPEN, stream(1), b"", success({"status": "completed"}), page())
    service.connection.before_reading = lambda: service.clock.advance(60)
    assert service.follow() == [1]


def test_a_refused_stream_is_retried_unless_the_error_is_permanent() -> None:
    busy = Reply(status=503, headers={}, content=b"")
    assert ScriptedService(busy, OPEN, stream(1), b"", success({"status": "completed"}), page()).follow() == [1]
    with pytest.raises(NotFound):
        ScriptedService(Reply(status=404, headers={}, content=b"")).follow()
    with pytest.raises(ServiceError):
        ScriptedService(busy, busy, busy).follow()


def test_live_events_are_yielded_between_stored_ones() -> None:
    live_event = {"workflowRunId": "r", "stepName": "s", "eventType": "message", "payload": "Hel"}
    piece = b"event: message\ndata: %b\n\n" % json.dumps(live_event).encode()
    service = ScriptedService(
        OPEN, stream(1) + piece + stream(2), b"", success({"status": "completed"}), page(), is_live=True
    )
    assert service.follow() == [1, 0, 2]
    assert service.events[1].payload == "Hel"

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


def answer(data: Any) -> Reply:
    return Reply(status=200, headers={}, content=json.dumps({"success": True, "data": data}).encode())


def page(*numbers: int) -> Reply:
    return answer([data_of(seq) for seq in numbers])


class Script:
    """A service that answers from a list of outcomes."""

    def __init__(self, *outcomes: Any, retries: int = 2, live: bool = False, after: int = 0) -> None:
        self.clock = FakeClock()
        settings = ClientSettings(retries=retries, clock=self.clock)
        self.connection = ScriptedConnection(*outcomes, settings=settings)
        self.follower = RunFollower("r", after, self.connection, live=live)
        self.seen: list[Any] = []

    @property
    def opened(self) -> list[str | None]:
        return self.connection.opened

    @property
    def pauses(self) -> int:
        return len(self.connection.pauses)

    def play(self) -> list[int]:
        complete(self._play())
        assert not self.connection.outcomes
        assert self.connection.open_streams == 0
        return [getattr(event, "seq", 0) for event in self.seen]

    async def _play(self) -> None:
        async for event in self.follower.events():
            self.seen.append(event)


def test_following_until_the_run_has_ended() -> None:
    script = Script(OPEN, stream(1, 2), stream(3), b"", answer({"status": "completed"}), page())
    assert script.play() == [1, 2, 3]
    assert (script.opened, script.pauses) == ([None], 0)


def test_a_broken_stream_is_resumed_after_the_last_event() -> None:
    half = stream(3)[:20]
    script = Script(
        OPEN,
        stream(1, 2) + half,
        ConnectionLost("reset"),
        OPEN,
        stream(2, 3),
        b"",
        answer({"status": "failed"}),
        page(),
    )
    assert script.play() == [1, 2, 3]
    assert script.opened == [None, "2"]


def test_a_stream_that_ends_before_its_run_is_opened_again() -> None:
    script = Script(
        OPEN,
        stream(1),
        b"",
        answer({"status": "waiting"}),
        OPEN,
        stream(2),
        b"",
        answer({"status": "cancelled"}),
        page(),
    )
    assert script.play() == [1, 2]
    assert script.opened == [None, "1"]


def test_events_after_the_end_of_the_stream_are_fetched() -> None:
    script = Script(OPEN, stream(1), b"", answer({"status": "completed"}), page(2, 3), page())
    assert script.play() == [1, 2, 3]


def test_following_from_an_event_on() -> None:
    script = Script(OPEN, stream(5), b"", answer({"status": "completed"}), page(), after=4)
    assert script.play() == [5]
    assert script.opened == ["4"]


def test_consecutive_failures_are_limited() -> None:
    lost = ConnectionLost("refused")
    script = Script(lost, lost, OPEN, stream(1), lost, lost, OPEN, b"", answer({"status": "completed"}), page())
    assert script.play() == [1]
    with pytest.raises(ServiceError, match="stream got no answer: refused"):
        Script(lost, lost, lost).play()


def test_a_connection_that_lasted_resets_the_count_of_failures() -> None:
    """Proxies close connections that are silent for long, which may happen again and again."""

    cut = [OPEN, ConnectionLost("silent")] * 10
    script = Script(*cut, OPEN, stream(1), b"", answer({"status": "completed"}), page())
    script.connection.before_reading = lambda: script.clock.advance(60)
    assert script.play() == [1]


def test_refused_streams() -> None:
    busy = Reply(status=503, headers={}, content=b"")
    assert Script(busy, OPEN, stream(1), b"", answer({"status": "completed"}), page()).play() == [1]
    with pytest.raises(NotFound):
        Script(Reply(status=404, headers={}, content=b"")).play()
    with pytest.raises(ServiceError):
        Script(busy, busy, busy).play()


def test_live_events_are_yielded_in_between() -> None:
    live = {"workflowRunId": "r", "stepName": "s", "eventType": "message", "payload": "Hel"}
    piece = b"event: message\ndata: %b\n\n" % json.dumps(live).encode()
    script = Script(OPEN, stream(1) + piece + stream(2), b"", answer({"status": "completed"}), page(), live=True)
    assert script.play() == [1, 0, 2]
    assert script.seen[1].payload == "Hel"

"""Event streams: their format, batching, backpressure, heartbeats and end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from tests.unit.server.serving import LEAD, PAYMENT, serving, two_workspaces

from statewright.runs import ApiKey, RunEvent
from statewright.server.context.auth import Caller
from statewright.server.context.server_context import ServerContext
from statewright.server.settings import ServerSettings
from statewright.server.streaming.event_stream import EventStream
from statewright.service import Catalog, LiveEvent, Service

AT = datetime(2026, 1, 2, tzinfo=UTC)


def event(seq: int, **payload: Any) -> RunEvent:
    return RunEvent("run_1", seq, "STEP_STARTED", payload, None, AT)


async def source_of(*events: RunEvent) -> AsyncIterator[RunEvent]:
    for item in events:
        yield item


class Reader:
    """The client of a stream, as an ASGI server presents it."""

    def __init__(self, *, slow: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.sending = self.ended = False
        self.disconnected = asyncio.Event()
        self.ready = asyncio.Event()
        if not slow:
            self.ready.set()

    async def receive(self) -> dict[str, Any]:
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            return
        self.sending = True
        await self.ready.wait()
        if message["body"]:
            self.pieces.append(message["body"])
        self.ended = not message["more_body"]


def new_context(**settings: Any) -> ServerContext:
    return ServerContext(Service(Catalog()), ServerSettings(**settings))


async def read(stream: EventStream, reader: Reader) -> None:
    async with asyncio.timeout(600):
        await stream({"type": "http"}, reader.receive, reader.send)  # pyright: ignore[reportArgumentType]


def test_an_event_is_encoded_as_a_server_sent_event():
    async def run() -> None:
        reader = Reader()
        await read(
            EventStream(source_of(event(1, text="two\nlines\r\n", n=1)), Caller(new_context(), "default")), reader
        )
        lines = b"".join(reader.pieces).decode().split("\n")
        assert [line.partition(":")[0] for line in lines] == ["event", "data", "id", "", ""]
        assert (lines[0], lines[2]) == ("event: STEP_STARTED", "id: 1")
        data = json.loads(lines[1].removeprefix("data: "))
        assert data == {
            "id": "run_1:1",
            "seq": 1,
            "workflowRunId": "run_1",
            "stepRunId": None,
            "eventType": "STEP_STARTED",
            "payload": {"text": "two\nlines\r\n", "n": 1},
            "createdAt": "2026-01-02T00:00:00Z",
        }

    asyncio.run(run())


def test_the_headers_prevent_buffering_by_proxies():
    async def run() -> None:
        reader = Reader()
        await read(EventStream(source_of(), Caller(new_context(), "default"), {"content-location": "/x"}), reader)
        assert reader.status == 200
        assert reader.headers == {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-store",
            "x-accel-buffering": "no",
            "content-location": "/x",
        }
        assert (reader.pieces, reader.ended) == ([], True)

    asyncio.run(run())


def test_pending_events_are_sent_together():
    async def run() -> None:
        reader = Reader()
        await read(EventStream(source_of(*(event(n) for n in range(1, 101))), Caller(new_context(), "default")), reader)
        assert len(reader.pieces) == 1
        assert reader.pieces[0].count(b"\nid: ") == 100

    asyncio.run(run())


def test_a_slow_reader_slows_down_its_source():
    produced = 0

    async def endless() -> AsyncIterator[RunEvent]:
        nonlocal produced
        while True:
            produced += 1
            yield event(produced, text="x" * 10_000)

    async def run() -> None:
        reader = Reader(slow=True)
        stream = asyncio.ensure_future(read(EventStream(endless(), Caller(new_context(), "default")), reader))
        await asyncio.sleep(0.1)
        assert produced < 100
        reader.ready.set()
        while produced <= 100:
            await asyncio.sleep(0.005)
        reader.disconnected.set()
        await stream

    asyncio.run(run())


def test_a_silent_stream_sends_heartbeats():
    async def run() -> None:
        reader = Reader()
        stream = asyncio.ensure_future(
            read(EventStream(silent_source(), Caller(new_context(heartbeat=0.01), "default")), reader)
        )
        while len(reader.pieces) < 3:
            await asyncio.sleep(0.005)
        reader.disconnected.set()
        await stream
        assert all(piece.startswith(b":") and piece.endswith(b"\n\n") for piece in reader.pieces)

    asyncio.run(run())


async def silent_source() -> AsyncIterator[RunEvent]:
    await asyncio.Event().wait()
    yield event(1)


def test_a_disconnecting_reader_closes_the_source():
    closed = asyncio.Event()

    async def closing_source() -> AsyncIterator[RunEvent]:
        try:
            yield event(1)
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def run() -> None:
        reader = Reader()
        context = new_context()
        stream = asyncio.ensure_future(read(EventStream(closing_source(), Caller(context, "default")), reader))
        while not reader.pieces:
            await asyncio.sleep(0.005)
        reader.disconnected.set()
        await stream
        assert closed.is_set()
        assert not reader.ended

    asyncio.run(run())


def test_streams_end_when_the_server_shuts_down():
    async def run() -> None:
        context, reader = new_context(), Reader()
        stream = asyncio.ensure_future(read(EventStream(silent_source(), Caller(context, "default")), reader))
        await asyncio.sleep(0.01)
        context.shutdown.begin()
        await stream
        assert reader.ended
        late = Reader()
        await read(EventStream(silent_source(), Caller(context, "default")), late)
        assert late.ended

    asyncio.run(run())


@pytest.mark.parametrize("reason", ["the server stops", "the key is revoked"])
def test_a_stopped_stream_discards_pending_events(reason: str):
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[RunEvent]:
        try:
            for number in count(1):
                yield event(number)
                await asyncio.sleep(0)
        finally:
            closed.set()

    async def run() -> None:
        context, reader = new_context(), Reader(slow=True)
        key = ApiKey(id="key_1", workspace_id="default", name="reader", digest="", prefix="", created_at=AT)
        stream = asyncio.ensure_future(read(EventStream(endless(), Caller(context, "default", key)), reader))
        while not reader.sending:
            await asyncio.sleep(0)
        for _ in range(20):  # more events become ready while the reader takes its first piece
            await asyncio.sleep(0)
        if reason == "the server stops":
            context.shutdown.begin()
        else:
            context.streams.stop_all(key.id)
        await closed.wait()
        reader.ready.set()
        await stream
        assert (len(reader.pieces), reader.ended) == (1, True)

    asyncio.run(run())


def test_a_slow_reader_receives_all_events_of_an_ended_source():
    async def run() -> None:
        reader = Reader(slow=True)
        source = source_of(*(event(n) for n in range(1, 101)))
        stream = asyncio.ensure_future(read(EventStream(source, Caller(new_context(), "default")), reader))
        while not reader.sending:
            await asyncio.sleep(0)
        reader.ready.set()
        await stream
        assert (b"".join(reader.pieces).count(b"\nid: "), reader.ended) == (100, True)

    asyncio.run(run())


def test_a_failing_source_breaks_the_stream():
    async def failing() -> AsyncIterator[RunEvent]:
        yield event(1)
        raise OSError("the disk is gone")

    async def run() -> None:
        reader = Reader()
        with pytest.raises(OSError, match="the disk is gone"):
            await read(EventStream(failing(), Caller(new_context(), "default")), reader)
        assert b"id: 1" in b"".join(reader.pieces)
        assert not reader.ended

    asyncio.run(run())


# -- through the routes


def ids(text: str) -> list[int]:
    return [int(line.removeprefix("id: ")) for line in text.split("\n") if line.startswith("id: ")]


def test_the_stream_of_an_ended_run_begins_at_any_event():
    async def run() -> None:
        async with serving() as api:
            started = await api.start(LEAD)
            path = f"/workflow-runs/{started['id']}/stream"
            text = (await api.call("GET", path)).text
            numbers = ids(text)
            assert numbers == list(range(1, len(numbers) + 1))
            assert "event: WORKFLOW_COMPLETED" in text
            for after, options in (
                (3, {"headers": {"last-event-id": "3"}}),
                (3, {"params": {"lastEventId": "3"}}),
                (0, {"headers": {"last-event-id": "-1"}}),
                (0, {"headers": {"last-event-id": ""}}),
                (len(numbers), {"headers": {"last-event-id": str(len(numbers))}}),
                (len(numbers), {"headers": {"last-event-id": "999999"}}),
                (4, {"headers": {"last-event-id": "4"}, "params": {"lastEventId": "2"}}),
            ):
                async with asyncio.timeout(600):
                    assert ids((await api.call("GET", path, **options)).text) == numbers[after:]
            for wrong in ("x", "1.5", "-2", "1" * 40):
                error = await api.get(path, 400, headers={"last-event-id": wrong})
                assert error["code"] == "VALIDATION_ERROR"

    asyncio.run(run())


def test_a_stream_lasts_until_the_run_ends():
    async def run() -> None:
        async with serving() as api:
            started = await api.start(PAYMENT)
            path = f"/workflow-runs/{started['id']}"
            reading = asyncio.ensure_future(api.call("GET", f"{path}/stream"))
            await asyncio.sleep(0.05)
            assert not reading.done()
            await api.post(f"{path}/resume", {"signalType": "payment_confirmed", "payload": {}})
            async with asyncio.timeout(600):
                text = (await reading).text
            logged = [entry["seq"] for entry in await api.get(f"{path}/events?pageSize=100")]
            assert ids(text) == logged

    asyncio.run(run())


def test_live_events_are_sent_on_request():
    async def run() -> None:
        async with serving() as api:
            started = await api.start(PAYMENT)
            path = f"/workflow-runs/{started['id']}"
            quiet = asyncio.ensure_future(api.call("GET", f"{path}/stream"))
            live = asyncio.ensure_future(api.call("GET", f"{path}/stream?live=true"))
            while api.service.hub.listener_count < 2:
                await asyncio.sleep(0.005)
            api.service.hub.publish([LiveEvent(started["id"], "message", {"text": "hel"}, "draft")])
            await api.post(f"{path}/cancel")
            async with asyncio.timeout(600):
                assert "event: message" in (await live).text
                assert "event: message" not in (await quiet).text
            assert ids(live.result().text) == ids(quiet.result().text)

    asyncio.run(run())


def test_what_a_run_says_before_its_stream_is_read_is_kept_if_it_was_started_for_that():
    async def run() -> None:
        async with serving() as api:
            body = {"definitionId": await api.define(PAYMENT)}
            for query, is_kept in (("&live=true", True), ("", False)):
                started = await api.post(f"/workflow-runs?wait=10{query}", body, 201)
                api.service.hub.publish([LiveEvent(started["id"], "message", {"text": "hel"}, "draft")])
                path = f"/workflow-runs/{started['id']}"
                stream = asyncio.ensure_future(api.call("GET", f"{path}/stream?live=true"))
                while api.service.hub.listener_count < 1:
                    await asyncio.sleep(0.005)
                await api.post(f"{path}/cancel")
                async with asyncio.timeout(600):
                    assert ("event: message" in (await stream).text) is is_kept

    asyncio.run(run())


def test_a_run_of_another_workspace_cannot_be_followed():
    async def run() -> None:
        async with two_workspaces() as (one, two):
            started = await one.start(LEAD)
            await two.get(f"/workflow-runs/{started['id']}/stream", 404)

    asyncio.run(run())

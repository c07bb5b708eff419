"""Flows driven on an event loop: other tasks run meanwhile, and cancelling closes the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from statewright.client import AsyncClient
from statewright.client.call import Reply, get, read_data
from statewright.client.clients import AsyncDriver
from statewright.client.flow import ConnectionLost, Flow, Open, Read, Send, Sleep, Yield
from statewright.client.settings import ClientSettings
from statewright.clock import Alarm
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
CALL = get("/x", read_data)
PAGE = {"success": True, "data": [], "meta": {"page": 1, "pageSize": 20, "total": 0, "totalPages": 0}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Pieces(httpx.AsyncByteStream):
    """A stream that records whether it was closed; None among its pieces is an endless silence."""

    def __init__(self, *pieces: bytes | Exception | None) -> None:
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            if piece is None:
                await asyncio.Event().wait()
            else:
                yield piece

    async def aclose(self) -> None:
        self.closed = True


class Transport(httpx.AsyncBaseTransport):
    """Returns or raises one answer after the other."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self) -> None:
        self.closed = True


def driver(*answers: httpx.Response | Exception, clock: Any = None) -> AsyncDriver:
    http = httpx.AsyncClient(transport=Transport(*answers))
    return AsyncDriver(http, ClientSettings(clock=clock or FakeClock()))


async def test_a_flow_returns_its_result() -> None:
    def flow() -> Flow[Any]:
        reply: Reply = yield Send(CALL)
        return reply.status, reply.content

    assert await driver(httpx.Response(201, content=b"made")).run(flow()) == (201, b"made")


def read_stream(*, until: int = 100) -> Flow[Any]:
    """Open a stream and yield its status, its error content, and the pieces that are read."""
    head: Reply = yield Open(CALL)
    yield Yield(head.status)
    if head.content:
        yield Yield(head.content)
    for _ in range(until):
        try:
            piece = yield Read()
        except ConnectionLost as lost:
            yield Yield(f"{lost}, {type(lost.__cause__).__name__}")
            return
        if not piece:
            return
        yield Yield(piece)


async def test_a_stream_is_read_piece_by_piece_and_closed() -> None:
    pieces = Pieces(b"a", b"", b"b")
    items = [item async for item in driver(httpx.Response(200, stream=pieces)).iterate(read_stream())]
    assert (items, pieces.closed) == ([200, b"a", b"b"], True)


async def test_an_abandoned_stream_is_closed() -> None:
    pieces = Pieces(b"a", b"b")
    items = driver(httpx.Response(200, stream=pieces)).iterate(read_stream())
    assert [await anext(items), await anext(items)] == [200, b"a"]
    assert not pieces.closed
    await items.aclose()
    assert pieces.closed


async def test_cancelling_closes_a_silent_stream() -> None:
    pieces, seen = Pieces(b"a", None), list[Any]()

    async def listen() -> None:
        async for item in driver(httpx.Response(200, stream=pieces)).iterate(read_stream()):
            seen.append(item)

    listening = asyncio.create_task(listen())
    while len(seen) < 2:
        await asyncio.sleep(0)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert (seen, pieces.closed) == ([200, b"a"], True)


async def test_opening_a_stream_closes_the_previous_one() -> None:
    first, second = Pieces(b"a"), Pieces(b"b")

    def flow() -> Flow[Any]:
        yield Open(CALL)
        yield Open(CALL, "1")
        closed = first.closed, second.closed
        piece = yield Read()
        return closed, piece

    answers = (httpx.Response(200, stream=first), httpx.Response(200, stream=second))
    assert await driver(*answers).run(flow()) == ((True, False), b"b")
    assert second.closed


async def test_a_refused_stream_has_content() -> None:
    refused = driver(httpx.Response(404, stream=Pieces(b"not ", b"there")))
    assert [item async for item in refused.iterate(read_stream(until=0))] == [404, b"not there"]


async def test_a_broken_connection_is_reported_with_its_cause() -> None:
    pieces = Pieces(b"a", httpx.ReadError("cut"))
    items = [item async for item in driver(httpx.Response(200, stream=pieces)).iterate(read_stream())]
    assert (items, pieces.closed) == ([200, b"a", "ReadError: cut, ReadError"], True)

    def flow() -> Flow[Any]:
        try:
            yield Send(CALL)
        except ConnectionLost as lost:
            return str(lost)

    assert await driver(httpx.ConnectError("refused")).run(flow()) == "ConnectError: refused"


async def test_a_pause_follows_the_clock() -> None:
    clock = FakeClock()

    def flow() -> Flow[Any]:
        yield Sleep(5)
        return "over"

    pausing = asyncio.create_task(driver(clock=clock).run(flow()))
    await asyncio.sleep(0.01)
    clock.advance(4.9)
    await asyncio.sleep(0.01)
    assert not pausing.done()
    clock.advance(0.2)
    assert await asyncio.wait_for(pausing, 600) == "over"


class RecordingClock(FakeClock):
    """A clock that records its alarms."""

    def __init__(self) -> None:
        super().__init__()
        self.alarms: list[Alarm] = []

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        self.alarms.append(super().call_later(seconds, callback))
        return self.alarms[-1]


async def test_cancelling_a_pause_cancels_its_alarm() -> None:
    clock = RecordingClock()

    def flow() -> Flow[Any]:
        yield Sleep(5)

    pausing = asyncio.create_task(driver(clock=clock).run(flow()))
    await asyncio.sleep(0.01)
    pausing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pausing
    assert [alarm.callback for alarm in clock.alarms] == [None]


async def test_a_client_serves_concurrent_tasks_and_closes_its_transport() -> None:
    transport = Transport(*(httpx.Response(200, json=PAGE) for _ in range(40)))
    async with AsyncClient(transport=transport) as client:
        pages = await asyncio.gather(*(client.runs.list() for _ in range(40)))
        assert not transport.closed
    assert ([page.total for page in pages], transport.closed) == ([0] * 40, True)

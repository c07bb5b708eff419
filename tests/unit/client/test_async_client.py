"""The connection on an event loop: other tasks run meanwhile, and cancelling closes the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from statewright.client import AsyncClient
from statewright.client.call import get, read_data
from statewright.client.clients import AsyncConnection
from statewright.client.connection import ConnectionLost
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
    """A transport that returns or raises scripted answers."""

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


def connect(*answers: httpx.Response | Exception, clock: Any = None) -> AsyncConnection:
    http = httpx.AsyncClient(transport=Transport(*answers))
    return AsyncConnection(http, ClientSettings(clock=clock or FakeClock()))


async def test_a_method_returns_its_result() -> None:
    connection = connect(httpx.Response(201, content=b"made"))
    reply = await connection.run(connection.send(CALL))
    assert (reply.status, reply.content) == (201, b"made")


async def read_stream(connection: AsyncConnection) -> AsyncGenerator[Any]:
    """Open a stream and yield its status, its error content, and the pieces that are read."""
    try:
        async with connection.stream(CALL) as (head, pieces):
            yield head.status
            if head.content:
                yield head.content
                return
            async for piece in pieces:
                yield piece
    except ConnectionLost as error:
        yield f"{error}, {type(error.__cause__).__name__}"


async def test_a_stream_is_read_piece_by_piece_and_closed() -> None:
    pieces = Pieces(b"a", b"", b"b")
    connection = connect(httpx.Response(200, stream=pieces))
    items = [item async for item in connection.iterate(read_stream(connection)) if item]
    assert (items, pieces.closed) == ([200, b"a", b"b"], True)


async def test_an_abandoned_stream_is_closed() -> None:
    pieces = Pieces(b"a", b"b")
    connection = connect(httpx.Response(200, stream=pieces))
    items = connection.iterate(read_stream(connection))
    assert [await anext(items), await anext(items)] == [200, b"a"]
    assert not pieces.closed
    await items.aclose()
    assert pieces.closed


async def test_cancelling_closes_a_silent_stream() -> None:
    pieces, items = Pieces(b"a", None), list[Any]()
    connection = connect(httpx.Response(200, stream=pieces))

    async def listen() -> None:
        async for item in connection.iterate(read_stream(connection)):
            items.append(item)

    listening = asyncio.create_task(listen())
    while len(items) < 2:
        await asyncio.sleep(0)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert (items, pieces.closed) == ([200, b"a"], True)


async def test_opening_another_stream_leaves_none_open() -> None:
    first, second = Pieces(b"a"), Pieces(b"b")
    connection = connect(httpx.Response(200, stream=first), httpx.Response(200, stream=second))
    async with connection.stream(CALL):
        pass
    async with connection.stream(CALL, "1") as (_, pieces):
        assert (first.closed, second.closed) == (True, False)
        assert [piece async for piece in pieces] == [b"b"]
    assert second.closed


async def test_a_refused_stream_yields_the_content_of_the_error() -> None:
    connection = connect(httpx.Response(404, stream=Pieces(b"not ", b"there")))
    assert [item async for item in connection.iterate(read_stream(connection))] == [404, b"not there"]


async def test_a_broken_connection_is_reported_with_its_cause() -> None:
    pieces = Pieces(b"a", httpx.ReadError("cut"))
    connection = connect(httpx.Response(200, stream=pieces))
    items = [item async for item in connection.iterate(read_stream(connection))]
    assert (items, pieces.closed) == ([200, b"a", "ReadError: cut, ReadError"], True)
    with pytest.raises(ConnectionLost, match=r"^ConnectError: refused$"):
        await connect(httpx.ConnectError("refused")).send(CALL)


async def test_a_pause_follows_the_clock() -> None:
    clock = FakeClock()
    pausing = asyncio.create_task(connect(clock=clock).sleep(5))
    await asyncio.sleep(0.01)
    clock.advance(4.9)
    await asyncio.sleep(0.01)
    assert not pausing.done()
    clock.advance(0.2)
    await asyncio.wait_for(pausing, 600)


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
    pausing = asyncio.create_task(connect(clock=clock).sleep(5))
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


async def test_an_error_of_the_caller_is_not_reported_as_a_connection_error() -> None:
    connection = connect(httpx.Response(200, stream=Pieces(b"a", b"b")))
    items = connection.iterate(read_stream(connection))
    assert await anext(items) == 200
    with pytest.raises(httpx.ReadError, match="of the caller"):
        await items.athrow(httpx.ReadError("of the caller"))


def test_a_stream_left_open_at_the_end_of_its_event_loop_is_closed_without_errors() -> None:
    pieces, reports = Pieces(b"a", b"b"), list[Any]()
    streams: list[Any] = []

    async def leave_open() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
        connection = connect(httpx.Response(200, stream=pieces))
        streams.append(connection.iterate(read_stream(connection)))
        assert [await anext(streams[0]), await anext(streams[0])] == [200, b"a"]

    asyncio.run(leave_open())
    assert (reports, pieces.closed) == ([], True)

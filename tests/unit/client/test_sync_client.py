"""The blocking connection: streams are closed, broken connections reported, and pauses follow the clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from statewright.client import Client
from statewright.client.call import get, read_data
from statewright.client.clients import SyncConnection
from statewright.client.connection import ConnectionLost
from statewright.client.settings import ClientSettings
from statewright.errors import InvalidConfig
from statewright.testing import FakeClock

CALL = get("/x", read_data)
PAGE = {"success": True, "data": [], "meta": {"page": 1, "pageSize": 20, "total": 0, "totalPages": 0}}


class Pieces(httpx.SyncByteStream):
    """A stream that records whether it was closed."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self.pieces = pieces
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def close(self) -> None:
        self.closed = True


class Transport(httpx.BaseTransport):
    """A transport that returns or raises scripted answers."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.closed = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


def connect(*answers: httpx.Response | Exception, clock: Any = None) -> SyncConnection:
    http = httpx.Client(transport=Transport(*answers))
    return SyncConnection(http, ClientSettings(clock=clock or FakeClock()))


def test_a_method_returns_its_result() -> None:
    connection = connect(httpx.Response(201, content=b"made"))
    reply = connection.run(connection.send(CALL))
    assert (reply.status, reply.content) == (201, b"made")


async def read_stream(connection: SyncConnection, *, max_pieces: int = 100) -> AsyncGenerator[Any]:
    """Open a stream and yield its status, its error content, and the pieces that are read."""
    try:
        async with connection.stream(CALL) as (head, pieces):
            yield head.status
            if head.content:
                yield head.content
                return
            async for piece in pieces:
                yield piece
                max_pieces -= 1
                if not max_pieces:
                    return
    except ConnectionLost as error:
        yield f"{error}, {type(error.__cause__).__name__}"


def test_a_stream_is_read_piece_by_piece_and_closed() -> None:
    pieces = Pieces(b"a", b"", b"b")
    connection = connect(httpx.Response(200, stream=pieces))
    assert [item for item in connection.iterate(read_stream(connection)) if item] == [200, b"a", b"b"]
    assert pieces.closed


def test_an_abandoned_stream_is_closed() -> None:
    pieces = Pieces(b"a", b"b")
    connection = connect(httpx.Response(200, stream=pieces))
    items = connection.iterate(read_stream(connection))
    assert [next(items), next(items)] == [200, b"a"]
    assert not pieces.closed
    items.close()
    assert pieces.closed


def test_a_stream_that_is_left_early_is_closed() -> None:
    pieces = Pieces(b"a", b"b")
    connection = connect(httpx.Response(200, stream=pieces))
    assert list(connection.iterate(read_stream(connection, max_pieces=1))) == [200, b"a"]
    assert pieces.closed


def test_opening_another_stream_leaves_none_open() -> None:
    first, second = Pieces(b"a"), Pieces(b"b")
    connection = connect(httpx.Response(200, stream=first), httpx.Response(200, stream=second))

    async def open_both() -> Any:
        async with connection.stream(CALL):
            pass
        async with connection.stream(CALL, "1") as (_, pieces):
            closed = first.closed, second.closed
            return closed, [piece async for piece in pieces]

    assert connection.run(open_both()) == ((True, False), [b"b"])
    assert second.closed


def test_a_refused_stream_yields_the_content_of_the_error() -> None:
    refused = Pieces(b"not ", b"there")
    connection = connect(httpx.Response(404, stream=refused))
    assert list(connection.iterate(read_stream(connection))) == [404, b"not there"]
    assert refused.closed


def test_a_broken_connection_is_reported_with_its_cause() -> None:
    pieces = Pieces(b"a", httpx.ReadError("cut"))
    connection = connect(httpx.Response(200, stream=pieces))
    assert list(connection.iterate(read_stream(connection))) == [200, b"a", "ReadError: cut, ReadError"]
    assert pieces.closed
    connection = connect(httpx.ConnectError("refused"))
    with pytest.raises(ConnectionLost, match=r"^ConnectError: refused$"):
        connection.run(connection.send(CALL))


def test_other_errors_are_raised() -> None:
    connection = connect(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        connection.run(connection.send(CALL))


def test_errors_of_the_caller_are_raised() -> None:
    connection = connect(httpx.Response(200, stream=Pieces(b"a")))
    items = connection.iterate(read_stream(connection))
    next(items)
    with pytest.raises(ZeroDivisionError):
        items.throw(ZeroDivisionError())


def test_a_stream_is_read_on_the_thread_of_a_running_event_loop() -> None:
    async def main() -> list[Any]:
        connection = connect(httpx.Response(200, stream=Pieces(b"a")))
        return list(connection.iterate(read_stream(connection)))

    assert asyncio.run(main()) == [200, b"a"]


def test_a_pause_follows_the_clock() -> None:
    clock, finished = FakeClock(), threading.Event()
    connection = connect(clock=clock)

    def pause() -> None:
        connection.run(connection.sleep(5))
        finished.set()

    thread = threading.Thread(target=pause, daemon=True)
    thread.start()
    clock.advance(0)
    assert not finished.wait(0.02)
    while thread.is_alive():  # the thread may start its pause after the clock was advanced
        clock.advance(5)
        thread.join(0.01)
    assert finished.is_set()


def test_a_client_serves_several_threads_and_closes_its_transport() -> None:
    transport = Transport(*(httpx.Response(200, json=PAGE) for _ in range(40)))
    with Client(transport=transport) as client, ThreadPoolExecutor(8) as threads:
        pages = list(threads.map(lambda _: client.runs.list(), range(40)))
        assert not transport.closed
    assert ([page.total for page in pages], transport.closed) == ([0] * 40, True)


def test_an_invalid_address_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="is not a valid address"):
        Client("localhost:8123")


def test_an_iterator_can_be_used_after_the_event_loop_in_which_it_was_created() -> None:
    connection = connect(httpx.Response(200, stream=Pieces(b"a", b"b")))

    async def begin() -> Any:
        items = connection.iterate(read_stream(connection))
        assert next(items) == 200
        return items

    assert [item for item in asyncio.run(begin()) if item] == [b"a", b"b"]


@pytest.mark.parametrize("error", [httpx.ReadError("of the caller"), RuntimeError("of the caller")])
def test_an_error_of_the_caller_is_not_reported_as_a_connection_error(error: Exception) -> None:
    connection = connect(httpx.Response(200, stream=Pieces(b"a", b"b")))
    items = connection.iterate(read_stream(connection))
    assert next(items) == 200
    with pytest.raises(type(error), match="of the caller"):
        items.throw(error)

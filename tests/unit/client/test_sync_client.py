"""Flows driven by plain calls: streams are closed, broken connections reported, and pauses follow the clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from statewright.client import Client
from statewright.client.call import Reply, get, read_data
from statewright.client.clients import SyncDriver
from statewright.client.flow import ConnectionLost, Flow, Open, Read, Send, Sleep, Yield
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
    """Returns or raises one answer after the other."""

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


def driver(*answers: httpx.Response | Exception, clock: Any = None) -> SyncDriver:
    http = httpx.Client(transport=Transport(*answers))
    return SyncDriver(http, ClientSettings(clock=clock or FakeClock()))


def test_a_flow_returns_its_result() -> None:
    def flow() -> Flow[Any]:
        reply: Reply = yield Send(CALL)
        return reply.status, reply.content

    assert driver(httpx.Response(201, content=b"made")).run(flow()) == (201, b"made")


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


def test_a_stream_is_read_piece_by_piece_and_closed() -> None:
    pieces = Pieces(b"a", b"", b"b")
    assert list(driver(httpx.Response(200, stream=pieces)).iterate(read_stream())) == [200, b"a", b"b"]
    assert pieces.closed


def test_an_abandoned_stream_is_closed() -> None:
    pieces = Pieces(b"a", b"b")
    items = driver(httpx.Response(200, stream=pieces)).iterate(read_stream())
    assert [next(items), next(items)] == [200, b"a"]
    assert not pieces.closed
    items.close()
    assert pieces.closed


def test_opening_a_stream_closes_the_previous_one() -> None:
    first, second = Pieces(b"a"), Pieces(b"b")

    def flow() -> Flow[Any]:
        yield Open(CALL)
        yield Open(CALL, "1")
        closed = first.closed, second.closed
        piece = yield Read()
        return closed, piece

    answers = (httpx.Response(200, stream=first), httpx.Response(200, stream=second))
    assert driver(*answers).run(flow()) == ((True, False), b"b")
    assert second.closed


def test_a_refused_stream_has_content() -> None:
    items = driver(httpx.Response(404, stream=Pieces(b"not ", b"there"))).iterate(read_stream(until=0))
    assert list(items) == [404, b"not there"]


def test_a_broken_connection_is_reported_with_its_cause() -> None:
    pieces = Pieces(b"a", httpx.ReadError("cut"))
    message = "ReadError: cut, ReadError"
    assert list(driver(httpx.Response(200, stream=pieces)).iterate(read_stream())) == [200, b"a", message]
    assert pieces.closed

    def flow() -> Flow[Any]:
        try:
            yield Send(CALL)
        except ConnectionLost as lost:
            return str(lost)

    assert driver(httpx.ConnectError("refused")).run(flow()) == "ConnectError: refused"


def test_other_errors_are_raised() -> None:
    def flow() -> Flow[Any]:
        yield Send(CALL)

    with pytest.raises(ZeroDivisionError):
        driver(ZeroDivisionError()).run(flow())


def test_a_pause_follows_the_clock() -> None:
    clock, over = FakeClock(), threading.Event()

    def flow() -> Flow[Any]:
        yield Sleep(5)
        over.set()

    thread = threading.Thread(target=lambda: driver(clock=clock).run(flow()), daemon=True)
    thread.start()
    clock.advance(0)
    assert not over.wait(0.02)
    while thread.is_alive():  # time may pass before the thread has asked the clock
        clock.advance(5)
        thread.join(0.01)
    assert over.is_set()


def test_a_client_serves_several_threads_and_closes_its_transport() -> None:
    transport = Transport(*(httpx.Response(200, json=PAGE) for _ in range(40)))
    with Client(transport=transport) as client, ThreadPoolExecutor(8) as threads:
        pages = list(threads.map(lambda _: client.runs.list(), range(40)))
        assert not transport.closed
    assert ([page.total for page in pages], transport.closed) == ([0] * 40, True)


def test_an_invalid_address_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="is not a valid address"):
        Client("localhost:8123")

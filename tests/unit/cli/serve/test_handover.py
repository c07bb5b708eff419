"""The handover from one server process to the next."""

from __future__ import annotations

import signal
import socket
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Queue

import pytest
from tests.work import wait_until

from statewright.cli.serve.sockets import ParentLink, ServerProcess, open_listening_socket
from statewright.server.context.reload_status import LoadFailure


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with open_listening_socket("127.0.0.1", 0) as listener:
        yield listener


@contextmanager
def child_of(listening: socket.socket) -> Generator[tuple[ParentLink, socket.socket]]:
    """Yield the link of a child, and the parent's end of the connection."""
    parent_end, child_end = socket.socketpair()
    child = ParentLink(f"{listening.dup().detach()}:{child_end.detach()}")
    with parent_end, child.listening, child._connection:
        yield child, parent_end


@pytest.mark.parametrize(("message", "is_first"), [(b"f", True), (b"n", False)])
def test_a_child_reports_that_it_is_ready_and_waits_for_its_turn(
    listening: socket.socket, message: bytes, is_first: bool
) -> None:
    with child_of(listening) as (child, parent_end), ThreadPoolExecutor() as pool:
        turn = pool.submit(child.wait_for_turn)
        assert parent_end.recv(1) == b"r"
        assert not turn.done()
        parent_end.sendall(message)
        assert turn.result(600) is is_first


def test_a_child_exits_if_its_parent_is_gone(listening: socket.socket) -> None:
    with child_of(listening) as (child, parent_end):
        parent_end.close()
        with pytest.raises(SystemExit) as exited:
            child.wait_for_turn()
    assert exited.value.code == 0


@pytest.fixture
def terminations() -> Iterator[list[int]]:
    """The termination signals that this process gets, which do not end it."""
    received: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    yield received
    signal.signal(signal.SIGTERM, previous)


def test_a_server_hears_why_its_successors_have_failed_and_ends_with_its_parent(
    listening: socket.socket, terminations: list[int]
) -> None:
    heard: Queue[bytes] = Queue()
    with child_of(listening) as (child, parent_end):
        child.exit_with_parent(heard.put)
        parent_end.sendall(b"one\ntwo")
        assert heard.get(timeout=600) == b"one\n"
        parent_end.sendall(b"\n")
        assert heard.get(timeout=600) == b"two\n"
        assert terminations == []
        parent_end.close()
        wait_until(lambda: terminations)


def test_a_server_that_cannot_start_says_why_and_is_not_ready(listening: socket.socket) -> None:
    server = ServerProcess(listening, ["dev", "/none/at/all.py"])
    assert not server.wait_until_ready()
    assert server.stop(10) == 2
    assert server.failure is not None
    (problem,) = LoadFailure.from_line(server.failure).problems
    assert "does not exist" in problem.message

"""One server taking over from another."""

from __future__ import annotations

import socket
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from statewright.cli.serve.sockets import ParentLink, ServerProcess, open_listening_socket


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with open_listening_socket("127.0.0.1", 0) as taken:
        yield taken


@contextmanager
def child_of(listening: socket.socket) -> Generator[tuple[ParentLink, socket.socket]]:
    """A child, and the end of its parent of the line between them."""
    ours, theirs = socket.socketpair()
    child = ParentLink(f"{listening.dup().detach()}:{theirs.detach()}")
    with ours, child.listening, child._connection:
        yield child, ours


@pytest.mark.parametrize(("word", "is_first"), [(b"f", True), (b"n", False)])
def test_a_child_says_that_it_is_ready_and_waits_for_its_turn(
    listening: socket.socket, word: bytes, is_first: bool
) -> None:
    with child_of(listening) as (child, line), ThreadPoolExecutor() as pool:
        turn = pool.submit(child.wait_for_turn)
        assert line.recv(1) == b"r"
        assert not turn.done()
        line.sendall(word)
        assert turn.result(600) is is_first


def test_a_child_whose_parent_is_gone_ends(listening: socket.socket) -> None:
    with child_of(listening) as (child, line):
        line.close()
        with pytest.raises(SystemExit) as ended:
            child.wait_for_turn()
    assert ended.value.code == 0


def test_a_server_that_cannot_begin_is_not_ready(listening: socket.socket) -> None:
    server = ServerProcess(listening, ["dev", "/none/at/all.py"])
    assert not server.wait_until_ready()
    assert server.stop(10) == 2

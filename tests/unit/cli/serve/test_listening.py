"""Ports taken."""

from __future__ import annotations

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.serve.sockets import open_listening_socket, socket_url


def test_any_free_port_is_taken_and_told() -> None:
    with open_listening_socket("127.0.0.1", 0) as taken:
        assert socket_url(taken) == f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_server_that_listens_everywhere_is_reached_here() -> None:
    with open_listening_socket("0.0.0.0", 0) as taken:
        assert socket_url(taken).startswith("http://127.0.0.1:")


def test_a_port_that_is_taken_is_refused() -> None:
    with open_listening_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"Port {port} of 127.0.0.1 is taken"):
            open_listening_socket("127.0.0.1", port)


@pytest.mark.parametrize(("host", "said"), [("203.0.113.7", "Cannot listen on"), ("..", "There is no address")])
def test_an_address_of_somebody_else_is_refused(host: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_listening_socket(host, 0)

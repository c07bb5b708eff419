"""Listening sockets."""

from __future__ import annotations

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.serve.sockets import open_listening_socket, socket_url


def test_port_0_takes_any_free_port() -> None:
    with open_listening_socket("127.0.0.1", 0) as listener:
        assert socket_url(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_the_url_of_a_wildcard_address_is_loopback() -> None:
    with open_listening_socket("0.0.0.0", 0) as listener:
        assert socket_url(listener).startswith("http://127.0.0.1:")


def test_a_port_in_use_is_refused() -> None:
    with open_listening_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=f"Port {port} on 127.0.0.1 is already in use"):
            open_listening_socket("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "message"), [("203.0.113.7", "Cannot listen on"), ("..", r"address '\.\.' cannot be resolved")]
)
def test_an_address_of_another_machine_is_refused(host: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_listening_socket(host, 0)

"""Connecting to one of several hosts."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from tests.postgres_server import shared_server, shared_url

from statewright.errors import StorageUnavailable
from statewright.storage.postgres import PostgresDatabase
from statewright.storage.postgres import database as database_module
from statewright.storage.postgres.connecting import ConnectionLost, connect


@pytest.fixture
def silent_port() -> Iterator[int]:
    """The port of a host that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_hosts_that_do_not_answer_are_passed_over(silent_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "CONNECT_TIMEOUT", 0.3)
    hosts = f"host=127.0.0.1,127.0.0.1,{shared_server().folder} port={silent_port},{silent_port},5432"
    address = f"{hosts} user=postgres dbname=postgres target_session_attrs=read-write"
    with PostgresDatabase(address, schema="passed_over") as database:
        assert database.query(lambda connection: connection.execute("SELECT 1").fetchone()[0]) == 1


def test_an_error_names_each_host(silent_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed_port = listener.getsockname()[1]
    address = f"host=127.0.0.1,127.0.0.1 port={silent_port},{closed_port} user=x"
    with pytest.raises(ConnectionLost) as raised:
        connect(address.encode(), 0.3)
    assert f"127.0.0.1:{silent_port} did not answer within 0.3 seconds" in str(raised.value)
    assert f"port {closed_port} failed" in str(raised.value)


def test_the_timeout_of_the_address_counts(silent_port: int) -> None:
    address = f"host=127.0.0.1 port={silent_port} user=x connect_timeout=2"
    with pytest.raises(ConnectionLost, match="within 2 seconds"):
        connect(address.encode(), 60)


def test_a_host_without_the_wanted_role_is_passed_over() -> None:
    folder = shared_server().folder
    address = f"{shared_url().partition('?')[0]}?host={folder},{folder}&target_session_attrs="
    connect(f"{address}prefer-standby".encode(), 10).finish()
    with pytest.raises(ConnectionLost, match="standby"):
        connect(f"{address}standby".encode(), 10)


@pytest.mark.parametrize("address", ["host=unknown.invalid", "host=127.0.0.1 connect_timeout=soon"])
def test_an_address_that_cannot_be_used_is_reported(address: str) -> None:
    with pytest.raises(StorageUnavailable, match=r"cannot be used: .*(unknown\.invalid|connect_timeout)"):
        PostgresDatabase(address)

"""Errors of servers that do not answer or refuse a request."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.runs.client_session import open_client
from statewright.errors import ServiceError, Unauthorized


@pytest.fixture
def unused_url(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address without a server."""
    monkeypatch.delenv("STATEWRIGHT_URL", raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_an_unreachable_server_is_reported(folder: Path, statewright: Command, unused_url: str) -> None:
    result = statewright("runs", "ls", "--url", unused_url)
    assert result.code == 1
    assert result.err.startswith(f"Error: No server responds at {unused_url}: ")
    assert result.err.endswith("Check --url and STATEWRIGHT_URL.\n")


def test_watch_fails_at_once_without_a_server(folder: Path, statewright: Command, unused_url: str) -> None:
    assert statewright("runs", "watch", "run_1", "--url", unused_url).code == 1


def test_the_url_can_be_set_in_the_environment(
    folder: Path, statewright: Command, unused_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWRIGHT_URL", unused_url)
    assert f"No server responds at {unused_url}" in statewright("definitions", "ls").err


def test_an_invalid_url_is_a_usage_error(folder: Path, statewright: Command) -> None:
    result = statewright("runs", "ls", "--url", "localhost:8123")
    assert (result.code, "is not a valid server URL" in result.err) == (2, True)


def test_an_unauthorized_error_names_the_source_of_the_key(unused_url: str) -> None:
    with pytest.raises(UsageError, match="STATEWRIGHT_API_KEY"), open_client(unused_url):
        raise Unauthorized("The request has no credentials.")


def test_other_service_errors_are_raised(unused_url: str) -> None:
    with pytest.raises(ServiceError, match="broken"), open_client(unused_url):
        raise ServiceError("broken", details={"status": 500})

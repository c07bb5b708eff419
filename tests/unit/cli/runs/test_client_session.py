"""Servers that do not answer, or refuse."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.runs.client_session import open_client
from statewright.errors import ServiceError, Unauthorized


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address at which nobody listens."""
    monkeypatch.delenv("STATEWRIGHT_URL", raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_server_that_was_named_and_does_not_answer_is_told(folder: Path, statewright: Command, nobody: str) -> None:
    ended = statewright("runs", "ls", "--url", nobody)
    assert ended.code == 1
    assert ended.err.startswith(f"Error: No server answers at {nobody}: ")
    assert ended.err.endswith("Check --url and STATEWRIGHT_URL.\n")


def test_watching_nobody_ends_at_once(folder: Path, statewright: Command, nobody: str) -> None:
    assert statewright("runs", "watch", "run_1", "--url", nobody).code == 1


def test_a_server_may_be_named_in_the_environment(
    folder: Path, statewright: Command, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWRIGHT_URL", nobody)
    assert f"No server answers at {nobody}" in statewright("definitions", "ls").err


def test_an_address_that_is_none_is_wrong_use(folder: Path, statewright: Command) -> None:
    ended = statewright("runs", "ls", "--url", "localhost:8123")
    assert (ended.code, "is not the URL of a server" in ended.err) == (2, True)


def test_who_is_not_let_in_is_told_where_the_key_comes_from(nobody: str) -> None:
    with pytest.raises(UsageError, match="STATEWRIGHT_API_KEY"), open_client(nobody):
        raise Unauthorized("Nobody said who asks.")


def test_other_refusals_are_passed_on(nobody: str) -> None:
    with pytest.raises(ServiceError, match="broken"), open_client(nobody):
        raise ServiceError("broken", details={"status": 500})

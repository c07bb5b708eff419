"""`statewright serve`: insecure options are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.serve.serve import read_admin_token


def test_auth_none_is_refused_beyond_loopback(flow: Path, statewright: Command) -> None:
    result = statewright("serve", "flow.py:graph", "--host", "0.0.0.0", "--auth", "none")
    assert result.code == 2
    assert "Use --auth keys, and create a key with: statewright keys create NAME" in result.err


def test_a_server_that_does_not_work_has_no_queues(flow: Path, statewright: Command) -> None:
    result = statewright("serve", "flow.py:graph", "--no-work", "--queues", "gpu")
    assert (result.code, "With --no-work, the server advances no runs" in result.err) == (2, True)


def test_a_name_that_no_queue_can_have_is_refused(flow: Path, statewright: Command) -> None:
    for command in ("serve", "worker"):
        result = statewright(command, "flow.py:graph", "--queues", "gpu,a b")
        assert (result.code, "--queues: 'a b' is not a valid name of a queue" in result.err) == (2, True)


def test_the_admin_token_is_read_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATEWRIGHT_ADMIN_TOKEN", raising=False)
    assert read_admin_token(None) is None
    monkeypatch.setenv("STATEWRIGHT_ADMIN_TOKEN", "a-token-that-is-long")
    monkeypatch.setenv("MINE", "another-that-is-long")
    assert (read_admin_token(None), read_admin_token("MINE")) == ("a-token-that-is-long", "another-that-is-long")
    with pytest.raises(UsageError, match="The environment variable NONE is not set"):
        read_admin_token("NONE")


def test_a_short_admin_token_is_refused(flow: Path, statewright: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEWRIGHT_ADMIN_TOKEN", "short")
    result = statewright("serve", "flow.py:graph", "--port", 0)
    assert (result.code, "fewer than 16 characters" in result.err, "short" not in result.out) == (2, True, True)

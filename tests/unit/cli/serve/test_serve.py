"""`statewright serve`: what is refused before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.serve.serve import read_admin_token


def test_everybody_is_let_in_only_on_this_machine(flow: Path, statewright: Command) -> None:
    ended = statewright("serve", "flow.py:graph", "--host", "0.0.0.0", "--auth", "none")
    assert ended.code == 2
    assert "Give --auth keys and create a key: statewright keys create NAME" in ended.err


def test_the_token_of_the_operator_comes_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATEWRIGHT_ADMIN_TOKEN", raising=False)
    assert read_admin_token(None) is None
    monkeypatch.setenv("STATEWRIGHT_ADMIN_TOKEN", "a-token-that-is-long")
    monkeypatch.setenv("MINE", "another-that-is-long")
    assert (read_admin_token(None), read_admin_token("MINE")) == ("a-token-that-is-long", "another-that-is-long")
    with pytest.raises(UsageError, match="The variable NONE is not set"):
        read_admin_token("NONE")


def test_a_token_that_could_be_guessed_is_refused(
    flow: Path, statewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWRIGHT_ADMIN_TOKEN", "short")
    ended = statewright("serve", "flow.py:graph", "--port", 0)
    assert (ended.code, "fewer than 16 characters" in ended.err, "short" not in ended.out) == (2, True, True)

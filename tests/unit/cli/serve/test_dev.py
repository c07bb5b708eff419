"""`statewright dev`: authentication, and usage errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.console.failure import UsageError
from statewright.cli.serve.serve import choose_auth
from statewright.cli.serve.server import ServerLocation


def test_no_keys_are_required_on_loopback(folder: Path) -> None:
    assert choose_auth(ServerLocation(host="127.0.0.1", port=0, database=folder / "a.db")) == "none"
    assert not (folder / "a.db").exists()


def test_a_key_must_exist_on_other_addresses(folder: Path, statewright: Command) -> None:
    location = ServerLocation(host="0.0.0.0", port=0, database=folder / "a.db")
    with pytest.raises(UsageError, match=f"statewright keys create NAME --database {folder}/a.db"):
        choose_auth(location)
    statewright("keys", "create", "me", "--database", folder / "a.db")
    assert choose_auth(location) == "keys"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--no-reload",), "There is no statewright.toml"),
        ((), "There is no statewright.toml"),
        (("flow.py", "--host", "0.0.0.0", "--no-reload"), "statewright keys create NAME"),
        (("flow.py", "--database", "memory:", "--no-reload"), "must save its runs"),
        (("flow.py:nobody", "--no-reload"), "has no graph 'nobody'"),
        (("flow.py", "--base-url", "http://127.0.0.1:1", "--no-reload"), "Pass --model MODEL too."),
    ],
)
def test_usage_errors_are_one_sentence(
    folder: Path, flow: Path, statewright: Command, words: tuple[str, ...], message: str
) -> None:
    flow.write_text(flow.read_text(encoding="utf-8").partition("wrong =")[0], encoding="utf-8")
    (folder / ".git").mkdir()
    result = statewright("dev", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_an_invalid_graph_is_reported_with_all_problems(flow: Path, statewright: Command) -> None:
    result = statewright("dev", "flow.py:wrong", "--no-reload")
    assert result.code == 2
    assert all(name in result.err for name in ("'bb'", "'cc'"))

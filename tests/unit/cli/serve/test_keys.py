"""`statewright keys`, on a database."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.serve.keys import key_status
from statewright.clock import SystemClock
from statewright.runs import ApiKey


def test_a_key_is_printed_alone_and_this_once(folder: Path, statewright: Command) -> None:
    made = statewright("keys", "create", "me")
    key = made.out.strip()
    assert (made.code, key.startswith("stw_"), "\n" in key) == (0, True, False)
    assert "is shown only once. It allows admin." in made.err
    listed = statewright("keys", "ls")
    assert "me" in listed.out
    assert key not in listed.out + statewright("keys", "ls", "--json").out
    assert key.encode() not in (folder / ".statewright/runs.db").read_bytes()


def test_a_key_has_scopes_an_end_and_a_rate(folder: Path, statewright: Command) -> None:
    words = ("--scope", "runs:read", "--scope", "runs:write", "--days", 3, "--rate", 60, "--json")
    made = json.loads(statewright("keys", "create", "you", *words).out)
    assert (made["scopes"], made["requests_per_minute"]) == (["runs:read", "runs:write"], 60)
    assert made["status"] == "active"
    assert made["expires_at"] > made["created_at"]


def test_a_revoked_key_is_told_as_such(folder: Path, statewright: Command) -> None:
    made = json.loads(statewright("keys", "create", "me", "--json").out)
    refused = statewright("keys", "revoke", made["id"])
    assert (refused.code != 0, "is the last one" in refused.err) == (True, True)
    statewright("keys", "create", "another")
    assert statewright("keys", "revoke", made["id"]).out == f"Revoked {made['id']}.\n"
    listed = json.loads(statewright("keys", "ls", "--json").out)
    assert {one["name"]: one["status"] for one in listed} == {"me": "revoked", "another": "active"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "me", "--scope", "runs:raed"), "Did you mean 'runs:read'?"),
        (("create", "me", "--workspace", "defalt"), "Did you mean 'default'?"),
        (("revoke", "key_1"), "There is no key 'key_1' in this workspace."),
    ],
)
def test_what_is_asked_wrongly_is_told(folder: Path, statewright: Command, words: tuple[str, ...], said: str) -> None:
    statewright("keys", "create", "first")
    ended = statewright("keys", *words)
    assert (ended.code, ended.out, said in ended.err) == (2, "", True)


def test_looking_makes_no_database(folder: Path, statewright: Command) -> None:
    ended = statewright("keys", "ls", "--database", "none.db")
    assert (ended.code, (folder / "none.db").exists()) == (2, False)


def test_the_database_is_that_of_the_project(folder: Path, statewright: Command) -> None:
    (folder / "statewright.toml").write_text('[serve]\ndatabase = "mine.db"\n', encoding="utf-8")
    assert statewright("keys", "create", "me").code == 0
    assert (folder / "mine.db").exists()


def test_an_expired_key_is_told_as_such() -> None:
    now = SystemClock().now()
    key = ApiKey(id="k", workspace_id="w", name="n", digest="d", prefix="p", created_at=now, expires_at=now)
    assert key_status(key, now - timedelta(seconds=1)) == "active"
    assert key_status(key, now) == "expired"


def test_an_empty_workspace_says_how_to_make_a_key(folder: Path, statewright: Command) -> None:
    statewright("workspaces", "create", "sales")
    assert statewright("keys", "ls", "--workspace", "sales").out == (
        "Workspace 'sales' has no keys. Create one with: statewright keys create NAME\n"
    )

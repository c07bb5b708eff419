"""`statewright keys`, with a database."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.serve.access import key_status
from statewright.clock import SystemClock
from statewright.runs import ApiKey


def test_a_new_key_is_printed_alone_and_only_once(folder: Path, statewright: Command) -> None:
    created = statewright("keys", "create", "me")
    key = created.out.strip()
    assert (created.code, key.startswith("stw_"), "\n" in key) == (0, True, False)
    assert "with scope admin. Save it now" in created.err
    listed = statewright("keys", "ls")
    assert "me" in listed.out
    assert key not in listed.out + statewright("keys", "ls", "--json").out
    assert key.encode() not in (folder / ".statewright/runs.db").read_bytes()


def test_a_key_has_scopes_an_expiry_and_a_rate(folder: Path, statewright: Command) -> None:
    words = ("--scope", "runs:read", "--scope", "runs:write", "--days", 3, "--rate", 60, "--json")
    created = json.loads(statewright("keys", "create", "you", *words).out)
    assert (created["scopes"], created["requests_per_minute"]) == (["runs:read", "runs:write"], 60)
    assert created["status"] == "active"
    assert created["expires_at"] > created["created_at"]


def test_the_status_of_a_revoked_key(folder: Path, statewright: Command) -> None:
    created = json.loads(statewright("keys", "create", "me", "--json").out)
    refused = statewright("keys", "revoke", created["id"])
    assert (refused.code != 0, "is the last one" in refused.err) == (True, True)
    statewright("keys", "create", "another")
    assert statewright("keys", "revoke", created["id"]).out == f"Revoked {created['id']}.\n"
    listed = json.loads(statewright("keys", "ls", "--json").out)
    assert {entry["name"]: entry["status"] for entry in listed} == {"me": "revoked", "another": "active"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create", "me", "--scope", "runs:raed"), "Did you mean 'runs:read'?"),
        (("create", "me", "--workspace", "defalt"), "Did you mean 'default'?"),
        (("revoke", "key_1"), "Key 'key_1' does not exist in this workspace."),
    ],
)
def test_usage_errors_have_suggestions(
    folder: Path, statewright: Command, words: tuple[str, ...], message: str
) -> None:
    statewright("keys", "create", "first")
    result = statewright("keys", *words)
    assert (result.code, result.out, message in result.err) == (2, "", True)


def test_listing_keys_creates_no_database(folder: Path, statewright: Command) -> None:
    result = statewright("keys", "ls", "--database", "none.db")
    assert (result.code, (folder / "none.db").exists()) == (2, False)


def test_the_default_database_is_that_of_the_project(folder: Path, statewright: Command) -> None:
    (folder / "statewright.toml").write_text('[serve]\ndatabase = "mine.db"\n', encoding="utf-8")
    assert statewright("keys", "create", "me").code == 0
    assert (folder / "mine.db").exists()


def test_the_status_of_an_expired_key() -> None:
    now = SystemClock().now()
    key = ApiKey(id="k", workspace_id="w", name="n", digest="d", prefix="p", created_at=now, expires_at=now)
    assert key_status(key, now - timedelta(seconds=1)) == "active"
    assert key_status(key, now) == "expired"


def test_a_workspace_without_keys_shows_how_to_create_one(folder: Path, statewright: Command) -> None:
    statewright("workspaces", "create", "sales")
    assert statewright("keys", "ls", "--workspace", "sales").out == (
        "Workspace 'sales' has no keys. Create one with: statewright keys create NAME\n"
    )

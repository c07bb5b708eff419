"""`statewright workspaces`, on a database."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.conftest import Command


def test_a_workspace_is_made_with_limits_and_has_keys_of_its_own(folder: Path, statewright: Command) -> None:
    made = statewright("workspaces", "create", "sales-eu", "--name", "Sales", "--max-running", 3)
    assert (
        made.out
        == "Created workspace sales-eu. Create a key for it with: statewright keys create NAME --workspace sales-eu\n"
    )
    found = {one["slug"]: one for one in json.loads(statewright("workspaces", "ls", "--json").out)}
    assert (found["sales-eu"]["max_running"], found["sales-eu"]["name"], found["default"]["max_running"]) == (
        3,
        "Sales",
        None,
    )
    statewright("keys", "create", "theirs", "--workspace", "sales-eu")
    assert "theirs" in statewright("keys", "ls", "--workspace", "sales-eu").out
    assert "no keys" in statewright("keys", "ls").out
    assert [line.split()[0] for line in statewright("workspaces", "ls").out.splitlines()] == [
        "SLUG",
        "default",
        "sales-eu",
    ]


def test_a_slug_that_is_none_or_taken_is_refused(folder: Path, statewright: Command) -> None:
    assert statewright("workspaces", "create", "Sales EU").code == 2
    statewright("workspaces", "create", "sales")
    twice = statewright("workspaces", "create", "sales")
    assert (twice.code, "There is a workspace 'sales' already." in twice.err) == (2, True)

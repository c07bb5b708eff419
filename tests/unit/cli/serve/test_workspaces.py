"""`statewright workspaces`, on a database."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.unit.cli.conftest import Command

from statewright.futures import resolve
from statewright.runs import DailySpending, Spend
from statewright.storage.sqlite import SqliteLedger


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


def test_what_workspaces_have_spent_is_shown_with_the_limits_of_the_project(folder: Path, statewright: Command) -> None:
    statewright("workspaces", "create", "sales")
    (folder / "statewright.toml").write_text(
        "[spending_limits]\ntokens_per_day = 1000\n[spending_limits.sales]\ncost_per_day = 0.5\nrequests_per_day = 9\n"
    )
    [sales] = [one for one in json.loads(statewright("workspaces", "ls", "--json").out) if one["slug"] == "sales"]
    with SqliteLedger(folder / ".statewright" / "runs.db") as ledger:
        nothing = DailySpending.of(sales["id"], datetime.now(UTC))
        resolve(ledger.write([Spend(replace(nothing, requests=3, input_tokens=40, output_tokens=2, cost=0.75))]))
    found = {one["slug"]: one for one in json.loads(statewright("workspaces", "spending", "--json").out)}
    assert (found["default"]["tokens"], found["default"]["reached"]) == (0, None)
    assert found["default"]["limits"] == {"tokens_per_day": 1000, "cost_per_day": None, "requests_per_day": None}
    assert (found["sales"]["tokens"], found["sales"]["cost"], found["sales"]["reached"]) == (42, 0.75, "cost_per_day")
    lines = statewright("workspaces", "spending").out.splitlines()
    assert lines[0].split() == ["SLUG", "DAY", "REQUESTS", "TOKENS", "COST", "LIMITS"]
    assert lines[1].split()[2:] == ["0", "0", "$0.0000", "tokens_per_day", "1000"]
    assert lines[2].split()[2:5] == ["3", "42", "$0.7500"]
    assert lines[2].endswith("cost_per_day 0.5 (used up), requests_per_day 9")

"""`statewright workspaces`, with a database."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.unit.cli.conftest import Command

from statewright.futures import resolve
from statewright.runs import DailySpending, Spend
from statewright.storage.sqlite import SqliteLedger


def test_a_workspace_is_created_with_limits_and_its_own_keys(folder: Path, statewright: Command) -> None:
    created = statewright("workspaces", "create", "sales-eu", "--name", "Sales", "--max-running", 3)
    assert (
        created.out
        == "Created workspace sales-eu. Create a key for it with: statewright keys create NAME --workspace sales-eu\n"
    )
    workspaces = {entry["slug"]: entry for entry in json.loads(statewright("workspaces", "ls", "--json").out)}
    assert (
        workspaces["sales-eu"]["max_running"],
        workspaces["sales-eu"]["name"],
        workspaces["default"]["max_running"],
    ) == (
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


def test_an_invalid_or_existing_slug_is_refused(folder: Path, statewright: Command) -> None:
    assert statewright("workspaces", "create", "Sales EU").code == 2
    statewright("workspaces", "create", "sales")
    twice = statewright("workspaces", "create", "sales")
    assert (twice.code, "Workspace 'sales' already exists." in twice.err) == (2, True)


def test_spending_is_shown_with_the_limits_of_the_project(folder: Path, statewright: Command) -> None:
    statewright("workspaces", "create", "sales")
    (folder / "statewright.toml").write_text(
        "[spending_limits]\ntokens_per_day = 1000\n[spending_limits.sales]\ncost_per_day = 0.5\nrequests_per_day = 9\n"
    )
    [sales] = [entry for entry in json.loads(statewright("workspaces", "ls", "--json").out) if entry["slug"] == "sales"]
    with SqliteLedger(folder / ".statewright" / "runs.db") as ledger:
        empty = DailySpending.of(sales["id"], datetime.now(UTC))
        resolve(ledger.write([Spend(replace(empty, requests=3, input_tokens=40, output_tokens=2, cost=0.75))]))
    spending = {entry["slug"]: entry for entry in json.loads(statewright("workspaces", "spending", "--json").out)}
    assert (spending["default"]["tokens"], spending["default"]["reached"]) == (0, None)
    assert spending["default"]["limits"] == {"tokens_per_day": 1000, "cost_per_day": None, "requests_per_day": None}
    assert (spending["sales"]["tokens"], spending["sales"]["cost"], spending["sales"]["reached"]) == (
        42,
        0.75,
        "cost_per_day",
    )
    lines = statewright("workspaces", "spending").out.splitlines()
    assert lines[0].split() == ["SLUG", "DAY", "REQUESTS", "TOKENS", "COST", "LIMITS"]
    assert lines[1].split()[2:] == ["0", "0", "$0.0000", "tokens_per_day", "1000"]
    assert lines[2].split()[2:5] == ["3", "42", "$0.7500"]
    assert lines[2].endswith("cost_per_day 0.5 (reached), requests_per_day 9")

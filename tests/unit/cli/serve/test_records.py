"""Access to the records of a database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import DatabaseOptions
from statewright.cli.serve.access import find_workspace, run_on_ledger
from statewright.clock import SystemClock
from statewright.runs import DEFAULT_WORKSPACE, InMemoryLedger
from statewright.service.access.workspaces import NewWorkspace, create_workspace, list_workspaces


def test_a_database_is_only_created_on_request(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"Database 'a\.db' does not exist"):
        run_on_ledger(list_workspaces, DatabaseOptions(database="a.db"))
    workspaces = run_on_ledger(list_workspaces, DatabaseOptions(database="a.db"), create=True)
    assert [entry.slug for entry in workspaces] == [DEFAULT_WORKSPACE]
    assert run_on_ledger(list_workspaces, DatabaseOptions(database="a.db")) == workspaces


def test_a_workspace_is_found_by_slug_or_id() -> None:
    async def main() -> None:
        ledger = InMemoryLedger()
        workspace = await create_workspace(ledger, NewWorkspace(slug="sales"), SystemClock().now())
        assert await find_workspace(ledger, "sales") == workspace
        assert await find_workspace(ledger, workspace.id) == workspace
        with pytest.raises(UsageError, match="Did you mean 'sales'"):
            await find_workspace(ledger, "sale")

    asyncio.run(main())

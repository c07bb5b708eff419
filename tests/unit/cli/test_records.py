"""Records reached in a database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from statewright.cli.failure import WrongUse
from statewright.cli.records import in_records, workspace_named
from statewright.clock import SystemClock
from statewright.runs import DEFAULT_WORKSPACE, InMemoryLedger
from statewright.service.access.workspaces import NewWorkspace, create_workspace, list_workspaces


def test_a_database_is_made_only_where_that_is_meant(folder: Path) -> None:
    with pytest.raises(WrongUse, match="There is no database"):
        in_records(list_workspaces, "a.db", None)
    made = in_records(list_workspaces, "a.db", None, make=True)
    assert [one.slug for one in made] == [DEFAULT_WORKSPACE]
    assert in_records(list_workspaces, "a.db", None) == made


def test_a_workspace_is_found_by_its_slug_and_by_its_id() -> None:
    async def main() -> None:
        ledger = InMemoryLedger()
        made = await create_workspace(ledger, NewWorkspace(slug="sales"), SystemClock().now())
        assert await workspace_named(ledger, "sales") == made
        assert await workspace_named(ledger, made.id) == made
        with pytest.raises(WrongUse, match="Did you mean 'sales'"):
            await workspace_named(ledger, "sale")

    asyncio.run(main())

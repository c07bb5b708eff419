"""Short sieges of servers; `make chaos` runs longer ones."""

from __future__ import annotations

import asyncio

import pytest
from tests.durability.siege import Options, besiege
from tests.work import FULL


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def test_every_run_that_a_killed_server_accepted_ends_exactly_once(database: str) -> None:
    is_postgres = database == "postgres"
    options = Options(20 if FULL else 2, seed=7, database=database, servers=3 if is_postgres else 2, restarts=2)
    siege = asyncio.run(besiege(options))
    assert len(siege.records.accepted) >= siege.min_accepted > 0
    assert siege.stops >= 1
    assert siege.restarts >= is_postgres

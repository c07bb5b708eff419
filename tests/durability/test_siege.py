"""A short siege of two servers; `make chaos` runs a longer one."""

from __future__ import annotations

import asyncio

from tests.durability.siege import besiege
from tests.work import FULL


def test_every_run_that_a_killed_server_accepted_ends_exactly_once() -> None:
    siege = asyncio.run(besiege(kills=20 if FULL else 4, seed=7))
    assert len(siege.records.accepted) >= siege.min_accepted > 0
    assert siege.stops >= 1

"""Claims of several runs: the same runs as if each had been claimed alone, although they are claimed together."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.postgres_server import empty_database

from statewright.futures import resolve
from statewright.runs import Insert, Queue, Record, Run, RunStatus, Update, Workspace
from statewright.storage.postgres import PostgresLedger
from statewright.testing.conformance.ledger.samples import NOW, run

LATER = NOW + timedelta(minutes=1)
LIMITS: list[Record] = [
    Workspace(id="limited", slug="limited", max_running=3, created_at=NOW),
    Queue(id="limited", max_running=4),
    Queue(id="throttled", starts_per_minute=60),
]


def random_runs(source: random.Random) -> list[Run]:
    """Return due runs; in some cases without limits, so that all can be claimed together."""
    has_limits = source.random() < 0.6
    workspaces = ["w", "w", "limited"] if has_limits else ["w"]
    queues = ["default", "limited", "throttled"] if has_limits else ["default"]
    keys = [None, None, "k"] if has_limits else [None]
    threads = source.choice([3, 8, 1000])
    return [
        run(
            f"r{number:02}",
            workspace_id=source.choice(workspaces),
            thread_id=f"t{source.randrange(threads)}",
            queue=source.choice(queues),
            priority=source.choice([0, 0, 1]),
            due_at=NOW - timedelta(seconds=source.randrange(3)),
            **({"concurrency_key": key, "concurrency_limit": 2} if (key := source.choice(keys)) else {}),
        )
        for number in range(source.randrange(1, 16))
    ]


def ledger_with(number: int, records: Sequence[Record]) -> PostgresLedger:
    ledger = PostgresLedger(empty_database(number))
    ledger.write([Insert(record) for record in records])
    return ledger


def claim(ledger: PostgresLedger, count: int) -> list[str]:
    return [claimed.id for claimed in resolve(ledger.claim("worker", LATER, count))]


@pytest.mark.parametrize("seed", range(12))
def test_runs_are_claimed_as_if_one_after_another(seed: int) -> None:
    source = random.Random(seed)
    runs = random_runs(source)
    together, singly = (ledger_with(number, [*LIMITS, *runs]) for number in range(2))
    for _ in range(6):
        count = source.choice([2, 5, 50])
        if source.random() < 0.7:  # as if all had been released in vain
            for ledger in (together, singly):
                ledger.database.write(lambda session: session.execute("UPDATE workflow_runs SET held_by = NULL"))
        claimed = claim(together, count)
        expected = [name for _ in range(count) for name in claim(singly, 1)]
        assert claimed == expected
        ended = source.sample(claimed, len(claimed) // 2 if len(claimed) > 1 else len(claimed))
        for ledger in (together, singly):
            values = {"status": RunStatus.COMPLETED, "claim": None, "worker_id": None, "completed_at": LATER}
            ledger.write([Update(Run, name, values) for name in ended])

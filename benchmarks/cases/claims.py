"""Claims of runs on Postgres, in batches of ten, in front of and behind many due runs.

The database has 200 000 due runs: of the workspace that is claimed from, of a workspace whose limit of concurrent runs
is reached, or on threads that have a running run. In the last two, the claimed runs are due after all of these, and all
have the same queue, graph and priority, so that a claim has to pass the others. Only the claims are timed, not the
writing of the runs before and their end after a pass.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from benchmarks.figure import Figure, Rival, Take
from benchmarks.own_postgres import own_database
from benchmarks.requirement import AtMost, Within
from benchmarks.timing import MICROSECONDS

CLAIMS = 500
"""Runs that a pass claims."""
BATCH = 10
DUE = 200_000
RUNNING = 100
"""Running runs, on whose threads others wait."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_LIMIT = AtMost(1_000_000 / 1500)
_FLAT = Within(1.25)
_names = (f"run-{number:09}" for number in itertools.count())


class _Queue:
    """A ledger in a database of its own."""

    def __init__(self) -> None:
        from statewright.storage.postgres import PostgresLedger

        self.database = own_database()
        self.schema = "claims"
        self.ledger: Any = PostgresLedger(self.database.open(self.schema, trusts_clocks=True))

    def add(self, count: int, *, at: datetime = NOW, workspace: str = "w", **values: Any) -> list[str]:
        """Write due runs, and return their ids."""
        from statewright.runs import Insert, Run

        ids = list(itertools.islice(_names, count))
        runs = [
            Run(
                id=name, workspace_id=workspace, graph="g", thread_id=name, due_at=at, created_at=at, updated_at=at,
                **values,
            )
            for name in ids
        ]  # fmt: skip
        self.ledger.write([Insert(run) for run in runs])
        return ids

    def claim(self, count: int, *, at: datetime = NOW) -> list[str]:
        """Claim runs, and return their ids."""
        ids: list[str] = []
        for _ in range(0, count, BATCH):
            ids += [run.id for run in self.ledger.claim("worker", at, BATCH)]
        return ids

    def complete(self, ids: list[str]) -> None:
        """End claimed runs, as their worker does."""
        from statewright.runs import Run, RunStatus, Update

        values = {"status": RunStatus.COMPLETED, "claim": None, "worker_id": None, "completed_at": NOW}
        self.ledger.write([Update(Run, name, values) for name in ids])

    def copy(self, run_id: str, **changes: str) -> None:
        from benchmarks.scale.copied_runs import copy_run

        copy_run(self.database, self.schema, run_id, DUE - 1, changes=changes)


# -- what is due beside the runs that a pass claims


def nothing(queue: _Queue) -> None:
    """Leave the database empty."""


def other_due_runs(queue: _Queue) -> None:
    """Add runs that can be claimed, too, a millisecond apart, all later than those that a pass adds."""
    (first,) = queue.add(1, at=NOW + timedelta(milliseconds=1))
    queue.copy(first, due_at="original.due_at + copy * 1000")


def full_workspace(queue: _Queue) -> None:
    """Add due runs of a workspace that has as many claimed runs as it may have."""
    from statewright.runs import Insert, Workspace

    queue.ledger.write([Insert(Workspace(id="full", slug="full", max_running=1, created_at=NOW))])
    before = NOW - timedelta(hours=1)
    _, first = queue.add(2, at=before, workspace="full")
    queue.claim(1)
    queue.copy(first, due_at="original.due_at + copy * 1000")


def busy_threads(queue: _Queue) -> None:
    """Add due runs on threads that have a running run."""
    from statewright.runs import RunStatus

    before = NOW - timedelta(hours=1)
    running = queue.add(RUNNING, at=before, status=RunStatus.RUNNING, begun=True)
    assert sorted(queue.claim(RUNNING)) == running
    (first,) = queue.add(1, at=before)
    queue.copy(
        first,
        due_at="original.due_at + copy * 1000",
        thread_id=f"'run-' || lpad(((copy %% {RUNNING}) + {int(running[0][4:])})::TEXT, 9, '0')",
    )
    queue.complete(queue.claim(BATCH))  # the original, which has a thread of its own


def claims(prepare: Callable[[_Queue], None]) -> Take:
    """Return a pass that claims runs which have just become due, in microseconds a run."""

    @cache
    def prepared() -> _Queue:
        queue = _Queue()
        prepare(queue)
        return queue

    def take() -> float:
        queue = prepared()
        expected = queue.add(CLAIMS)
        started_at = time.perf_counter()
        claimed = queue.claim(CLAIMS, at=NOW + timedelta(hours=1))
        duration = time.perf_counter() - started_at
        assert claimed == expected, (len(claimed), claimed[:3], expected[:3])
        queue.complete(claimed)
        return duration * MICROSECONDS / CLAIMS

    return take


_ALONE = Rival(name="no others", take=claims(nothing), requirement=_FLAT)
FIGURES = tuple(
    Figure(
        name=f"claiming a run, {DUE // 1000} 000 {others}",
        unit="us",
        ours=claims(prepare),
        rivals=(_ALONE,),
        limit=_LIMIT,
        is_long=True,
    )
    for others, prepare in (
        ("others due", other_due_runs),
        ("others due of a full workspace", full_workspace),
        ("others due on busy threads", busy_threads),
    )
)

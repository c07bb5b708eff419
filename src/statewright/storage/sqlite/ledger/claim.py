"""Claiming of runs by workers: the due runs that the limits of threads, queues, keys and workspaces permit.

A run is selected and claimed in one transaction, so no two workers get the same one.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from typing import Any, Final

from statewright.ids import draw_run_id
from statewright.runs import Run
from statewright.storage.sqlite.ledger.tables import Tables
from statewright.storage.sqlite.statements import statements

_SQL: Final = statements("ledger_claim")
_AHEAD_ON_THREAD: Final = _SQL["ahead_on_thread"]
_AHEAD_IN_QUEUE: Final = _SQL["ahead_in_queue"]
_LIMITS: Final = _SQL["limits"]
_AT_WORK: Final = _SQL["at_work"]
_AT_WORK_WITH_KEY: Final = _SQL["at_work_with_key"]
_BEFORE_ALL: Final = (-(2**63), "")
"""A time and an id that precede those of any run."""


def claim_runs(connection: sqlite3.Connection, tables: Tables, worker_id: str, now: int, limit: int) -> list[Run]:
    """Claim runs for a worker, those first that have been due longest."""
    table = tables[Run]
    sql = f"{_SQL['take']} {table.returning}"
    return [
        table.record(connection.execute(sql, (draw_run_id(), worker_id, number)).fetchone())
        for number in _choose(connection, now, limit)
    ]


def _choose(connection: sqlite3.Connection, now: int, limit: int) -> list[int]:
    """Return the numbers of the runs to claim.

    Due runs are read in pages, each twice as long as the one before and without those of workspaces at their limit,
    because very many due runs may be blocked by a limit.
    """
    chosen: list[int] = []
    position, length, room = _BEFORE_ALL, limit + 1, _Room(connection)
    while len(chosen) < limit:
        rows = connection.execute(_SQL["due"], (now, *position, json.dumps(room.full), length)).fetchall()
        for due_at, run_id, number, is_pending, workspace, thread, queue, key, key_limit in rows:
            position = due_at, run_id
            if len(chosen) == limit or not room.has(workspace, key, key_limit):
                continue
            if _is_next(connection, (is_pending, number), workspace, thread, queue):
                room.take(workspace, key)
                chosen.append(number)
        if len(rows) < length:
            break
        length *= 2
    return chosen


def _is_next(
    connection: sqlite3.Connection, rank: tuple[int, int], workspace_id: str, thread_id: str, queue: str | None
) -> bool:
    """Return whether no other run holds the thread or queue of a run, or precedes it there."""
    if connection.execute(_AHEAD_ON_THREAD, (workspace_id, thread_id, *rank)).fetchone() is not None:
        return False
    return queue is None or connection.execute(_AHEAD_IN_QUEUE, (workspace_id, queue, *rank)).fetchone() is None


class _Room:
    """The number of runs that may still be claimed, by workspace and by concurrency key."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._limits: dict[str, int] | None = None
        self._at_work: dict[Any, int] = {}
        self._chosen: Counter[Any] = Counter()
        self.full: list[str] = []
        """Workspaces that have reached their limits."""

    def has(self, workspace: str, key: str | None, key_limit: int | None) -> bool:
        """Return whether a run with a concurrency key may be claimed."""
        if self._limits is None:
            self._limits = dict(self._connection.execute(_LIMITS).fetchall())
        limit = self._limits.get(workspace)
        if limit is not None and self._count(workspace) >= limit:
            if workspace not in self.full:
                self.full.append(workspace)
            return False
        return key is None or key_limit is None or self._count(workspace, key) < key_limit

    def take(self, workspace: str, key: str | None) -> None:
        self._chosen.update([(workspace,), (workspace, key)])

    def _count(self, *group: str) -> int:
        """Return the number of claimed runs of a workspace, or of a workspace and a key."""
        count = self._at_work.get(group)
        if count is None:
            sql = _AT_WORK if len(group) == 1 else _AT_WORK_WITH_KEY
            count = self._at_work[group] = self._connection.execute(sql, group).fetchone()[0]
        return count + self._chosen[group]

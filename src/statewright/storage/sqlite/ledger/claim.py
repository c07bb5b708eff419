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


def claim_runs(connection: sqlite3.Connection, tables: Tables, worker_id: str, now: int, limit: int) -> list[Run]:
    """Take runs for a worker, those first that have been due longest."""
    table = tables[Run]
    take = f"{_SQL['take']} {table.returning}"
    return [
        table.record(connection.execute(take, (draw_run_id(), worker_id, number)).fetchone())
        for number in _chosen(connection, now, limit)
    ]


def _chosen(connection: sqlite3.Connection, now: int, limit: int) -> list[int]:
    """Return the numbers of the runs to claim. Due runs above a limit are skipped quickly, for there may be many."""
    chosen: list[int] = []
    place, length, room = _BEFORE_ALL, limit + 1, _Room(connection)
    while len(chosen) < limit:
        rows = connection.execute(_SQL["due"], (now, *place, json.dumps(room.full), length)).fetchall()
        for due_at, identity, number, is_pending, workspace, thread, queue, key, most in rows:
            place = due_at, identity
            if len(chosen) == limit or not room.has(workspace, key, most):
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
    """How many more runs may be at work, by workspace and by key."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._limits: dict[str, int] | None = None
        self._at_work: dict[Any, int] = {}
        self._chosen: Counter[Any] = Counter()
        self.full: list[str] = []
        """Workspaces that were found to have no room."""

    def has(self, workspace: str, key: str | None, most: int | None) -> bool:
        """Return whether a run may begin; `most` is the limit of its concurrency key."""
        if self._limits is None:
            self._limits = dict(self._connection.execute(_LIMITS).fetchall())
        limit = self._limits.get(workspace)
        if limit is not None and self._count(workspace) >= limit:
            if workspace not in self.full:
                self.full.append(workspace)
            return False
        return key is None or most is None or self._count(workspace, key) < most

    def take(self, workspace: str, key: str | None) -> None:
        self._chosen.update([(workspace,), (workspace, key)])

    def _count(self, *counted: str) -> int:
        found = self._at_work.get(counted)
        if found is None:
            sql = _AT_WORK if len(counted) == 1 else _AT_WORK_WITH_KEY
            found = self._at_work[counted] = self._connection.execute(sql, counted).fetchone()[0]
        return found + self._chosen[counted]

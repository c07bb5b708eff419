"""Which runs a worker takes: those that are due, as far as threads, keys and workspaces have room for them.

One transaction looks and takes, so of several workers each gets others.
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
    """The numbers of the runs to be taken. Many may be due for which there is no room: those are gone past quickly."""
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
    """Whether no other run has the thread of a run, or stands before it in the lines for its thread and its queue."""
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
        """Whether a run may begin; `most` is how many with its key may be at work."""
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

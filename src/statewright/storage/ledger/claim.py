"""Claiming of runs by workers: the due runs that the limits of threads, queues, keys and workspaces permit.

A run is selected and claimed in one transaction, and transactions that claim exclude each other, so that no two workers
get the same run, or exceed a limit together. A run that another transaction changes meanwhile is not claimed.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

from statewright.ids import draw_run_id
from statewright.runs import Run
from statewright.storage.database import Connection
from statewright.storage.ledger.tables import Tables

_BEFORE_ALL: Final = (-(2**63), "")
"""A time and an id that precede those of any run."""


def claim_runs(connection: Connection, tables: Tables, worker_id: str, now: int, limit: int) -> list[Run]:
    """Claim runs for a worker, those first that have been due longest."""
    connection.lock("claims")
    table = tables[Run]
    sql = f"{tables.sql['take']} {table.returning}"
    rows = [
        connection.execute(sql, (draw_run_id(), worker_id, number)).fetchone()
        for number in _Choice(connection, tables).numbers(now, limit)
    ]
    return [table.record(row) for row in rows if row is not None]


class _Choice:
    """The choice of runs to claim, and the number of runs that may still be claimed by workspace and key."""

    def __init__(self, connection: Connection, tables: Tables) -> None:
        self._connection = connection
        self._sql = tables.sql
        self._limits: dict[str, int] | None = None
        self._at_work: dict[Any, int] = {}
        self._chosen: Counter[Any] = Counter()
        self._full: list[str] = []
        """Workspaces that have reached their limits."""

    def numbers(self, now: int, limit: int) -> list[int]:
        """Return the numbers of the runs to claim.

        Due runs are read in pages, each twice as long as the one before and without those of workspaces at their limit,
        because very many due runs may be blocked by a limit.
        """
        chosen: list[int] = []
        position, length = _BEFORE_ALL, limit + 1
        while len(chosen) < limit:
            parameters = (now, *position, json.dumps(self._full), length)
            rows = self._connection.execute(self._sql["due"], parameters).fetchall()
            for due_at, run_id, number, is_pending, workspace, thread, queue, key, key_limit in rows:
                position = due_at, run_id
                if len(chosen) == limit or not self._has_room(workspace, key, key_limit):
                    continue
                if self._is_next((is_pending, number), workspace, thread, queue):
                    self._chosen.update([(workspace,), (workspace, key)])
                    chosen.append(number)
            if len(rows) < length:
                break
            length *= 2
        return chosen

    def _is_next(self, rank: tuple[int, int], workspace_id: str, thread_id: str, queue: str | None) -> bool:
        """Return whether no other run holds the thread or queue of a run, or precedes it there."""
        return not self._has_row("ahead_on_thread", (workspace_id, thread_id, *rank)) and (
            queue is None or not self._has_row("ahead_in_queue", (workspace_id, queue, *rank))
        )

    def _has_row(self, statement: str, parameters: tuple[Any, ...]) -> bool:
        return self._connection.execute(self._sql[statement], parameters).fetchone() is not None

    def _has_room(self, workspace: str, key: str | None, key_limit: int | None) -> bool:
        """Return whether the limits of a workspace and of a concurrency key permit one more run."""
        if self._limits is None:
            self._limits = dict(self._connection.execute(self._sql["limits"]).fetchall())
        limit = self._limits.get(workspace)
        if limit is not None and self._count(workspace) >= limit:
            if workspace not in self._full:
                self._full.append(workspace)
            return False
        return key is None or key_limit is None or self._count(workspace, key) < key_limit

    def _count(self, *group: str) -> int:
        """Return the number of claimed runs of a workspace, or of a workspace and a key."""
        count = self._at_work.get(group)
        if count is None:
            sql = self._sql["at_work" if len(group) == 1 else "at_work_with_key"]
            count = self._at_work[group] = self._connection.execute(sql, group).fetchone()[0]
        return count + self._chosen[group]

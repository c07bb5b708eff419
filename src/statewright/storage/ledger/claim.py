"""Claiming of runs by workers: the due runs that the limits of threads, queues, keys and workspaces permit.

A run is selected and claimed in one transaction, and transactions that claim exclude each other, so that no two workers
get the same run, or exceed a limit together.

*The problem.* Thousands of due runs may have to wait: for another run of their thread, or because their workspace is
full. A claim that reads the due runs in their order would read all of these, again and again.

*The approach.* A claim holds back each run that it finds and that may not be next: it sets `held_by` to the reason, and
the run leaves the index of due runs. Triggers of the database release it when the run before it ends, or when a claimed
run of its workspace or key does, so that no statement can forget that. A run that was released in vain is held back by
the next claim that finds it.

A limit can also be raised, and a run for which a place has become free may be one that no worker serves. So a claim
that finds too few due runs looks at the workspaces and keys that have held runs, and releases as many as have a place.

Due runs are in groups, by queue, version of the graph, priority, and whether they have begun, because a worker serves
some queues and versions, and a queue without tokens permits no other starts. There are few groups, and each is found
with one search of the index. So the runs that a worker may not claim cost nothing either.

*Rejected.* A query for each workspace, which is slow with many; a table of the groups with counters, which every commit
of a run would have to lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

from statewright.clock import instant_of, microseconds
from statewright.ids import new_run_id
from statewright.runs import NextDue, Queue, Run
from statewright.storage.database import Connection
from statewright.storage.ledger.tables import Tables

WORKSPACE_LIMIT: Final = "limit of workspace"
"""Holds runs whose workspace is full."""
KEY_LIMIT: Final = "limit of key"
"""Holds runs whose concurrency key has reached its limit."""


class Claimant(NamedTuple):
    """A worker, and what it claims."""

    worker_id: str
    queues: Sequence[str] | None = None
    """The queues that it serves; None for all."""
    excluded_versions: Sequence[str] = ()
    """Versions of graphs whose runs it leaves to other workers."""

    def serves(self, queue: str, version: str) -> bool:
        """Return whether the worker claims runs of a queue and a version of a graph."""
        return (self.queues is None or queue in self.queues) and version not in self.excluded_versions


class _Group(NamedTuple):
    """Due runs that have these values in common."""

    queue: str
    version: str
    priority: int
    begun: int


_BEFORE_ALL: Final = _Group("", "", -(2**63), 0)
"""A group that precedes all others."""


class _DueRun(NamedTuple):
    """A due run."""

    group: _Group
    priority: int
    due_at: int
    id: str
    number: int
    is_pending: bool
    workspace: str
    thread: str
    sequence: str | None
    key: str | None
    key_limit: int | None


def claim_runs(connection: Connection, tables: Tables, claimant: Claimant, now: datetime, limit: int) -> list[Run]:
    """Claim runs for a worker, in the order of their priorities and due times."""
    return _Claim(connection, tables, claimant, now).claim(limit)


def next_due(connection: Connection, tables: Tables, claimant: Claimant) -> NextDue:
    """Return when the next run is due for a worker."""
    times = [
        connection.execute(tables.sql["first_due"], group).fetchone()[0]
        for group in _iter_groups(connection, tables, claimant)
    ]
    (has_held,) = connection.execute(tables.sql["has_held"], ()).fetchone()
    return NextDue(instant_of(min(times)) if times else None, has_blocked=bool(has_held))


def _iter_groups(connection: Connection, tables: Tables, claimant: Claimant) -> Iterator[_Group]:
    """Yield the groups of due runs that a worker serves."""
    group = _BEFORE_ALL
    while (row := connection.execute(tables.sql["next_due_group"], group).fetchone()) is not None:
        group = _Group(*row)
        if claimant.serves(group.queue, group.version):
            yield group


class _Claim:
    """One claim of runs. Each chosen run is claimed at once, so that it counts for the limits of the next ones."""

    def __init__(self, connection: Connection, tables: Tables, claimant: Claimant, now: datetime) -> None:
        self._connection = connection
        self._tables = tables
        self._sql = tables.sql
        self._claimant = claimant
        self._now = now
        self._limits: dict[str, int] | None = None
        self._queues: dict[str, Queue] | None = None
        self._full: set[str] = set()
        """Queues that have reached their limit of claimed runs."""
        self._spent: set[str] = set()
        """Queues that have no token for another start."""

    def claim(self, limit: int) -> list[Run]:
        """Claim runs, and hold back the due runs that are found and have to wait."""
        claimed: list[Run] = []
        groups = list(_iter_groups(self._connection, self._tables, self._claimant)) if limit > 0 else []
        while len(claimed) < limit:
            missing = limit - len(claimed)
            runs = self._due(groups, missing)
            if not runs:
                if not self._release_from_limits(missing):
                    break
                groups = list(_iter_groups(self._connection, self._tables, self._claimant))
            for run in runs:
                reason = self._reason_to_wait(run)
                if reason is not None:
                    self._connection.execute(self._sql["hold"], (reason, run.number))
                elif self._take_from_queue(run):
                    claimed.append(self._take(run))
        return claimed

    def _due(self, groups: Sequence[_Group], count: int) -> list[_DueRun]:
        """Return the next due runs of all groups whose queues permit another run."""
        at = microseconds(self._now)
        runs = [
            _DueRun(group, group.priority, *row)
            for group in groups
            if group.queue not in self._full and (group.begun or group.queue not in self._spent)
            for row in self._connection.execute(self._sql["due"], (*group, at, count))
        ]
        return sorted(runs, key=attrgetter("priority", "due_at", "id"))[:count]

    def _release_from_limits(self, count: int) -> bool:
        """Release the first runs of each workspace and key that has a place again. Return whether there are any."""
        workspace, numbers = "", list[int]()
        while (row := self._connection.execute(self._sql["next_held_workspace"], (workspace,)).fetchone()) is not None:
            (workspace,) = row
            limit = self._workspace_limits().get(workspace)
            free = count if limit is None else limit - self._count("claimed_in_workspace", workspace)
            if free > 0:
                numbers += self._served("held_in_workspace", (workspace,), min(free, count))
        key = ("", "")
        while (row := self._connection.execute(self._sql["next_held_key"], key).fetchone()) is not None:
            key = row
            numbers += self._served("held_with_key", (*key, self._count("claimed_with_key", *key)), count)
        for number in numbers:
            self._connection.execute(self._sql["hold"], (None, number))
        return bool(numbers)

    def _served(self, statement: str, parameters: Sequence[Any], count: int) -> list[int]:
        """Return the numbers of the first held runs that the worker serves."""
        rows = self._connection.execute(self._sql[statement], parameters)
        served = (number for number, queue, version in rows if self._claimant.serves(queue, version))
        return list(islice(served, count))

    def _take(self, run: _DueRun) -> Run:
        table = self._tables[Run]
        sql = f"{self._sql['take']} {table.returning}"
        parameters = (new_run_id(), self._claimant.worker_id, run.number)
        return table.record(self._connection.execute(sql, parameters).fetchone())

    def _reason_to_wait(self, run: _DueRun) -> str | None:
        """Return the run that precedes a run, or the limit that it has reached; None if it may be claimed."""
        ahead = self._run_ahead("on_thread", run.thread, run)
        if ahead is None and run.sequence is not None:
            ahead = self._run_ahead("in_sequence", run.sequence, run)
        if ahead is not None:
            return ahead
        limit = self._workspace_limits().get(run.workspace)
        if limit is not None and self._count("claimed_in_workspace", run.workspace) >= limit:
            return WORKSPACE_LIMIT
        if run.key is None or run.key_limit is None:
            return None
        return KEY_LIMIT if self._count("claimed_with_key", run.workspace, run.key) >= run.key_limit else None

    def _run_ahead(self, where: str, name: str, run: _DueRun) -> str | None:
        """Return a run that precedes a run on its thread or in its sequence: the last one, if several are pending.

        If all waited for the first one, its end would release all, and the next claim would examine all again.
        """
        if run.is_pending:
            parameters = (run.workspace, name, run.number)
            row = self._connection.execute(self._sql[f"pending_{where}"], parameters).fetchone()
            if row is not None:
                return row[0]
        row = self._connection.execute(self._sql[f"begun_{where}"], (run.workspace, name)).fetchone()
        return row[0] if row is not None and row[1] != run.number else None

    def _count(self, statement: str, *parameters: str) -> int:
        return self._connection.execute(self._sql[statement], parameters).fetchone()[0]

    def _take_from_queue(self, run: _DueRun) -> bool:
        """Take a token of the queue of a run if it needs one. Return whether the limits of the queue permit it."""
        name = run.group.queue
        queue = self._limited_queues().get(name)
        if queue is None:
            return True
        if queue.max_running is not None and self._count("claimed_in_queue", name) >= queue.max_running:
            self._full.add(name)
            return False
        if queue.starts_per_minute is None or run.group.begun:
            return True
        if queue.tokens_at(self._now) < 1:
            self._spent.add(name)
            return False
        after = self._limited_queues()[name] = queue.after_start(self._now)
        filled_at = microseconds(after.filled_at) if after.filled_at is not None else None
        self._connection.execute(self._sql["set_tokens"], (after.tokens, filled_at, name))
        return True

    def _workspace_limits(self) -> dict[str, int]:
        if self._limits is None:
            self._limits = dict(self._connection.execute(self._sql["limits"], ()).fetchall())
        return self._limits

    def _limited_queues(self) -> dict[str, Queue]:
        if self._queues is None:
            table = self._tables[Queue]
            self._queues = {row.id: row for row in map(table.record, self._connection.execute(table.select, ()))}
        return self._queues

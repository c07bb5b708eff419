"""Claiming of runs by workers: the due runs that the limits of threads, queues, keys and workspaces permit.

A run is selected and claimed in one transaction, and transactions that claim exclude each other, so that no two workers
get the same run, or exceed a limit together.

*The problem.* Thousands of due runs may have to wait: for another run of their thread, or because their workspace is
full. A claim that reads the due runs in their order would read all of these, again and again.

*The approach.* A claim holds back each run that it finds and that may not be next: it sets `held_by` to the reason, and
the run leaves the index of due runs. Triggers of the database release it when the run before it ends, or when a claimed
run of its workspace or key does, so that no statement can forget that. A run that was released in vain is held back by
the next claim that finds it.

A limit can also be raised, and the run that is released may be one that no worker can claim: none serves its queue,
or the queue has no token. So claims also consider held runs whose workspace or key is not full, as if nothing held them
back. Each claim looks at a few workspaces and keys, beginning after those of the claim before it, so that none is
passed over for ever. A claim that finds too few runs looks at many.

Due runs are in groups, by queue, version of the graph, priority, and whether they have begun, because a worker serves
some queues and versions, and a queue without tokens permits no other starts. There are few groups, and each is found
with one search of the index. So the runs that a worker may not claim cost nothing either. Held runs are in such groups
within their workspace or key.

*Rejected.* A query for each workspace, which is slow with many; a table of the groups with counters, which every commit
of a run would have to lock.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

from statewright.clock import instant_of, microseconds
from statewright.ids import new_run_id
from statewright.runs import ExcludedVersion, NextDue, Queue, Run
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
    excluded_versions: Sequence[ExcludedVersion] = ()
    """Versions of graphs whose runs it leaves to other workers."""

    def serves(self, queue: str, version: str) -> bool:
        """Return whether the worker claims runs of a queue and a version of a graph."""
        is_excluded = any(excluded.matches(queue, version) for excluded in self.excluded_versions)
        return (self.queues is None or queue in self.queues) and not is_excluded


class _Group(NamedTuple):
    """Due runs that have these values in common."""

    queue: str
    version: str
    priority: int
    begun: int


_FEW_LIMITS: Final = 10
"""The number of workspaces, and of keys, with held runs that a claim considers."""
_MANY_LIMITS: Final = 1000
"""The same if it finds too few runs."""
_BEFORE_ALL: Final = _Group("", "", -(2**63), 0)
"""A group that precedes all others."""


class HeldCursor:
    """The last workspace and the last key whose held runs were considered, for the next claim of this process."""

    def __init__(self) -> None:
        self.workspace: tuple[str, ...] = ("",)
        self.key: tuple[str, ...] = ("", "")


class _HeldGroup(NamedTuple):
    """A group of due runs that are held back by the limit of their workspace or key."""

    owner: tuple[str, ...]
    """The workspace, or the workspace and the key."""
    limit: int | None
    """The limit of the key; None if the runs are held back by that of their workspace."""
    group: _Group


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


def claim_runs(
    connection: Connection, tables: Tables, claimant: Claimant, now: datetime, limit: int, cursor: HeldCursor
) -> list[Run]:
    """Claim runs for a worker, in the order of their priorities and due times."""
    return _Claim(connection, tables, claimant, now, cursor).claim(limit)


def next_due(connection: Connection, tables: Tables, claimant: Claimant) -> NextDue:
    """Return when the next run is due for a worker."""
    times = [
        connection.execute(tables.sql["first_due"], group).fetchone()[0]
        for group in _iter_groups(connection, tables, claimant)
    ]
    (has_held,) = connection.execute(tables.sql["has_held"], ()).fetchone()
    return NextDue(instant_of(min(times)) if times else None, has_blocked=bool(has_held))


def iter_due_sizes(connection: Connection, tables: Tables, at: int) -> Iterator[tuple[str, int, int | None]]:
    """Yield the queue of each group of due runs that nothing holds back, their number, and since when they are due."""
    for group in _iter_groups(connection, tables, Claimant("")):
        yield group.queue, *connection.execute(tables.sql["size_of_due_group"], (*group, at)).fetchone()


def _iter_groups(connection: Connection, tables: Tables, claimant: Claimant) -> Iterator[_Group]:
    """Yield the groups of due runs that a worker serves."""
    group = _BEFORE_ALL
    while (row := connection.execute(tables.sql["next_due_group"], group).fetchone()) is not None:
        group = _Group(*row)
        if claimant.serves(group.queue, group.version):
            yield group


class _Claim:
    """One claim of runs. Each chosen run is claimed at once, so that it counts for the limits of the next ones."""

    def __init__(
        self, connection: Connection, tables: Tables, claimant: Claimant, now: datetime, cursor: HeldCursor
    ) -> None:
        self._connection = connection
        self._tables = tables
        self._sql = tables.sql
        self._claimant = claimant
        self._now = now
        self._cursor = cursor
        self._limits: dict[str, int] | None = None
        self._queues: dict[str, Queue] | None = None
        self._considers_all = False
        """True if there are no other held runs that could be considered, or enough have been."""
        self._full: set[str] = set()
        """Queues that have reached their limit of claimed runs."""
        self._spent: set[str] = set()
        """Queues that have no token for another start."""

    def claim(self, limit: int) -> list[Run]:
        """Claim runs, and hold back the due runs that are found and have to wait."""
        claimed: list[Run] = []
        if limit <= 0:
            return claimed
        groups = list(_iter_groups(self._connection, self._tables, self._claimant))
        held_groups = self._held_groups(_FEW_LIMITS)
        while len(claimed) < limit:
            runs = self._candidates(groups, held_groups, limit - len(claimed))
            if not runs:
                if self._considers_all:
                    break
                held_groups = self._held_groups(_MANY_LIMITS)
                self._considers_all = True
            for run in runs:
                reason = self._reason_to_wait(run)
                if reason is not None:
                    self._connection.execute(self._sql["hold"], (reason, run.number))
                elif self._take_from_queue(run):
                    claimed.append(self._take(run))
        return claimed

    def _candidates(self, groups: Sequence[_Group], held_groups: Sequence[_HeldGroup], count: int) -> Sequence[_DueRun]:
        """Return the next due runs of all groups whose queues permit another run."""
        at = microseconds(self._now)
        runs = [
            _DueRun(group, group.priority, *row)
            for group in groups
            if self._may_claim(group)
            for row in self._connection.execute(self._sql["due"], (*group, at, count))
        ]
        for owner, limit, group in held_groups:
            free = min(count, self._free(owner, limit)) if self._may_claim(group) else 0
            if free > 0:
                statement = "held_in_workspace" if limit is None else "held_with_key"
                names = owner if limit is None else (*owner, limit)
                rows = self._connection.execute(self._sql[statement], (*names, *group, at, free))
                runs += [_DueRun(group, group.priority, *row) for row in rows]
        return sorted(runs, key=attrgetter("priority", "due_at", "id"))[:count]

    def _may_claim(self, group: _Group) -> bool:
        """Return whether the limits of its queue, as far as this claim knows, permit to claim runs of a group."""
        return group.queue not in self._full and (bool(group.begun) or group.queue not in self._spent)

    def _free(self, owner: tuple[str, ...], limit: int | None) -> int:
        """Return how many more runs of a workspace, or of a key with a limit, may be claimed."""
        if limit is not None:
            return limit - self._count("claimed_with_key", *owner)
        limit = self._workspace_limits().get(owner[0])
        return sys.maxsize if limit is None else limit - self._count("claimed_in_workspace", *owner)

    def _held_groups(self, count: int) -> list[_HeldGroup]:
        """Return the groups of held runs that the worker serves, of the next workspaces and keys that are not full."""
        groups: list[_HeldGroup] = []
        workspaces = self._next_owners("next_held_workspace", self._cursor.workspace, count)
        keys = self._next_owners("next_held_key", self._cursor.key, count)
        self._considers_all = max(len(workspaces), len(keys)) < count
        for workspace in workspaces:
            self._cursor.workspace = workspace
            if self._free(workspace, None) > 0:
                rows = self._iter_rows("next_group_in_workspace", workspace, _BEFORE_ALL)
                groups += [_HeldGroup(workspace, None, _Group(*row)) for row in rows]
        for key in keys:
            self._cursor.key = key
            first = (self._count("claimed_with_key", *key) + 1, *_BEFORE_ALL)
            for limit, *row in self._iter_rows("next_group_with_key", key, first):
                groups.append(_HeldGroup(key, limit, _Group(*row)))
        return [held for held in groups if self._claimant.serves(held.group.queue, held.group.version)]

    def _next_owners(self, statement: str, after: tuple[str, ...], count: int) -> list[tuple[str, ...]]:
        """Return workspaces or keys that have held runs: those after one of them, and then from the first one on."""
        first = tuple("" for _ in after)
        rows = list(islice(self._iter_rows(statement, (), after), count))
        if after != first and len(rows) < count:
            before = (row for row in self._iter_rows(statement, (), first) if row <= after)
            rows += islice(before, count - len(rows))
        return rows

    def _iter_rows(self, statement: str, names: tuple[Any, ...], after: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement that returns the first row after another one."""
        while (row := self._connection.execute(self._sql[statement], (*names, *after)).fetchone()) is not None:
            yield row
            after = row

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

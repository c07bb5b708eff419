"""Removal of checkpoints: pruning by a policy, calls of subgraphs that are done, whole threads.

A state is rebuilt from the changes before it, so the oldest remaining checkpoint of a line gets its whole state, and so
does the first checkpoint of a line that forked from a removed one. The log of a run stays until its thread is deleted:
the events in removed records are moved to rows of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewright.checkpoint import PrunePolicy, Values
from statewright.storage.checkpoints.folding import SET
from statewright.storage.checkpoints.history import HistoryReader
from statewright.storage.database import Connection, Database


class Pruner:
    """Deletes checkpoints of threads, within a transaction."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database
        self._sql = database.statements("removal")
        self._ids = database.row_ids
        self._reader = HistoryReader(connection, database)

    def prune(self, thread: int, policy: PrunePolicy, *, dry_run: bool = False) -> int:
        """Delete checkpoints of a thread by a policy, and return their number; with `dry_run` only count them."""
        firsts = self._firsts(thread, policy)
        count = sum(first_kept - first for first, first_kept in firsts.values())
        if count and not dry_run:
            self._cut({line: first_kept for line, (_, first_kept) in firsts.items()})
        return count

    def make_whole(self, row_id: int, values: Values) -> None:
        """Store the whole state of a checkpoint, so that its parent is not needed any more."""
        self._store_state(row_id, values)
        self._connection.execute(self._sql["jump"], (row_id,))

    def _firsts(self, thread: int, policy: PrunePolicy) -> dict[int, tuple[int, int]]:
        """Return by line the number of its first checkpoint, and of the first one that is kept."""
        firsts: dict[int, tuple[int, int]] = {}
        for (line,) in self._connection.execute(self._sql["lines"], (thread,)).fetchall():
            ages = sorted(self._reader.ages(line), key=lambda age: age[2], reverse=True)
            if ages:
                count = policy.count_kept([created_at for created_at, _, _ in ages])
                firsts[line] = (self._ids.number(ages[-1][2]), self._ids.number(ages[count - 1][2]))
        return firsts

    def _cut(self, firsts: dict[int, int]) -> None:
        """Delete the checkpoints of lines before the first ones that are kept."""
        for row_id, values in [(row_id, self._reader.state_at(row_id)) for row_id in self._beginnings(firsts)]:
            self.make_whole(row_id, values)
        for line, first in firsts.items():
            keep_log(self._connection, self._database, line, first - 1)
            self._delete_before(line, first)

    def _beginnings(self, firsts: dict[int, int]) -> list[int]:
        """Return the remaining checkpoints whose parents are deleted."""
        beginnings: list[int] = []
        for line, first in firsts.items():
            bounds = self._ids.row_id(line, first), self._ids.row_id(line, self._ids.last_number)
            jumps = [row_id for (row_id,) in self._connection.execute(self._sql["jumps"], bounds)]
            for row_id in sorted({bounds[0], *jumps}):
                parent = self._reader.parent_of(row_id)
                if parent is not None and self._ids.number(parent) < firsts.get(self._ids.line(parent), 0):
                    beginnings.append(row_id)
        return beginnings

    def _store_state(self, row_id: int, values: Values) -> None:
        """Store the whole state of a checkpoint, in its record or its segment."""
        if self._connection.execute(self._sql["record"], (self._stored(values), row_id)).rowcount:
            return
        segment = self._connection.execute(
            self._sql["segment"], (row_id, self._ids.bounds(self._ids.line(row_id))[1])
        ).fetchone()
        end, first, ids, changes, controls = segment
        skipped = self._ids.number(row_id) - first
        runs, entries = self._database.decode(controls)
        later = (
            self._database.decode(changes)[skipped + 1 :]
            if changes is not None
            else [{}] * (len(entries) - skipped - 1)
        )
        growing = self._reader.growing_at(row_id)
        other_values = {name: value for name, value in values.items() if name not in growing}
        self._connection.execute(
            self._sql["update"],
            (
                self._ids.number(row_id),
                ids[skipped * 16 :],
                self._stored([other_values, *later]),
                self._stored([runs, entries[skipped:]]),
                end,
            ),
        )
        for field in growing:
            self._restart_growth(row_id, end, field, values)

    def _restart_growth(self, row_id: int, end: int, field: str, values: Values) -> None:
        """Replace the gains of a growing field in a segment up to a checkpoint by its value there."""
        key = (self._ids.line(row_id), field, self._ids.number(end))
        row = self._connection.execute(self._sql["grown"], key).fetchone()
        gains = self._database.decode(row[0]) if row is not None else ()
        later = [gain for gain in gains if gain[0] > self._ids.number(row_id)]
        growth: list[Any] = [[self._ids.number(row_id), SET, values[field]], *later] if field in values else later
        items = len(values.get(field, ())) if isinstance(values.get(field), list) else 1
        self._connection.execute(self._sql["grow"], (*key, items, self._stored(growth)))

    def _delete_before(self, line: int, first: int) -> None:
        _delete_rows(self._connection, self._ids.row_id(line, 0), self._ids.row_id(line, first) - 1)
        self._connection.execute("DELETE FROM grown WHERE line = ? AND last < ?", (line, first))

    def _stored(self, value: Any) -> bytes:
        return self._database.encryptor.encrypt(self._database.serde.encode(value, "values"), compress=True)


def drop_calls(connection: Connection, database: Database, thread: int, branch: str, namespaces: Sequence[str]) -> None:
    """Delete the calls of subgraphs that are done: namespaces of a thread, and those inside them, on one branch.

    A call belongs to one branch, like its caller. Checkpoints that forked from it are kept, with their states.
    """
    sql = database.statements("removal")
    inside = tuple(namespace + end for namespace in namespaces for end in "|:")
    lines = connection.execute(sql["calls"], (thread, branch)).fetchall()
    for line, namespace in lines:
        if namespace in namespaces or namespace.startswith(inside):
            for (row_id,) in connection.execute(sql["forks"], {"line": line}).fetchall():
                pruner = Pruner(connection, database)
                pruner.make_whole(row_id, HistoryReader(connection, database).state_at(row_id))
            keep_log(connection, database, line)
            delete_line(connection, database, line)


def keep_log(connection: Connection, database: Database, line: int, last: int | None = None) -> None:
    """Move the events of the records of a line, up to the one with the number `last`, to the logs of their runs."""
    insert = database.statements("commits")["insert_events"]
    for run, batches in HistoryReader(connection, database).log_of_line(line, last).items():
        body = database.encode(_packed([batch for _, batch in batches]), "event")
        connection.execute(insert, (database.row_ids.row_id(run, batches[0][0]), body))


def _packed(batches: list[list[Any]]) -> list[list[Any]]:
    """Return batches of a log with times relative to the first one, which takes less space."""
    first = batches[0]
    return [first, *([offset, at - first[1], *entries] for offset, at, *entries in batches[1:])]


def delete_line(connection: Connection, database: Database, line: int) -> None:
    """Delete a line with all its checkpoints."""
    _delete_rows(connection, *database.row_ids.bounds(line))
    connection.execute("DELETE FROM grown WHERE line = ?", (line,))
    connection.execute("DELETE FROM lines WHERE id = ?", (line,))


def _delete_rows(connection: Connection, first: int, last: int) -> None:
    for table in ("records", "segments", "jumps", "pending"):
        connection.execute(f"DELETE FROM {table} WHERE place BETWEEN ? AND ?", (first, last))


def delete_thread(connection: Connection, database: Database, thread: int) -> None:
    """Delete a thread with its logs."""
    for (line,) in connection.execute("SELECT id FROM lines WHERE thread = ?", (thread,)).fetchall():
        delete_line(connection, database, line)
    for (run,) in connection.execute("SELECT id FROM runs WHERE thread = ?", (thread,)).fetchall():
        connection.execute("DELETE FROM events WHERE place BETWEEN ? AND ?", database.row_ids.bounds(run))
    connection.execute("DELETE FROM runs WHERE thread = ?", (thread,))
    connection.execute("DELETE FROM threads WHERE id = ?", (thread,))

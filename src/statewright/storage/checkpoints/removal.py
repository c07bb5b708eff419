"""Removal of checkpoints: by a policy, with completed calls of subgraphs, or with a whole thread.

A state is computed from the changes of earlier checkpoints. When these are removed, the whole state of the oldest
remaining checkpoint of a line is stored, and also the state of each fork of a removed checkpoint. The event log of a
run is kept until its thread is deleted, so events that are stored in removed records are moved to rows of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewright.checkpoint import PrunePolicy, Values
from statewright.storage.checkpoints.folding import SET
from statewright.storage.checkpoints.history import HistoryReader
from statewright.storage.database import Connection, Database


class Pruner:
    """Deletes checkpoints of threads in a transaction."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self._connection = connection
        self._database = database
        self._sql = database.statements("removal")
        self._ids = database.row_ids
        self._reader = HistoryReader(connection, database)

    def prune(self, thread: int, policy: PrunePolicy, *, dry_run: bool = False) -> int:
        """Delete the checkpoints of a thread that a policy does not keep, and return their number.

        With `dry_run` they are only counted.
        """
        first_numbers = self._first_numbers(thread, policy)
        count = sum(first_kept - first for first, first_kept in first_numbers.values())
        if count and not dry_run:
            self._delete_old({line: first_kept for line, (_, first_kept) in first_numbers.items()})
        return count

    def make_whole(self, row_id: int, values: Values) -> None:
        """Store the whole state of a checkpoint, so that its ancestors are no longer needed."""
        self._store_state(row_id, values)
        self._connection.execute(self._sql["jump"], (row_id,))

    def _first_numbers(self, thread: int, policy: PrunePolicy) -> dict[int, tuple[int, int]]:
        """Return the number of the first checkpoint, and of the first checkpoint that is kept, by line."""
        first_numbers: dict[int, tuple[int, int]] = {}
        for (line,) in self._connection.execute(self._sql["lines"], (thread,)).fetchall():
            ages = sorted(self._reader.ages(line), key=lambda age: age[2], reverse=True)
            if ages:
                count = policy.count_kept([created_at for created_at, _, _ in ages])
                first_numbers[line] = (self._ids.number(ages[-1][2]), self._ids.number(ages[count - 1][2]))
        return first_numbers

    def _delete_old(self, first_kept: dict[int, int]) -> None:
        """Delete the checkpoints before the first checkpoint that is kept, whose number is given for each line."""
        for row_id, values in [(row_id, self._reader.state_at(row_id)) for row_id in self._orphans(first_kept)]:
            self.make_whole(row_id, values)
        for line, first in first_kept.items():
            keep_log(self._connection, self._database, line, first - 1)
            self._delete_before(line, first)

    def _orphans(self, first_kept: dict[int, int]) -> list[int]:
        """Return the row ids of the remaining checkpoints whose parents will be deleted."""
        orphans: list[int] = []
        for line, first in first_kept.items():
            bounds = self._ids.row_id(line, first), self._ids.row_id(line, self._ids.last_number)
            jumps = [row_id for (row_id,) in self._connection.execute(self._sql["jumps"], bounds)]
            for row_id in sorted({bounds[0], *jumps}):
                parent = self._reader.parent_of(row_id)
                if parent is not None and self._ids.number(parent) < first_kept.get(self._ids.line(parent), 0):
                    orphans.append(row_id)
        return orphans

    def _store_state(self, row_id: int, values: Values) -> None:
        """Store the whole state of a checkpoint in its record, or in its segment, which then begins with it."""
        if self._connection.execute(self._sql["record"], (self._encode(values), row_id)).rowcount:
            return
        segment = self._connection.execute(
            self._sql["segment"], (row_id, self._ids.bounds(self._ids.line(row_id))[1])
        ).fetchone()
        end, first, ids, changes, controls = segment
        skipped = self._ids.number(row_id) - first
        runs, entries = self._database.decode(controls)
        later_changes = (
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
                self._encode([other_values, *later_changes]),
                self._encode([runs, entries[skipped:]]),
                end,
            ),
        )
        for field in growing:
            self._restart_growth(row_id, end, field, values)

    def _restart_growth(self, row_id: int, end: int, field: str, values: Values) -> None:
        """Replace the gains of a growing field in a segment, up to a checkpoint, with the value at this checkpoint.

        `end` is the row id of the segment.
        """
        line = self._ids.line(row_id)
        key = (line, self._reader.name_in_grown(line, field), self._ids.number(end))
        row = self._connection.execute(self._sql["grown"], key).fetchone()
        gains = self._database.decode(row[0]) if row is not None else ()
        later_gains = [gain for gain in gains if gain[0] > self._ids.number(row_id)]
        new_gains: list[Any] = later_gains
        if field in values:
            new_gains = [[self._ids.number(row_id), SET, values[field]], *later_gains]
        item_count = len(values.get(field, ())) if isinstance(values.get(field), list) else 1
        self._connection.execute(self._sql["grow"], (*key, item_count, self._encode(new_gains)))

    def _delete_before(self, line: int, first: int) -> None:
        _delete_rows(self._connection, self._ids.row_id(line, 0), self._ids.row_id(line, first) - 1)
        self._connection.execute("DELETE FROM grown WHERE line = ? AND last < ?", (line, first))

    def _encode(self, value: Any) -> bytes:
        return self._database.encryptor.encrypt(self._database.serde.encode(value, "values"), compress=True)


def drop_calls(connection: Connection, database: Database, thread: int, branch: str, namespaces: Sequence[str]) -> None:
    """Delete the namespaces of completed subgraph calls, and the namespaces nested in them, on one branch of a thread.

    Forks of their checkpoints on other branches are kept, and their whole states are stored.
    """
    sql = database.statements("removal")
    nested_prefixes = tuple(namespace + separator for namespace in namespaces for separator in "|:")
    lines = connection.execute(sql["calls"], (thread, branch)).fetchall()
    for line, namespace in lines:
        if namespace in namespaces or namespace.startswith(nested_prefixes):
            for (row_id,) in connection.execute(sql["forks"], {"line": line}).fetchall():
                pruner = Pruner(connection, database)
                pruner.make_whole(row_id, HistoryReader(connection, database).state_at(row_id))
            keep_log(connection, database, line)
            delete_line(connection, database, line)


def keep_log(connection: Connection, database: Database, line: int, last: int | None = None) -> None:
    """Store the events in the records of a line in rows of their own, before the records are deleted.

    `last` is the number of the last of these records; None for all records.
    """
    insert = database.statements("commits")["insert_events"]
    for run, batches in HistoryReader(connection, database).log_of_line(line, last).items():
        body = database.encode(_with_relative_times([batch for _, batch in batches]), "event")
        connection.execute(insert, (database.row_ids.row_id(run, batches[0][0]), body))


def _with_relative_times(batches: list[list[Any]]) -> list[list[Any]]:
    """Return batches of a log with times relative to the first batch, which take less space."""
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
    """Delete a thread with its event logs."""
    for (line,) in connection.execute("SELECT id FROM lines WHERE thread = ?", (thread,)).fetchall():
        delete_line(connection, database, line)
    for (run,) in connection.execute("SELECT id FROM runs WHERE thread = ?", (thread,)).fetchall():
        connection.execute("DELETE FROM events WHERE place BETWEEN ? AND ?", database.row_ids.bounds(run))
    connection.execute("DELETE FROM runs WHERE thread = ?", (thread,))
    connection.execute("DELETE FROM threads WHERE id = ?", (thread,))

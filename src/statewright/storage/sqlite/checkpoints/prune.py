"""Pruning of old checkpoints.

The oldest remaining checkpoint of a line gets its whole state, since it cannot be rebuilt from its parent any more. The
same holds for the first checkpoint of a line that forked from a deleted one.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from statewright.checkpoint import PrunePolicy, Values
from statewright.serde.serde import Serde
from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.checkpoints.history import SET, HistoryReader
from statewright.storage.sqlite.checkpoints.removal import keep_log
from statewright.storage.sqlite.checkpoints.row_ids import LAST_NUMBER, line_of, number_of, row_id_of
from statewright.storage.sqlite.statements import statements

_SQL: Final = statements("prune")


class Pruner:
    """Deletes checkpoints of threads, within a transaction."""

    def __init__(self, connection: sqlite3.Connection, serde: Serde, seal: Encryptor) -> None:
        self._connection = connection
        self._serde = serde
        self._seal = seal
        self._reader = HistoryReader(connection, serde, seal)

    def prune(self, thread: int, policy: PrunePolicy, *, dry_run: bool = False) -> int:
        """Delete checkpoints of a thread by a policy, and return their number; with `dry_run` only count them."""
        firsts = self._firsts(thread, policy)
        count = sum(first_kept - first for first, first_kept in firsts.values())
        if count and not dry_run:
            self._cut({line: first_kept for line, (_, first_kept) in firsts.items()})
        return count

    def make_whole(self, row_id: int) -> None:
        """Store the whole state of a checkpoint that forked from another one, and begin its line with it."""
        self._make_whole(row_id, self._reader.state_at(row_id))
        self._connection.execute(_SQL["jump"], (row_id,))

    def _firsts(self, thread: int, policy: PrunePolicy) -> dict[int, tuple[int, int]]:
        """Return by line the number of its first checkpoint, and of the first one that is kept."""
        firsts: dict[int, tuple[int, int]] = {}
        for (line,) in self._connection.execute(_SQL["lines"], (thread,)).fetchall():
            ages = sorted(self._reader.ages(line), key=lambda age: age[2], reverse=True)
            if ages:
                count = policy.kept([created_at for created_at, _, _ in ages])
                firsts[line] = (number_of(ages[-1][2]), number_of(ages[count - 1][2]))
        return firsts

    def _cut(self, firsts: dict[int, int]) -> None:
        """Delete the checkpoints of lines before the first ones that are kept."""
        beginnings = [(row_id, self._reader.state_at(row_id)) for row_id in self._beginnings(firsts)]
        for row_id, values in beginnings:
            self._make_whole(row_id, values)
            self._connection.execute(_SQL["jump"], (row_id,))
        for line, first in firsts.items():
            keep_log(self._connection, self._serde, self._seal, line, first - 1)
            self._delete_before(line, first)

    def _beginnings(self, firsts: dict[int, int]) -> list[int]:
        """Return the remaining checkpoints whose parents are deleted."""
        beginnings: list[int] = []
        for line, first in firsts.items():
            bounds = row_id_of(line, first), row_id_of(line, LAST_NUMBER)
            jumps = [row_id for (row_id,) in self._connection.execute(_SQL["jumps"], bounds)]
            for row_id in sorted({bounds[0], *jumps}):
                parent = self._reader.parent_of(row_id)
                if parent is not None and number_of(parent) < firsts.get(line_of(parent), 0):
                    beginnings.append(row_id)
        return beginnings

    def _make_whole(self, row_id: int, values: Values) -> None:
        """Store the whole state of a checkpoint, in its record or its segment."""
        if self._connection.execute(_SQL["record"], (self._stored(values), row_id)).rowcount:
            return
        segment = self._connection.execute(_SQL["segment"], (row_id, row_id_of(line_of(row_id) + 1, 0) - 1)).fetchone()
        end, first, ids, changes, controls = segment
        skipped = number_of(row_id) - first
        runs, entries = self._value(controls)
        later = self._value(changes)[skipped + 1 :] if changes is not None else [{}] * (len(entries) - skipped - 1)
        growing = self._reader.growing_at(row_id)
        other_values = {name: value for name, value in values.items() if name not in growing}
        self._connection.execute(
            _SQL["update"],
            (
                number_of(row_id),
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
        key = (line_of(row_id), field, number_of(end))
        row = self._connection.execute(_SQL["grown"], key).fetchone()
        later = [gain for gain in (self._value(row[0]) if row is not None else ()) if gain[0] > number_of(row_id)]
        growth: list[Any] = [[number_of(row_id), SET, values[field]], *later] if field in values else later
        items = len(values.get(field, ())) if isinstance(values.get(field), list) else 1
        self._connection.execute(_SQL["grow"], (*key, items, self._stored(growth)))

    def _delete_before(self, line: int, first: int) -> None:
        bounds = row_id_of(line, 0), row_id_of(line, first) - 1
        for table in ("records", "segments", "jumps", "pending"):
            self._connection.execute(f"DELETE FROM {table} WHERE place BETWEEN ? AND ?", bounds)
        self._connection.execute("DELETE FROM grown WHERE line = ? AND last < ?", (line, first))

    def _stored(self, value: Any) -> bytes:
        return self._seal.encrypt(self._serde.encode(value, "values"), compress=True)

    def _value(self, stored: bytes) -> Any:
        return self._serde.decode(self._seal.decrypt(stored))

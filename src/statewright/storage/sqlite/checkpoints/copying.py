"""Copies of threads: all rows of a thread, under new numbers."""

from __future__ import annotations

import sqlite3
from typing import Final

from statewright.storage.sqlite.checkpoints.row_ids import LAST_NUMBER, line_of, row_id_of
from statewright.storage.sqlite.statements import statements

_SQL: Final = statements("saver")


def copy_thread(connection: sqlite3.Connection, source: int, to: str) -> None:
    """Copy a thread, within a transaction; `to` is the id of the new thread."""
    target = connection.execute(_SQL["copy_thread"], (to, source)).lastrowid or 0
    for run, name in connection.execute(_SQL["named_runs"], (source,)).fetchall():
        copied = connection.execute("INSERT INTO runs (thread, name) VALUES (?, ?)", (target, name)).lastrowid or 0
        shift = row_id_of(copied, 0) - row_id_of(run, 0)
        connection.execute(_SQL["copy_events"], (shift, *_bounds(run)))
    shifts: dict[int, int] = {}
    for line, namespace, branch in connection.execute(_SQL["copied_lines"], (source,)).fetchall():
        values = (target, namespace, branch)
        copied = connection.execute("INSERT INTO lines (thread, namespace, branch) VALUES (?, ?, ?)", values).lastrowid
        shifts[line] = row_id_of(copied or 0, 0) - row_id_of(line, 0)
    for line, shift in shifts.items():
        _copy_line(connection, line, shift, target)
        for row_id, parent in connection.execute(_SQL["jumps"], _bounds(line)).fetchall():
            moved = parent + shifts[line_of(parent)] if parent is not None else None
            connection.execute("INSERT INTO jumps (place, parent) VALUES (?, ?)", (row_id + shift, moved))


def _copy_line(connection: sqlite3.Connection, line: int, shift: int, target: int) -> None:
    connection.execute(_SQL["copy_records"], (shift, target, *_bounds(line)))
    connection.execute(_SQL["copy_segments"], (shift, *_bounds(line)))
    connection.execute(_SQL["copy_pending"], (shift, *_bounds(line)))
    connection.execute(_SQL["copy_grown"], (line_of(row_id_of(line, 0) + shift), line))


def _bounds(line: int) -> tuple[int, int]:
    return row_id_of(line, 0), row_id_of(line, LAST_NUMBER)

"""Deletion of lines and threads. The log of a run stays, though its checkpoints are deleted."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from statewright.serde.serde import Serde
from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.checkpoints.history import HistoryReader
from statewright.storage.sqlite.checkpoints.row_ids import LAST_NUMBER, row_id_of
from statewright.storage.sqlite.statements import statements

_SQL: Final = statements("removal")


def keep_log(connection: sqlite3.Connection, serde: Serde, seal: Encryptor, line: int, last: int = LAST_NUMBER) -> None:
    """Move the events of the records of a line, up to the one with the number `last`, to the logs of their runs."""
    reader = HistoryReader(connection, serde, seal)
    for run, batches in reader.log_of_line(line, last).items():
        body = seal.encrypt(serde.encode(_packed([batch for _, batch in batches]), "event"))
        connection.execute(_SQL["insert_events"], (row_id_of(run, batches[0][0]), body))


def _packed(batches: list[list[Any]]) -> list[list[Any]]:
    """Return batches of a log with times relative to the first one, which takes less space."""
    first = batches[0]
    return [first, *([offset, at - first[1], *entries] for offset, at, *entries in batches[1:])]


def delete_line(connection: sqlite3.Connection, line: int) -> None:
    """Delete a line with all its checkpoints."""
    bounds = row_id_of(line, 0), row_id_of(line, LAST_NUMBER)
    for table in ("records", "segments", "jumps", "pending"):
        connection.execute(f"DELETE FROM {table} WHERE place BETWEEN ? AND ?", bounds)
    connection.execute("DELETE FROM grown WHERE line = ?", (line,))
    connection.execute("DELETE FROM lines WHERE id = ?", (line,))


def delete_thread(connection: sqlite3.Connection, thread: int) -> None:
    """Delete a thread with its logs."""
    for (line,) in connection.execute("SELECT id FROM lines WHERE thread = ?", (thread,)).fetchall():
        delete_line(connection, line)
    for (run,) in connection.execute("SELECT id FROM runs WHERE thread = ?", (thread,)).fetchall():
        bounds = row_id_of(run, 0), row_id_of(run, LAST_NUMBER)
        connection.execute("DELETE FROM events WHERE place BETWEEN ? AND ?", bounds)
    connection.execute("DELETE FROM runs WHERE thread = ?", (thread,))
    connection.execute("DELETE FROM threads WHERE id = ?", (thread,))

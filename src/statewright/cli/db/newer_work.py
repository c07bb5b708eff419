"""Detection of work in a database that its backup lacks, and that restoring the backup would lose.

Ledger records, thread leases, store items and checkpoint ids have times. If any is later than all times in the backup,
there is newer work. But some work has only old times or none: a copied or imported thread keeps its original times, and
a paused schedule or the results of an unfinished superstep have none. This work is detected by rows that the backup
lacks. No encryption key is needed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

from statewright.cli.console.table import format_instant
from statewright.cli.db.files import connect_to_read
from statewright.clock import instant_of
from statewright.ids import creation_time_of
from statewright.runs import RECORDS, Worker, columns_of

FUTURE: Final = frozenset({"deadline_at", "due_at", "expires_at", "last_at", "next_at", "until", "wait_until"})
"""Columns with instants that may be in the future, which do not show when a row was written."""
_COMPARED: Final = tuple(kind for kind in RECORDS if kind is not Worker)
"""The records to compare; not those of workers, because a worker deletes its record when it stops."""


def find_newer_work(path: Path, backup: Path) -> str | None:
    """Describe the work that the backup lacks, as the object of "contains"; None if there is none.

    The database may have an older format, and is not modified. The backup must have the current format.
    """
    with closing(connect_to_read(path)) as connection:
        connection.execute("ATTACH ? AS backup", (backup.resolve().as_uri(),))
        changed_at, backed_up_at = _changed_at(connection, "main"), _changed_at(connection, "backup")
        if changed_at is not None and (backed_up_at is None or changed_at > backed_up_at):
            end = f"ends at {format_instant(backed_up_at)}" if backed_up_at is not None else "is empty"
            return f"work of {format_instant(changed_at)} that is not in the backup, which {end}"
        thread = _missing_thread(connection)
        if thread is not None:
            return f"a thread {thread!r} that is not in the backup"
        # If the backup ends later, rows that it lacks were deleted after this copy of the database.
        table = next(_incomplete_tables(connection), None) if changed_at == backed_up_at else None
        return f"rows of table {table} that are not in the backup, which ends at the same time" if table else None


def _changed_at(connection: sqlite3.Connection, schema: str) -> datetime | None:
    """Return the latest time recorded in a database; None if it is empty."""
    tables = _tables(connection, schema)
    columns = [("threads", "changed"), ("items", "updated_at")]
    columns += [(kind.TABLE, field.name) for kind in _COMPARED for field in columns_of(kind) if field.kind == "instant"]
    newest = [
        connection.execute(f'SELECT max("{column}") FROM {schema}."{table}"').fetchone()[0]
        for table, column in columns
        if table in tables and column not in FUTURE
    ]
    instants = [instant_of(count) for count in newest if count is not None]
    if "records" in tables:
        instants += [at for (key,) in connection.execute(_HEADS.format(schema)) if (at := creation_time_of(key.hex()))]
    return max(instants, default=None)


_HEADS: Final = "SELECT id FROM {0}.records WHERE place IN (SELECT max(place) FROM {0}.records GROUP BY place >> 32)"
"""Query for the ids of the newest checkpoints of all branches; the upper bits of `place` identify the branch."""


def _missing_thread(connection: sqlite3.Connection) -> str | None:
    """Return the id of a thread that the backup lacks, however old it is; None if there is none."""
    if "threads" not in _tables(connection, "main"):
        return None
    is_old_format = "workspace" not in _columns(connection, "main", "threads")  # thread ids were unique in the file
    column, same_workspace = ("name", "1") if is_old_format else ("thread_id", "copy.workspace = own.workspace")
    row = connection.execute(
        f"SELECT own.{column} FROM main.threads AS own WHERE NOT EXISTS "
        f"(SELECT 1 FROM backup.threads AS copy WHERE copy.thread_id = own.{column} AND {same_workspace}) LIMIT 1"
    ).fetchone()
    return row[0] if row is not None else None


def _incomplete_tables(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the tables that have rows which the backup lacks."""
    tables, backup_tables = _tables(connection, "main"), _tables(connection, "backup")
    keys = {"pending": ["place", "kind", "key"]}
    for table in ("pending", *(kind.TABLE for kind in _COMPARED)):
        if table not in tables:
            continue
        columns = _columns(connection, "backup", table)
        compared = keys.get(table) or [column for column in _columns(connection, "main", table) if column in columns]
        is_same_row = " AND ".join(f'copy."{column}" IS own."{column}"' for column in compared)
        absent = "1"
        if table in backup_tables:
            absent = f'NOT EXISTS (SELECT 1 FROM backup."{table}" AS copy WHERE {is_same_row})'
        if connection.execute(f'SELECT 1 FROM main."{table}" AS own WHERE {absent} LIMIT 1').fetchone():
            yield table


def _tables(connection: sqlite3.Connection, schema: str) -> frozenset[str]:
    return frozenset(name for (name,) in connection.execute(f"SELECT name FROM {schema}.sqlite_master"))


def _columns(connection: sqlite3.Connection, schema: str, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA {schema}.table_info("{table}")')]

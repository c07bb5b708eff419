"""Find work in a database that its backup does not contain, and that restoring the backup would lose.

Most rows have a time: records of the ledger, leases of threads, items of a store and the ids of checkpoints. If one is
later than all times in the backup, the row is newer work. The times of other rows prove nothing: a copied or imported
thread keeps its original times, and a paused schedule or the results of a superstep that is still running have none.
This work is detected by rows that the backup lacks. No encryption key is needed.
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
from statewright.ids import drawn_at
from statewright.runs import RECORDS, Worker, columns_of

FUTURE: Final = frozenset({"deadline_at", "due_at", "expires_at", "last_at", "next_at", "until", "wait_until"})
"""Columns with instants in the future, which do not show when a row was written."""
_COMPARED: Final = tuple(kind for kind in RECORDS if kind is not Worker)
"""The records to compare. Those of workers are left out, because a worker deletes its record when it stops."""


def find_newer_work(path: Path, backup: Path) -> str | None:
    """Describe work that the backup does not contain, as the end of a sentence; None if there is none.

    The database may have an older format and is not modified; the backup has the current format.
    """
    with closing(connect_to_read(path)) as connection:
        connection.execute("ATTACH ? AS backup", (backup.resolve().as_uri(),))
        changed_at, backed_up_at = _changed_at(connection, "main"), _changed_at(connection, "backup")
        if changed_at is not None and (backed_up_at is None or changed_at > backed_up_at):
            extent = f"ends at {format_instant(backed_up_at)}" if backed_up_at is not None else "is empty"
            return f"work of {format_instant(changed_at)} that is not in the backup, which {extent}"
        thread = _missing_thread(connection)
        if thread is not None:
            return f"a thread {thread!r} that is not in the backup"
        table = next(_incomplete_tables(connection), None) if changed_at == backed_up_at else None
        return f"rows of {table} that are not in the backup, which ends at the same time" if table else None


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
        instants += [at for (key,) in connection.execute(_HEADS.format(schema)) if (at := drawn_at(key.hex()))]
    return max(instants, default=None)


_HEADS: Final = "SELECT id FROM {0}.records WHERE place IN (SELECT max(place) FROM {0}.records GROUP BY place >> 32)"
"""Query for the ids of the newest checkpoints of all branches."""


def _missing_thread(connection: sqlite3.Connection) -> str | None:
    """Return a thread that the backup lacks, which is newer work however old its times are; None if there is none."""
    if "threads" not in _tables(connection, "main"):
        return None
    is_old = "workspace" not in _columns(connection, "main", "threads")  # then the id was unique in the file
    column, same_workspace = ("name", "1") if is_old else ("thread_id", "theirs.workspace = own.workspace")
    row = connection.execute(
        f"SELECT own.{column} FROM main.threads AS own WHERE NOT EXISTS "
        f"(SELECT 1 FROM backup.threads AS theirs WHERE theirs.thread_id = own.{column} AND {same_workspace}) LIMIT 1"
    ).fetchone()
    return row[0] if row is not None else None


def _incomplete_tables(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the tables with rows that the backup lacks."""
    tables, backup_tables = _tables(connection, "main"), _tables(connection, "backup")
    keys = {"pending": ["place", "kind", "key"]}
    for table in ("pending", *(kind.TABLE for kind in _COMPARED)):
        if table not in tables:
            continue
        columns = _columns(connection, "backup", table)
        compared = keys.get(table) or [column for column in _columns(connection, "main", table) if column in columns]
        same = " AND ".join(f'theirs."{column}" IS own."{column}"' for column in compared)
        absent = "1"
        if table in backup_tables:
            absent = f'NOT EXISTS (SELECT 1 FROM backup."{table}" AS theirs WHERE {same})'
        if connection.execute(f'SELECT 1 FROM main."{table}" AS own WHERE {absent} LIMIT 1').fetchone():
            yield table


def _tables(connection: sqlite3.Connection, schema: str) -> frozenset[str]:
    return frozenset(name for (name,) in connection.execute(f"SELECT name FROM {schema}.sqlite_master"))


def _columns(connection: sqlite3.Connection, schema: str, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA {schema}.table_info("{table}")')]

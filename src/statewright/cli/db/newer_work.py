"""Find work in a database that its backup does not contain, and that restoring the backup would lose.

Most rows have a time: records of the ledger, leases of threads, items of a store and the ids of checkpoints. If one is
later than all times in the backup, the row is newer work. The times of some rows prove nothing: a copied or imported
thread keeps its original times, and a paused schedule or the results of a superstep that is still running have none.
These are found as rows that the backup lacks. None of this needs the key.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

from statewright.checkpoint.forms import instant_of
from statewright.cli.console.table import format_instant
from statewright.cli.db.files import connect_to_read
from statewright.ids import drawn_at
from statewright.runs import RECORDS, Worker, columns_of

AHEAD: Final = frozenset({"deadline_at", "due_at", "expires_at", "last_at", "next_at", "until", "wait_until"})
"""Columns with instants in the future, which say nothing about the time of writing."""
_KEPT: Final = tuple(kind for kind in RECORDS if kind is not Worker)
"""The records to compare. Those of workers are left out, because a worker deletes its record when it stops."""


def find_newer_work(path: Path, backup: Path) -> str | None:
    """Describe work that the backup does not contain, as the end of a sentence; None if there is none.

    The database may have an older format and is not modified; the backup has the current format.
    """
    with closing(connect_to_read(path)) as connection:
        connection.execute("ATTACH ? AS backup", (backup.resolve().as_uri(),))
        there, here = _changed_at(connection, "main"), _changed_at(connection, "backup")
        if there is not None and (here is None or there > here):
            last = f"which ends at {format_instant(here)}" if here is not None else "which is empty"
            return f"work of {format_instant(there)} that is not in the backup, {last}"
        thread = _other_thread(connection)
        if thread is not None:
            return f"a thread {thread!r} that is not in the backup"
        other = next(_other_rows(connection), None) if there == here else None
        return f"rows of {other} that are not in the backup, which ends at the same time" if other else None


def _changed_at(connection: sqlite3.Connection, schema: str) -> datetime | None:
    """Return the latest time recorded in a database; None if it is empty."""
    tables = _tables(connection, schema)
    columns = [("threads", "changed"), ("items", "updated_at")]
    columns += [(kind.TABLE, field.name) for kind in _KEPT for field in columns_of(kind) if field.kind == "instant"]
    newest = [
        connection.execute(f'SELECT max("{column}") FROM {schema}."{table}"').fetchone()[0]
        for table, column in columns
        if table in tables and column not in AHEAD
    ]
    instants = [instant_of(count) for count in newest if count is not None]
    if "records" in tables:
        instants += [at for (key,) in connection.execute(_HEADS.format(schema)) if (at := drawn_at(key.hex()))]
    return max(instants, default=None)


_HEADS: Final = "SELECT id FROM {0}.records WHERE place IN (SELECT max(place) FROM {0}.records GROUP BY place >> 32)"
"""Query for the ids of the newest checkpoints of all branches."""


def _other_thread(connection: sqlite3.Connection) -> str | None:
    """Return a thread that the backup lacks; it counts as work, however old it is."""
    if "threads" not in _tables(connection, "main"):
        return None
    is_old = "workspace" not in _columns(connection, "main", "threads")  # then the id was unique in the file
    own = ("name", "1") if is_old else ("thread_id", "theirs.workspace = own.workspace")
    row = connection.execute(
        f"SELECT own.{own[0]} FROM main.threads AS own WHERE NOT EXISTS "
        f"(SELECT 1 FROM backup.threads AS theirs WHERE theirs.thread_id = own.{own[0]} AND {own[1]}) LIMIT 1"
    ).fetchone()
    return row[0] if row is not None else None


def _other_rows(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the tables with rows that the backup lacks."""
    tables, others = _tables(connection, "main"), _tables(connection, "backup")
    keys = {"pending": ["place", "kind", "key"]}
    for table in ("pending", *(kind.TABLE for kind in _KEPT)):
        if table not in tables:
            continue
        columns = _columns(connection, "backup", table)
        compared = keys.get(table) or [column for column in _columns(connection, "main", table) if column in columns]
        same = " AND ".join(f'theirs."{column}" IS own."{column}"' for column in compared)
        absent = f'NOT EXISTS (SELECT 1 FROM backup."{table}" AS theirs WHERE {same})' if table in others else "1"
        if connection.execute(f'SELECT 1 FROM main."{table}" AS own WHERE {absent} LIMIT 1').fetchone():
            yield table


def _tables(connection: sqlite3.Connection, schema: str) -> frozenset[str]:
    return frozenset(name for (name,) in connection.execute(f"SELECT name FROM {schema}.sqlite_master"))


def _columns(connection: sqlite3.Connection, schema: str, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA {schema}.table_info("{table}")')]

"""Thousands of runs in seconds: one run that the ledger or a service has written, copied by the database.

A copy has all columns of the original except its ids, so that no layout of rows is written down here. The triggers of
the tables see the copies like runs of their own: those that have to wait are held back as they are inserted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.scale.spending import Database

_OWN_TABLES = {"step_runs": ("id",), "waits": ("id", "step_id")}
"""The tables with the records of a waiting run, and their columns with ids that contain no id of the run."""
_BATCH = 20_000
"""Copies in one transaction."""


def copy_run(
    database: Database, schema: str, run_id: str, count: int, *, changes: Mapping[str, str] | None = None
) -> None:
    """Insert copies of a run with its steps, waits and events, each on a thread of its own.

    `changes` are columns of the copies with other values: SQL, in which `original` is the row of the original, and
    `copy` the number of the copy, from 1. The checkpoints of the thread are not copied: nothing reads them while a run
    waits. The ids of copies are that of the original, with `-1` and so on at the end.
    """
    import psycopg

    values = {
        "id": "original.id || '-' || copy",
        "thread_id": "original.thread_id || '-' || copy",
        "held_by": "NULL",  # what holds a copy back, its trigger decides
        **(changes or {}),
    }

    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', %s, FALSE)", [schema])
        for first, last in _batches(count):
            _copy(connection, "workflow_runs", "id", run_id, values, (first, last))
            for table, names in _OWN_TABLES.items():
                ids = {name: f"original.{name} || '-' || copy" for name in ("run_id", *names)}
                _copy(connection, table, "run_id", run_id, ids, (first, last))
            connection.execute("ANALYZE workflow_runs")  # the triggers search it, with plans for a much smaller table
        # The number of a run is in the places of its events: see the table.
        connection.execute(
            "INSERT INTO run_events SELECT copy.number << 28 | (place & 268435455), at, body FROM run_events "
            "JOIN workflow_runs AS original ON original.number = place >> 28 "
            "JOIN workflow_runs AS copy ON copy.id LIKE original.id || '-%%' WHERE original.id = %s",
            [run_id],
        )
    tidy(database)


def _batches(count: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of each batch. The batches grow, so that there are statistics in time."""
    first, size = 1, _BATCH // 100
    while first <= count:
        yield first, min(first + size - 1, count)
        first, size = first + size, min(size * 4, _BATCH)


def tidy(database: Database) -> None:
    """Do what the server does by itself in the minutes after many rows were written, so that it is not measured."""
    import psycopg

    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _copy(
    connection: Any, table: str, column: str, run_id: str, values: Mapping[str, str], numbers: tuple[int, int]
) -> None:
    """Insert the copies with these numbers of the rows of a run in a table."""
    rows = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema AND table_name = %s "
        "AND is_identity = 'NO' AND is_generated = 'NEVER'",
        [table],
    ).fetchall()
    names = [name for (name,) in rows]
    query = (
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values.get(n, f'original.{n}') for n in names)} "
        f"FROM {table} AS original, generate_series(%s::BIGINT, %s::BIGINT) AS copy WHERE original.{column} = %s"
    )
    connection.execute(query, [*numbers, run_id])

"""Processor time of this process and of the sessions of a Postgres server."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MILLISECONDS = 1e3
_TICKS = os.sysconf("SC_CLK_TCK")
_SCHEDULED = 2
"""The clock of Linux that counts the time for which a process was scheduled: see `clock_getcpuclockid`."""


@dataclass(frozen=True, slots=True)
class Database:
    """The server that is measured."""

    url: str
    folder: Path

    def open(self, schema: str, **options: Any) -> Any:
        from statewright.storage.postgres import PostgresDatabase

        return PostgresDatabase(self.url, schema=schema, **options)

    def query(self, sql: str) -> Any:
        """Return the first value of a query."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(sql.encode()).fetchone()
            return row[0] if row is not None else None

    def processor_seconds(self) -> float:
        """Return the processor time of all sessions that exist, in seconds."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
            ).fetchall()
            own = connection.info.backend_pid
        return sum(process_seconds(pid) for (pid,) in rows if pid != own)


def process_seconds(pid: int) -> float:
    """Return the processor time of a process with all its threads; 0 if it has ended.

    On Linux in nanoseconds precision: an idle process uses less than a tick of `/proc` in several seconds.
    """
    try:
        if sys.platform == "linux":
            return time.clock_gettime((~pid << 3) | _SCHEDULED)
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(values[11]) + int(values[12])) / _TICKS


class Spent:
    """Processor milliseconds of this process and of the database, and how many times something was done."""

    own = 0.0
    database = 0.0

    def per(self, count: float) -> tuple[float, float]:
        return self.own / count, self.database / count


@contextmanager
def spending(database: Database) -> Generator[Spent]:
    spent = Spent()
    before, own = database.processor_seconds(), time.process_time()
    yield spent
    spent.own = (time.process_time() - own) * MILLISECONDS
    spent.database = (database.processor_seconds() - before) * MILLISECONDS

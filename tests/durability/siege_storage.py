"""The storage of a siege: a SQLite file, or a Postgres server of its own that is restarted in the middle."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol

from tests.postgres_programs import Server as PostgresServer
from tests.postgres_server import execute

PATIENCE: Final = 300.0
"""Seconds after which a storage is considered stuck."""


class SiegeStorage(Protocol):
    """The storage that the servers of a siege share."""

    @property
    def location(self) -> str:
        """The path or the address of the database."""
        ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    async def stop_process(self, pid: int) -> None:
        """Stop a server process by SIGSTOP."""
        ...

    def has_worker(self, pid: int) -> bool:
        """Return whether the ledger has a worker in a process."""
        ...

    async def restart(self) -> bool:
        """Restart the database, if it has a server. Return whether it has."""
        ...


async def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    while not _is_stopped(pid):
        await asyncio.sleep(0.001)


def _is_stopped(pid: int) -> bool:
    """Return whether every thread of a process has stopped, which takes a while after the signal was sent."""
    states = [path.read_text().rpartition(") ")[2][0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state in "Tt" for state in states)


class FileStorage:
    """A SQLite file."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._path = folder / "runs.db"
        self._random = random.Random(seed)
        self.location = str(self._path)

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    async def stop_process(self, pid: int) -> None:
        """Stop a process while it does not write.

        A process that is stopped within a transaction keeps the file locked, so that no other process can write.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            await _stop(pid)
            if await asyncio.to_thread(self._can_write):
                return
            os.kill(pid, signal.SIGCONT)
            assert time.monotonic() < deadline, "Each time the server is stopped, it has locked the file."
            await asyncio.sleep(self._random.uniform(0, 0.2))

    def _can_write(self) -> bool:
        with closing(sqlite3.connect(self._path, timeout=0.5, isolation_level=None)) as ledger:
            try:
                ledger.execute("BEGIN IMMEDIATE")
                ledger.execute("ROLLBACK")
            except sqlite3.OperationalError:
                return False
        return True

    def has_worker(self, pid: int) -> bool:
        with closing(sqlite3.connect(self._path, timeout=PATIENCE)) as ledger:
            return bool(ledger.execute("SELECT count(*) FROM workers WHERE pid = ?", (pid,)).fetchone()[0])

    async def restart(self) -> bool:
        return False


class PostgresStorage:
    """A Postgres server."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = random.Random(seed)
        folder.chmod(0o755)  # the server may run as another user
        self._server = PostgresServer(folder / "postgres", fsync="on")
        self.location = self._server.url

    def open(self) -> None:
        self._server.create()
        self._server.start()

    def close(self) -> None:
        self._server.stop()

    async def stop_process(self, pid: int) -> None:
        """Stop a process anywhere, also within a transaction."""
        await _stop(pid)

    def has_worker(self, pid: int) -> bool:
        rows = execute(self.location, f"SELECT count(*) FROM workers WHERE pid = {pid}")
        return bool(rows[0][0])

    async def restart(self) -> bool:
        """Restart the server: sessions are ended, or all its processes are, like in a crash."""
        await asyncio.to_thread(self._server.stop, self._random.choice(["fast", "immediate"]))
        await asyncio.sleep(self._random.uniform(0, 1))
        await asyncio.to_thread(self._server.start)
        return True


STORAGES: Final = {"sqlite": FileStorage, "postgres": PostgresStorage}

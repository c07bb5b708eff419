"""The base class of views of a database. A view closes a database that it has opened, but not one it was given."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from statewright.errors import InvalidConfig
from statewright.futures import MaybeFuture
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.statements import run_script

T = TypeVar("T")
DatabaseOrPath = SqliteDatabase | str | os.PathLike[str]
"""A database, or the path of one."""


class View:
    """A view of a database, which it opens with `options` if it is given a path."""

    def __init__(self, database: DatabaseOrPath, **options: Any) -> None:
        if isinstance(database, SqliteDatabase) and options:
            raise InvalidConfig(f"{', '.join(options)}: these options open a file. Pass them to SqliteDatabase(...).")
        self._owns = not isinstance(database, SqliteDatabase)
        self.database = database if isinstance(database, SqliteDatabase) else SqliteDatabase(database, **options)

    def _make_tables(self, name: str) -> None:
        """Create the tables that only views of this kind need, unless they exist."""
        with self.database.read() as connection:
            (count,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
        if not count:
            self.database.write(lambda connection: run_script(connection, f"{name}_tables"))

    def _written(self, job: Callable[[sqlite3.Connection], T]) -> MaybeFuture[T]:
        """Do a job in a transaction; return its result, or a future of it on the thread of an event loop."""
        return self.database.hand_over(job) if on_event_loop() else self.database.write(job)

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Return a view of the database at a path, or at a URL such as `sqlite:///runs.db`."""
        return cls(conn_string, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.database.path)!r})"

    def close(self) -> None:
        """Close the database, if this view has opened it."""
        if self._owns:
            self.database.close()


def on_event_loop() -> bool:
    """Return whether an event loop runs on this thread, which must not be blocked then."""
    asyncio = sys.modules.get("asyncio.events")
    return asyncio is not None and asyncio._get_running_loop() is not None

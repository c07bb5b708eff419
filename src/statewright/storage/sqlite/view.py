"""What faces of a database share: they close it if they opened it, and not if it was given to them."""

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
Given = SqliteDatabase | str | os.PathLike[str]
"""A database, or the path of one."""


class View:
    """A face of a database, which it opens with `options` if it is given a path."""

    def __init__(self, database: Given, **options: Any) -> None:
        if isinstance(database, SqliteDatabase) and options:
            raise InvalidConfig(f"{', '.join(options)}: this is for opening a file. Give it to SqliteDatabase(...).")
        self._owns = not isinstance(database, SqliteDatabase)
        self.database = database if isinstance(database, SqliteDatabase) else SqliteDatabase(database, **options)

    def _make_tables(self, name: str) -> None:
        """Make the tables that only faces of this kind need, unless they are there."""
        with self.database.read() as connection:
            (found,) = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
        if not found:
            self.database.write(lambda connection: run_script(connection, f"{name}_tables"))

    def _written(self, job: Callable[[sqlite3.Connection], T]) -> MaybeFuture[T]:
        """What a job answers that is done in a transaction; later where an event loop runs, which must not wait."""
        return self.database.hand_over(job) if on_event_loop() else self.database.write(job)

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """The face of the database at a path, or at a URL such as `sqlite:///runs.db`."""
        return cls(conn_string, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.database.path)!r})"

    def close(self) -> None:
        """Close the database, if this face has opened it."""
        if self._owns:
            self.database.close()


def on_event_loop() -> bool:
    """Whether an event loop runs on this thread: then nothing may wait here."""
    asyncio = sys.modules.get("asyncio.events")
    return asyncio is not None and asyncio._get_running_loop() is not None

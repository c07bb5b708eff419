"""Faults of SQLite and of the file system, provoked for real, and the errors of Statewright for them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from statewright.errors import (
    DamagedDatabase,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageUnavailable,
)
from statewright.storage.sqlite import SqliteCache, SqliteDatabase, SqliteStore
from statewright.storage.sqlite import database as module
from statewright.storage.sqlite.faults import translate_error

FILE = Path("runs.db")


def error_of(path: Path, *statements: str, timeout: float = 0) -> sqlite3.Error:
    """Return the error that SQLite raises for the last of some statements."""
    connection = sqlite3.connect(path, timeout=timeout, isolation_level=None)
    try:
        for statement in statements:
            connection.execute(statement)
    except sqlite3.Error as error:
        return error
    finally:
        connection.close()
    raise AssertionError("nothing was raised")


def full_disk(folder: Path) -> sqlite3.Error:
    fill = "INSERT INTO t VALUES (zeroblob(100000))"
    return error_of(folder / "full.db", "PRAGMA page_size=512", "PRAGMA max_page_count=3", "CREATE TABLE t (x)", fill)


def locked_file(folder: Path) -> sqlite3.Error:
    holder = sqlite3.connect(folder / "locked.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    error = error_of(folder / "locked.db", "BEGIN IMMEDIATE")
    holder.close()
    return error


def not_a_database(folder: Path) -> sqlite3.Error:
    (folder / "text.db").write_text("this is no database, but a letter to my aunt\n" * 100)
    return error_of(folder / "text.db", "SELECT * FROM sqlite_master")


def truncated_file(folder: Path) -> sqlite3.Error:
    path = folder / "cut.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.executemany("INSERT INTO t VALUES (?)", [(b"x" * 1000,)] * 100)
    connection.commit()
    connection.close()
    path.write_bytes(path.read_bytes()[:20000])
    return error_of(path, "SELECT sum(length(x)) FROM t")


def missing_folder(folder: Path) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as caught:
        sqlite3.connect(folder / "nowhere" / "runs.db")
    return caught.value


def wrong_statement(folder: Path) -> sqlite3.Error:
    return error_of(folder / "any.db", "SELECT * FROM t")


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (full_disk, StorageFull, "no space left for runs.db.*Free some space"),
        (locked_file, StorageLocked, "Another process has runs.db locked.*Try again"),
        (not_a_database, DamagedDatabase, "runs.db is damaged: file is not a database"),
        (truncated_file, DamagedDatabase, "runs.db is damaged"),
        (missing_folder, StorageUnavailable, "runs.db cannot be used: unable to open"),
        (wrong_statement, StorageUnavailable, "runs.db cannot be used: no such table"),
    ],
)
def test_each_fault_is_translated_to_its_error(
    tmp_path: Path, fault: Callable[[Path], sqlite3.Error], kind: type[StorageError], message: str
) -> None:
    error = translate_error(fault(tmp_path), FILE)
    assert type(error) is kind
    with pytest.raises(kind, match=message):
        raise error


@pytest.mark.parametrize("fault", [sqlite3.ProgrammingError("it was closed"), PermissionError(13, "Permission denied")])
def test_a_fault_without_a_code_becomes_storage_unavailable(fault: Exception) -> None:
    error = translate_error(fault, FILE)
    assert type(error) is StorageUnavailable
    assert str(fault) in str(error)


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), DamagedDatabase("it")])
def test_other_exceptions_are_not_translated(error: BaseException) -> None:
    assert translate_error(error, FILE) is None


def test_a_write_raises_storage_locked_after_the_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUSY_TIMEOUT", 0.01)
    with SqliteDatabase(tmp_path / "runs.db") as database:
        SqliteCache(database), SqliteStore(database)  # with tables to write to
        other = sqlite3.connect(database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageLocked):
            database.write(lambda connection: connection.execute("DELETE FROM items"))
        with pytest.raises(StorageLocked):
            database.submit(lambda connection: connection.execute("DELETE FROM items")).result(600)
        other.close()
        assert database.write(lambda connection: connection.execute("DELETE FROM items").rowcount) == 0


def test_the_database_stays_usable_after_a_full_disk(tmp_path: Path) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO cache VALUES ('n', 'big', zeroblob(10000000), NULL)")

    def note(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO cache VALUES ('n', 'small', x'', NULL)")

    with SqliteDatabase(tmp_path / "runs.db") as database:
        SqliteCache(database), SqliteStore(database)  # with tables to write to
        pages = database.write(lambda connection: connection.execute("PRAGMA page_count").fetchone()[0])
        database.write(lambda connection: connection.execute(f"PRAGMA max_page_count={pages + 20}"))
        with pytest.raises(StorageFull):
            database.write(fill)
        database.write(note)
        with database.read() as connection:
            assert connection.execute("SELECT input FROM cache").fetchall() == [("small",)]

"""Operations on database files: they lose no committed transaction, and name the file at fault."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.db import files
from statewright.cli.db.files import (
    check_output_path,
    connect_to_read,
    copy_database_file,
    rename_damaged,
    replace_atomically,
    replace_database,
)
from statewright.errors import DamagedDatabase

PATH, OTHER = Path("numbers.db"), Path("other.db")
COMPANIONS = ("-wal", "-shm")

pytestmark = pytest.mark.usefixtures("folder")


@contextmanager
def database(path: Path, numbers: int) -> Generator[sqlite3.Connection]:
    """Create a database in WAL mode with a table of numbers, and keep it open during the block."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE numbers (n)")
        connection.executemany("INSERT INTO numbers VALUES (?)", [(number,) for number in range(numbers)])
        yield connection


def create(path: Path, numbers: int) -> None:
    with database(path, numbers):
        pass


def create_killed(path: Path, numbers: int) -> None:
    """Create a database whose transactions are still in its -wal file, as after its process was killed."""
    with database(Path("live.db"), numbers):
        for suffix in ("", *COMPANIONS):
            shutil.copy(f"live.db{suffix}", f"{path}{suffix}")
    Path("live.db").unlink()


def count(path: Path) -> int:
    with closing(connect_to_read(path)) as connection:
        return connection.execute("SELECT count(*) FROM numbers").fetchone()[0]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_reading_includes_the_transactions_of_a_killed_process_and_leaves_only_the_database(folder: Path) -> None:
    create_killed(PATH, 3)
    assert count(PATH) == 3
    assert names(folder) == [PATH.name]


def test_a_locked_database_is_not_read_without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BUSY_TIMEOUT", 0.0)
    with closing(sqlite3.connect(PATH, isolation_level=None)) as writer:
        writer.execute("CREATE TABLE numbers (n)")
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connect_to_read(PATH)


def test_a_missing_database_is_not_created(folder: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        connect_to_read(PATH)
    assert names(folder) == []


def test_an_error_of_a_copy_names_the_damaged_file_and_changes_nothing() -> None:
    create(PATH, 3)
    damaged = b"no database" * 1000
    OTHER.write_bytes(damaged)
    with pytest.raises(DamagedDatabase, match=r"other\.db"):
        copy_database_file(PATH, OTHER)
    with pytest.raises(DamagedDatabase, match=r"other\.db"):
        copy_database_file(OTHER, PATH)
    assert (count(PATH), OTHER.read_bytes()) == (3, damaged)


def test_a_database_with_unmerged_transactions_is_replaced(folder: Path) -> None:
    create_killed(PATH, 3)
    create(OTHER, 5)
    replace_database(OTHER, PATH)
    assert (count(PATH), names(folder)) == (5, [PATH.name])


def test_a_failed_replacement_loses_no_transaction() -> None:
    create_killed(PATH, 3)
    with pytest.raises(UsageError, match="cannot be written"):
        replace_database(Path("missing.db"), PATH)
    assert count(PATH) == 3


def test_a_database_in_use_is_not_replaced() -> None:
    create(OTHER, 5)
    with database(PATH, 3) as connection:
        with pytest.raises(UsageError, match="is in use"):
            replace_database(OTHER, PATH)
        connection.execute("INSERT INTO numbers VALUES (3)")
    assert (count(PATH), count(OTHER)) == (4, 5)


def test_a_damaged_database_is_replaced() -> None:
    create(OTHER, 5)
    for suffix in ("", "-wal"):
        Path(f"{PATH}{suffix}").write_bytes(b"no database" * 1000)
    replace_database(OTHER, PATH)
    assert count(PATH) == 5


@pytest.mark.parametrize("content", [b"no database" * 1000, b""])
def test_a_temporary_file_of_a_killed_process_is_not_reused(folder: Path, content: bytes) -> None:
    create_killed(Path(f".{PATH}.{os.getpid()}"), 3)
    Path(f".{PATH}.{os.getpid()}").write_bytes(content)
    with replace_atomically(PATH) as temporary_path:
        assert names(folder) == []
        create(temporary_path, 5)
    assert (count(PATH), names(folder)) == (5, [PATH.name])


def test_a_failed_write_leaves_the_file_as_it_was(folder: Path) -> None:
    create(PATH, 3)
    with pytest.raises(sqlite3.OperationalError), replace_atomically(PATH) as temporary_path:
        create(temporary_path / "missing", 5)
    assert (count(PATH), names(folder)) == (3, [PATH.name])


def test_a_damaged_database_is_renamed_with_its_companions(folder: Path) -> None:
    for path in (PATH, Path(f"{PATH}-wal"), Path(f"{PATH}.damaged-1")):
        path.write_bytes(b"no database")
    assert rename_damaged(PATH) == Path(f"{PATH}.damaged-2")
    assert names(folder) == [f"{PATH}.damaged-1", f"{PATH}.damaged-2", f"{PATH}.damaged-2-wal"]
    with pytest.raises(UsageError, match="cannot be renamed"):
        rename_damaged(PATH)


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_is_not_an_output_file(folder: Path, force: bool) -> None:
    (folder / "copies").mkdir()
    with pytest.raises(UsageError, match="'copies' is a folder"):
        check_output_path(Path("copies"), "backup", force=force)

"""Opening files: new ones, other formats, keys, files that are not databases, and files of other programs."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from statewright.errors import (
    DamagedDatabase,
    InvalidConfig,
    NewerFormat,
    StorageError,
    StorageUnavailable,
    WrongEncryptionKey,
)
from statewright.storage.sqlite import SqliteCache
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.migrate import FORMAT, PAGE, STEPS

KEY, OTHER = bytes(range(32)), bytes(32)
MARK = int.from_bytes(b"SWrt")
"""The application_id of files of Statewright."""
RECORDED = Path(__file__).parents[3] / "durability" / "recorded"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def create(path: Path, key: bytes | None = None) -> Path:
    with SqliteDatabase(path, key=key) as database:
        SqliteCache(database)  # creates a table for the tests
        database.write(lambda connection: connection.execute("INSERT INTO cache VALUES ('n', 'i', x'01', NULL)"))
    return path


def pragma(path: Path, name: str) -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]


def tables(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        return [name for (name,) in rows]


def test_a_new_file_has_the_current_format_and_application_id(path: Path) -> None:
    create(path)
    assert pragma(path, "user_version") == FORMAT == len(STEPS)
    assert pragma(path, "application_id") == MARK
    assert pragma(path, "journal_mode") == "wal"


def test_an_empty_file_is_initialized(path: Path) -> None:
    path.touch()
    create(path)
    assert pragma(path, "user_version") == FORMAT


def test_reopening_a_file_keeps_its_content(path: Path) -> None:
    create(path)
    with SqliteDatabase(path) as database, database.read() as connection:
        assert connection.execute("SELECT node, input FROM cache").fetchall() == [("n", "i")]


def test_a_newer_format_is_refused_and_not_changed(path: Path) -> None:
    with closing(sqlite3.connect(create(path))) as connection:
        connection.execute(f"PRAGMA user_version={FORMAT + 1}")
    with pytest.raises(NewerFormat, match=f"has format {FORMAT + 1}.*reads up to {FORMAT}") as caught:
        SqliteDatabase(path)
    assert caught.value.found == FORMAT + 1
    assert pragma(path, "user_version") == FORMAT + 1


def test_a_failing_migration_of_a_new_file_creates_no_tables(path: Path) -> None:
    create_foreign(path, f"PRAGMA application_id={MARK}")
    fails = (*STEPS[:-1], fail)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("statewright.storage.sqlite.migrate.STEPS", fails)
        with pytest.raises(StorageUnavailable, match="no such table: nowhere"):
            SqliteDatabase(path)
    assert tables(path) == []
    assert pragma(path, "user_version") == 0


def fail(connection: sqlite3.Connection, encryptor: object) -> None:
    connection.execute("SELECT * FROM nowhere")


def test_creating_a_file_waits_for_another_writer(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")  # SQLite itself would not wait here to change the file's mode
    release = threading.Timer(0.05, other.rollback)
    release.start()
    create(path)
    release.join()
    other.close()
    assert pragma(path, "journal_mode") == "wal"


def _open(path: Path, barrier: Any, answers: Any) -> None:
    barrier.wait(600)
    try:
        SqliteDatabase(path).close()
    except BaseException as error:
        answers.put(repr(error))
    else:
        answers.put("opened")


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_several_processes_can_create_one_file_concurrently(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    for n in range(2):
        barrier, answers = fork.Barrier(8), fork.SimpleQueue()
        makers = [fork.Process(target=_open, args=(tmp_path / f"{n}.db", barrier, answers)) for _ in range(8)]
        for maker in makers:
            maker.start()
        assert [answers.get() for _ in makers] == ["opened"] * 8
        for maker in makers:
            maker.join(600)


# -- keys


def test_a_file_is_opened_with_its_key(path: Path) -> None:
    create(path, KEY)
    create(path.with_name("other.db"), KEY)
    SqliteDatabase(path, key=KEY).close()


@pytest.mark.parametrize(
    ("with_key", "opened_with", "message"),
    [
        (KEY, OTHER, "the key is wrong"),
        (KEY, None, "no key was given"),
        (None, KEY, "not encrypted, and a key was given"),
    ],
)
def test_a_file_cannot_be_opened_with_another_key(
    path: Path, with_key: bytes | None, opened_with: bytes | None, message: str
) -> None:
    create(path, with_key)
    with pytest.raises(WrongEncryptionKey, match=message):
        SqliteDatabase(path, key=opened_with)
    SqliteDatabase(path, key=with_key).close()


# -- files that are not databases


@pytest.mark.parametrize("content", [os.urandom(10_000), b"a letter to my aunt\n" * 500, bytes(range(256)) * 16])
def test_a_file_that_is_not_a_database_is_refused_and_not_changed(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DamagedDatabase, match=r"runs\.db is damaged"):
        SqliteDatabase(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("left", [50, 100, 600, 4096, 5000, 12_000])
def test_a_truncated_file_raises_damaged_database(path: Path, left: int) -> None:
    whole = create(path).read_bytes()
    path.write_bytes(whole[:left])
    with pytest.raises(DamagedDatabase), SqliteDatabase(path) as database:
        database.write(lambda connection: connection.execute("INSERT INTO items VALUES (1, 'n.', 'k', 1, 1, 1, 1, 1)"))


def test_a_damaged_page_raises_damaged_database_when_it_is_read(path: Path) -> None:
    content = bytearray(create(path).read_bytes())
    location = content.rindex(b"ni\x01")  # the row of the cache: the last table
    content[location - 50 : location + 3] = os.urandom(53)
    first = location // PAGE * PAGE
    content[first : first + 12] = b"\xff" * 12
    path.write_bytes(content)
    with SqliteDatabase(path) as database, pytest.raises(DamagedDatabase, match="malformed"), database.read() as one:
        one.execute("SELECT * FROM cache").fetchall()


# -- locations that cannot contain a file


@pytest.mark.parametrize("location", ["nowhere/runs.db", "file/runs.db", "."])
def test_a_location_that_cannot_contain_a_file_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageUnavailable, match="cannot be used"):
        SqliteDatabase(tmp_path / location)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux has a folder that cannot be written to")
def test_a_folder_that_cannot_be_written_to_is_refused() -> None:
    with pytest.raises(StorageUnavailable, match="unable to open"):
        SqliteDatabase("/proc/runs.db")


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_a_database_needs_a_file(name: str) -> None:
    with pytest.raises(InvalidConfig, match="needs a file"):
        SqliteDatabase(name)


def test_a_failed_open_leaves_the_path_usable(path: Path) -> None:
    path.write_bytes(b"a letter to my aunt\n" * 500)
    with pytest.raises(StorageError):
        SqliteDatabase(path)
    path.unlink()
    create(path)


# -- files of other programs


def create_foreign(path: Path, *statements: str) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["CREATE TABLE letters (x)"], "application_id 0, user_version 0, tables letters"),
        (["CREATE TABLE checkpoints (x)"], "user_version 0, tables checkpoints"),
        (["CREATE TABLE threads (x)", "PRAGMA user_version=1"], "user_version 1, tables threads"),
        ([f"CREATE TABLE t{n} (x)" for n in range(6)], "tables t0, t1, t2, t3, t4 and others"),
        (["PRAGMA user_version=7"], "application_id 0, user_version 7, no tables"),
        (["PRAGMA application_id=252006674"], "application_id 252006674, user_version 0, no tables"),
        (["PRAGMA user_version=-1", "CREATE TABLE t (x)"], "user_version -1, tables t"),
    ],
)
def test_a_file_of_another_program_is_refused_and_not_changed(
    path: Path, statements: Sequence[str], message: str
) -> None:
    content = create_foreign(path, *statements)
    with pytest.raises(StorageUnavailable, match=f"belongs to another program.*{message}.*Nothing was changed"):
        SqliteDatabase(path)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == ["runs.db"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version=-1", "it has format -1, and no tables"),
        ("CREATE TABLE letters (x)", "it has format 0, and tables letters"),
    ],
)
def test_an_unknown_format_with_our_application_id_raises_damaged_database(
    path: Path, statement: str, message: str
) -> None:
    content = create_foreign(path, f"PRAGMA application_id={MARK}", statement)
    with pytest.raises(DamagedDatabase, match=message):
        SqliteDatabase(path)
    assert path.read_bytes() == content


def test_an_empty_file_with_our_application_id_is_initialized(path: Path) -> None:
    create_foreign(path, f"PRAGMA application_id={MARK}")
    create(path)
    assert pragma(path, "user_version") == FORMAT


# -- format 1


@pytest.fixture
def old(path: Path) -> Path:
    """The recorded file of format 1."""
    return Path(shutil.copy(RECORDED / "format1.db", path))


def test_a_failing_migration_does_not_change_an_older_file(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.execute("CREATE TABLE threads_of_workspaces (other)")  # the name of a table that the step creates
    before = tables(old)
    with pytest.raises(StorageUnavailable, match="already exists"):
        SqliteDatabase(old)
    assert tables(old) == before
    assert pragma(old, "user_version") == 1


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_several_processes_can_migrate_one_file_concurrently(old: Path) -> None:
    fork = multiprocessing.get_context("fork")
    barrier, answers = fork.Barrier(4), fork.SimpleQueue()
    openers = [fork.Process(target=_open, args=(old, barrier, answers)) for _ in range(4)]
    for opener in openers:
        opener.start()
    assert [answers.get() for _ in openers] == ["opened"] * 4
    for opener in openers:
        opener.join(600)
    assert pragma(old, "user_version") == FORMAT

"""`statewright db`: damage is reported, copies are consistent, and nothing is replaced by mistake."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from statewright.cli.console.options import DEFAULT_DATABASE
from statewright.cli.db.files import copy_database_file, try_exclusive_access
from statewright.errors import DamagedDatabase, StorageUnavailable
from statewright.storage.sqlite import SqliteSaver


@pytest.fixture
def threads(statewright: Any, flow: Path) -> Any:
    """Return a function that runs threads, and returns the names of all threads."""

    def call(*names: str) -> list[str]:
        for name in names:
            statewright("run", "flow.py:asking", "--thread", name, "-i", "n=1")
        return sorted(entry["thread"] for entry in json.loads(statewright("threads", "ls", "--json").out))

    return call


def change(statement: str, path: Path = DEFAULT_DATABASE) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_an_intact_database(statewright: Any, threads: Any) -> None:
    threads("a", "b")
    assert statewright("db", "check").out == f"ok: {DEFAULT_DATABASE}, 2 threads, 2 heads read\n"
    assert statewright("db", "check", "--full").out == f"ok: {DEFAULT_DATABASE}, 2 threads, 2 checkpoints read\n"


def test_a_damaged_head_is_reported(statewright: Any, threads: Any) -> None:
    threads("a", "b")
    change("UPDATE records SET changes = x'93' WHERE place = (SELECT max(place) FROM records)")
    checked = statewright("db", "check")
    assert (checked.code, checked.out) == (1, "")
    assert "1 problem in" in checked.err
    assert "thread 'b', branch 'main': " in checked.err
    assert statewright("threads", "ls").code == 0
    assert "damaged" in statewright("threads", "ls", "--prefix", "b").out


def test_a_damaged_old_checkpoint_is_found_by_a_full_check(statewright: Any, flow: Path, threads: Any) -> None:
    statewright("run", "flow.py", "--thread", "t", "-i", "n=1")
    change("UPDATE pending SET body = x'93'")
    change("INSERT INTO pending VALUES ((SELECT min(place) FROM records), 2, 'x', x'93')")
    assert statewright("db", "check").code == 0
    checked = statewright("db", "check", "--full")
    assert (checked.code, "the history of thread 't'" in checked.err) == (1, True)


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\0" * 500])
def test_a_file_that_is_not_a_database_is_refused(statewright: Any, folder: Path, content: bytes) -> None:
    (folder / "x.db").write_bytes(content)
    for command in (("db", "check"), ("threads", "ls")):
        result = statewright(*command, "--database", "x.db")
        assert result.code in (1, 2)
        assert "x.db" in result.err
        assert "Traceback" not in result.err
    assert (folder / "x.db").read_bytes() == content


def test_a_backup_is_a_database(statewright: Any, threads: Any, folder: Path) -> None:
    threads("a")
    assert statewright("db", "backup", "copy.db").code == 0
    assert sorted(path.name for path in folder.glob("*copy*")) == ["copy.db"]
    assert statewright("db", "check", "--full", "--database", "copy.db").code == 0
    assert statewright("threads", "show", "a", "--database", "copy.db").code == 0
    refused = statewright("db", "backup", "copy.db")
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert statewright("db", "backup", "copy.db", "--force").code == 0
    itself = statewright("db", "backup", DEFAULT_DATABASE, "--force")
    assert (itself.code, "the database itself" in itself.err) == (2, True)
    nowhere = statewright("db", "backup", "no/copy.db")
    assert (nowhere.code, "The folder 'no' for the " in nowhere.err and "does not exist" in nowhere.err) == (2, True)


def test_a_backup_is_consistent_while_others_write(folder: Path) -> None:
    with SqliteSaver("busy.db") as saver:
        saver.database.write(lambda connection: connection.execute("CREATE TABLE pairs (a INTEGER, b INTEGER)"))
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                pair = (number, -number)
                saver.database.write(
                    lambda connection, pair=pair: connection.execute("INSERT INTO pairs VALUES (?, ?)", pair)
                )
                saver.database.write(lambda connection: connection.execute("UPDATE pairs SET a = a + 1, b = b - 1"))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(5):
                copy_database_file(Path("busy.db"), Path(f"copy-{number}.db"))
        finally:
            stop.set()
            writer.join()
    for number in range(5):
        with closing(sqlite3.connect(f"copy-{number}.db")) as connection:
            assert connection.execute("SELECT count(*) FROM pairs WHERE a + b <> 0").fetchone() == (0,)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_backup_is_restored(statewright: Any, threads: Any, folder: Path) -> None:
    threads("a")
    statewright("db", "backup", "copy.db")
    statewright("threads", "rm", "a")
    restored = statewright("db", "restore", "copy.db")
    assert (restored.code, restored.out) == (0, f"Restored {DEFAULT_DATABASE} from copy.db: 1 thread.\n")
    assert threads() == ["a"]
    assert sorted(path.name for path in (folder / ".statewright").iterdir()) == [".gitignore", "runs.db"]
    assert statewright("db", "restore", "copy.db", "--database", "deep/er.db").code == 0
    assert statewright("threads", "show", "a", "--database", "deep/er.db").code == 0
    with closing(sqlite3.connect("deep/er.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_newer_work_is_not_replaced(statewright: Any, threads: Any) -> None:
    threads("a")
    statewright("db", "backup", "copy.db")
    threads("b")
    refused = statewright("db", "restore", "copy.db")
    assert (refused.code, "not in the backup" in refused.err) == (2, True)
    assert threads() == ["a", "b"]
    assert statewright("db", "restore", "copy.db", "--force").code == 0
    assert threads() == ["a"]


def test_work_with_an_unreadable_time_is_not_replaced(statewright: Any, threads: Any) -> None:
    threads("a")
    statewright("db", "backup", "copy.db")
    for wrong in ("'yesterday'", "1e300", str(2**62)):
        change(f"UPDATE threads SET changed = {wrong}")
        refused = statewright("db", "restore", "copy.db")
        assert (refused.code, "cannot be read" in refused.err) == (2, True)


def test_a_database_in_use_is_not_replaced(statewright: Any, threads: Any) -> None:
    threads("a")
    statewright("db", "backup", "copy.db")
    assert try_exclusive_access(DEFAULT_DATABASE)
    with SqliteSaver(DEFAULT_DATABASE) as saver:
        assert not try_exclusive_access(DEFAULT_DATABASE)
        refused = statewright("db", "restore", "copy.db")
        assert (refused.code, "is in use" in refused.err) == (2, True)
        saver.delete_thread("a")
        assert statewright("db", "restore", "copy.db", "--force").code == 0
        entries: Any = saver.threads()
        assert [entry.thread_id for entry in entries] == ["a"]  # an open saver sees the restored data
    assert try_exclusive_access(DEFAULT_DATABASE)


@pytest.mark.parametrize("content", [b"no database" * 1000, b""])
def test_an_unreadable_database_is_set_aside_with_force(
    statewright: Any, threads: Any, folder: Path, content: bytes
) -> None:
    threads("a")
    statewright("db", "backup", "copy.db")
    DEFAULT_DATABASE.write_bytes(content)
    if content:
        assert statewright("db", "restore", "copy.db").code == 2
        restored = statewright("db", "restore", "copy.db", "--force")
        assert "runs.db.damaged-1" in restored.out
        assert (folder / ".statewright/runs.db.damaged-1").read_bytes() == content
    else:
        assert statewright("db", "restore", "copy.db").code == 0
    assert threads() == ["a"]


def test_a_damaged_backup_is_not_restored(statewright: Any, threads: Any, folder: Path) -> None:
    threads("a")
    statewright("db", "backup", "copy.db")
    content = (folder / "copy.db").read_bytes()
    (folder / "cut.db").write_bytes(content[: len(content) // 2])
    change("UPDATE records SET control = x'93'", folder / "copy.db")
    for name in ("cut.db", "copy.db"):
        refused = statewright("db", "restore", name, "--force")
        assert (refused.code, name in refused.err) == (1, True)
    assert threads() == ["a"]
    assert sorted(path.name for path in (folder / ".statewright").iterdir()) == [".gitignore", "runs.db"]


def test_foreign_files_are_neither_restored_nor_replaced(statewright: Any, threads: Any, folder: Path) -> None:
    threads("a")
    statewright("db", "backup", "copy.db")
    change("CREATE TABLE theirs (x)", folder / "theirs.db")
    before = (folder / "theirs.db").read_bytes()
    for command in (("restore", "theirs.db"), ("restore", "copy.db", "--database", "theirs.db", "--force")):
        refused = statewright("db", *command)
        assert (refused.code, "not a Statewright database" in refused.err) == (2, True)
    assert (folder / "theirs.db").read_bytes() == before
    for command, message in (
        (("restore", "none.db"), "Backup 'none.db' does not exist"),
        (("restore", str(DEFAULT_DATABASE)), "the database itself"),
        (("restore", "copy.db", "--database", "memory:"), "no database to restore"),
        (("backup", "b.db", "--database", "none.db"), "Database 'none.db' does not exist"),
        (("check", "--database", "none.db"), "Database 'none.db' does not exist"),
    ):
        refused = statewright("db", *command)
        assert (refused.code, message in refused.err) == (2, True)


def test_failed_copies_name_the_file(folder: Path) -> None:
    (folder / "bad.db").write_bytes(b"no database" * 1000)
    with pytest.raises(DamagedDatabase, match=r"bad\.db"):
        copy_database_file(Path("bad.db"), Path("copy.db"))
    SqliteSaver("good.db").close()
    with pytest.raises(StorageUnavailable, match=r"no/copy\.db cannot be used"):
        copy_database_file(Path("good.db"), Path("no/copy.db"))

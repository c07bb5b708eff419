"""`statewright db copy`: everything moves to another database, or nothing does."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.postgres_server import new_schema_url
from tests.unit.cli.conftest import Command

from statewright.checkpoint import LeaseRequest
from statewright.futures import resolve
from statewright.storage.open import ledger_of, open_database, open_saver, store_of


@pytest.fixture(params=["file", "server"])
def target(request: pytest.FixtureRequest, folder: Path) -> str:
    """The location of a database that does not exist yet."""
    return "copy.db" if request.param == "file" else new_schema_url("of_copies")


@pytest.fixture
def source(statewright: Command, flow: Path) -> str:
    """A file with two threads and an item."""
    for name in ("a", "b"):
        statewright("run", "flow.py:asking", "--thread", name, "-i", "n=1", "--database", "runs.db")
    with open_database("runs.db") as database:
        store_of(database).put(("x",), "y", {"z": 1})
    return "runs.db"


def keys(folder: Path) -> tuple[str, str]:
    (folder / "key").write_bytes(bytes(32))
    (folder / "other").write_bytes(b"k" * 32)
    return "key", "other"


def test_a_copy_is_verified_and_can_be_continued(statewright: Command, source: str, target: str) -> None:
    copied = statewright("db", "copy", source, target)
    assert (copied.code, copied.err) == (0, "")
    assert f"Copied runs.db to {target}: 2 threads, 0 runs, 1 item; " in copied.out
    assert copied.out.endswith(" rows, verified.\n")
    assert statewright("db", "check", "--full", "--database", target).code == 0
    resumed = statewright("resume", "a", "flow.py:asking", "--answer", "7", "--json", "--database", target)
    assert json.loads(resumed.out) == {"n": 7}
    back = statewright("db", "copy", target, "back.db")
    assert back.code == 0
    shown = statewright("threads", "show", "a", "--json", "--database", "back.db")
    assert json.loads(shown.out)["values"] == {"n": 7}


def test_a_target_with_data_is_refused(statewright: Command, source: str, target: str) -> None:
    assert statewright("db", "copy", source, target).code == 0
    again = statewright("db", "copy", source, target)
    assert (again.code, "is not empty" in again.err, again.err.count("\n")) == (1, True, 1)


def test_a_missing_source_is_refused_and_no_target_created(statewright: Command, folder: Path) -> None:
    for source in ("none.db", new_schema_url("missing")):
        refused = statewright("db", "copy", source, "copy.db")
        assert refused.code == (2 if source == "none.db" else 1)
        assert not (folder / "copy.db").exists()
    assert statewright("db", "copy", "memory:", "copy.db").code == 2


def test_a_source_in_use_is_copied_only_with_force(statewright: Command, source: str, target: str) -> None:
    now = datetime.now(UTC)
    with open_saver(source) as saver:
        resolve(saver.renew("a", LeaseRequest("someone", now, now + timedelta(hours=1), claims=True)))
    before = {file.name for file in Path().iterdir()}
    refused = statewright("db", "copy", source, target)
    assert (refused.code, "runs advance threads ('a')" in refused.err, "--force" in refused.err) == (1, True, True)
    assert {file.name for file in Path().iterdir()} == before
    assert statewright("db", "copy", source, target, "--force").code == 0


def test_force_is_not_recommended_for_a_target_that_is_locked(
    statewright: Command, source: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_database("copy.db") as target:
        store_of(target)
        ledger_of(target)
    monkeypatch.setattr("statewright.storage.sqlite.database.BUSY_TIMEOUT", 0.02)
    with closing(sqlite3.connect(folder / "copy.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = statewright("db", "copy", source, "copy.db")
    assert (refused.code, "copy.db" in refused.err, "--force" in refused.err) == (1, True, False)


def test_an_encrypted_database_is_copied_with_the_keys_of_both(
    statewright: Command, source: str, target: str, folder: Path
) -> None:
    key, other = keys(folder)
    assert statewright("db", "copy", source, "secret.db", "--key-file", key).code == 0
    for options in ((), ("--key-file", other)):
        refused = statewright("db", "copy", "secret.db", target, *options)
        assert (refused.code, "--source-key-file" in refused.err) == (2, True)
    wrong = statewright("db", "copy", "secret.db", target, "--source-key-file", other, "--key-file", key)
    assert (wrong.code, "Use the option --source-key-file" in wrong.err) == (2, True)
    unencrypted = statewright("db", "copy", "secret.db", target, "--source-key-file", key)
    assert (unencrypted.code, "--decrypt" in unencrypted.err) == (2, True)
    assert statewright("db", "copy", "secret.db", target, "--source-key-file", key, "--key-file", other).code == 0
    assert statewright("threads", "show", "a", "--database", target, "--key-file", other).code == 0
    assert statewright("db", "copy", target, "plain.db", "--source-key-file", other, "--decrypt").code == 0
    assert statewright("threads", "show", "a", "--database", "plain.db").code == 0


def test_a_failed_copy_can_be_repeated(statewright: Command, source: str, target: str) -> None:
    with open_database(target) as database:
        store_of(database)
        wrong = "CREATE TRIGGER wrong AFTER INSERT ON items BEGIN DELETE FROM items; END"
        right = "DROP TRIGGER wrong"
        if database.has_arrays:
            wrong, right = "CREATE RULE wrong AS ON INSERT TO items DO INSTEAD NOTHING", "DROP RULE wrong ON items"
        database.write(lambda connection: connection.execute(wrong))
        failed = statewright("db", "copy", source, target)
        assert (failed.code, "table items: 1 rows were written, and 0 were read back" in failed.err) == (1, True)
        database.write(lambda connection: connection.execute(right))
    assert statewright("db", "copy", source, target).code == 0

"""The migration of a recorded file of format 1, of a service with two workspaces, assigns threads to workspaces."""

from __future__ import annotations

import asyncio
import gzip
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.durability.test_recorded import LARGEST, RECORDED, script

from statewright import Command
from statewright.errors import NewerFormat
from statewright.runs import Run, RunStatus, where
from statewright.service import Service, StartRun
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver, migrate
from statewright.storage.sqlite import data_version as known
from statewright.storage.sqlite.migrate import FORMAT

recorded = script("make_format1_service")
FILE = RECORDED / "format1_service.db.gz"
PATIENCE = 600.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    path.write_bytes(gzip.decompress(FILE.read_bytes()))
    return path


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    with SqliteDatabase(path) as database:
        yield database


def acme(database: SqliteDatabase) -> str:
    """The id of the workspace that the service created."""
    with database.read() as connection:
        return connection.execute("SELECT id FROM workspaces WHERE slug = 'acme'").fetchone()[0]


def ids_of_runs(database: SqliteDatabase, workspace: str) -> set[str]:
    runs: Any = SqliteLedger(database).find(Run, where(workspace_id=workspace))
    return {run.id for run in runs}


def names(saver: SqliteSaver) -> set[str]:
    entries: Any = saver.threads()
    return {entry.thread_id for entry in entries}


def rows_of(path: Path) -> dict[str, list[Any]]:
    """The rows of all tables except `threads`."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        rows = {table: connection.execute(f'SELECT * FROM "{table}"').fetchall() for table in tables}
        rows.pop("threads")
        return rows


def test_the_file_is_small_and_contains_no_paths() -> None:
    assert FILE.stat().st_size < LARGEST
    content = gzip.decompress(FILE.read_bytes())
    for folder in (b"/work", b"/home", b"/tmp", b"/root"):
        assert folder not in content


def test_threads_are_assigned_to_the_workspace_of_their_runs_or_the_default_one(database: SqliteDatabase) -> None:
    saver = SqliteSaver(database)
    workspace = acme(database)
    assert saver.workspaces() == ["default", workspace]
    own = {run for run in ids_of_runs(database, "default") if run in names(saver)}
    assert names(saver) == {"library", "library-asks", "default-asks", *own}
    assert len(own) == 1
    theirs = names(saver.for_workspace(workspace))
    assert theirs == {"order-7", "shared", *(ids_of_runs(database, workspace) & theirs)}
    assert len(theirs) == 3


def test_content_of_threads_is_unchanged(path: Path) -> None:
    before = rows_of(path)
    with closing(sqlite3.connect(path)) as connection:
        columns = "epoch, owner, until, wanted, changed"
        threads = connection.execute(f"SELECT id, name, {columns} FROM threads ORDER BY id").fetchall()
    SqliteDatabase(path).close()
    assert rows_of(path) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(f"SELECT id, thread_id, {columns} FROM threads ORDER BY id").fetchall() == threads


def test_a_thread_of_two_workspaces_is_assigned_to_that_of_its_first_run_with_a_warning(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "statewright.storage"), SqliteDatabase(path) as database:
        workspace = acme(database)
        assert "shared" in names(SqliteSaver(database, workspace=workspace)) - names(SqliteSaver(database))
    [record] = caplog.records
    assert "'shared'" in record.getMessage()
    assert f"now belongs to workspace {workspace!r}" in record.getMessage()
    assert "default" in record.getMessage()
    caplog.clear()
    SqliteDatabase(path).close()
    assert caplog.records == []


def test_histories_branches_and_events_are_kept(database: SqliteDatabase) -> None:
    saver = SqliteSaver(database)
    talk = recorded.talking().compile(saver)
    assert saver.branches("library") == ["main", "other"]
    assert talk.get_state(thread_id="library").values["count"] == 4
    everything: Any = saver.history("library")
    assert sorted(saved.checkpoint.values.get("count", 0) for saved in everything) == [0, 1, 2, 2, 3, 3, 4, 4]
    theirs: Any = saver.for_workspace(acme(database))
    assert theirs.branches("shared") == ["main", "other"]
    assert theirs.load("order-7").checkpoint.values["log"] == ["acme", "turn 0", "turn 1", "turn 2", "again", "plan"]
    assert saver.load("order-7") is None
    assert saver.events("shared") == []
    assert theirs.events("shared") != []


def test_a_thread_that_the_library_created_continues(database: SqliteDatabase) -> None:
    ask = recorded.asking().compile(SqliteSaver(database))
    assert ask.invoke(Command(resume="yes"), thread_id="library-asks")["log"] == ["library", "plan", "yes", "sent"]


def test_waiting_runs_of_both_workspaces_continue(database: SqliteDatabase) -> None:
    asyncio.run(_answer_both(database))


async def _answer_both(database: SqliteDatabase) -> None:
    workspace = acme(database)
    logs = {
        "default": ["default", "plan", "yes", "sent"],
        workspace: ["acme", "turn 0", "turn 1", "turn 2", "again", "plan", "yes", "sent"],
    }
    async with Service(recorded.catalog(), ledger=SqliteLedger(database), saver=SqliteSaver(database)) as service:
        for name, log in logs.items():
            [wait] = (await service.waits(name)).items
            await service.answer(name, wait.run_id, {wait.interrupt_id: "yes"})
            run = await service.wait(name, wait.run_id, PATIENCE)
            assert (run.status, run.output["log"]) == (RunStatus.COMPLETED, log)


def test_a_thread_id_of_one_workspace_can_be_used_in_the_other(database: SqliteDatabase) -> None:
    asyncio.run(_take_names(database))


async def _take_names(database: SqliteDatabase) -> None:
    workspace = acme(database)
    async with Service(recorded.catalog(), ledger=SqliteLedger(database), saver=SqliteSaver(database)) as service:
        for name, thread in (("default", "order-7"), (workspace, "library"), (workspace, "default-asks")):
            request = StartRun(graph="talks", thread_id=thread, input={"goal": 1, "log": ["new"]})
            started = await service.start_and_wait(name, request, PATIENCE)
            assert started.run.output["log"] == ["new", "turn 0"]
    talk = recorded.talking().compile(SqliteSaver(database))
    assert talk.get_state(thread_id="library").values["count"] == 4


def test_the_migrated_file_has_the_current_format_and_indexes(path: Path) -> None:
    with SqliteDatabase(path) as database:
        SqliteLedger(database)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,) == (2,)
        migrated = _indexes(connection)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    new = path.with_name("new.db")
    with SqliteDatabase(new) as database:
        SqliteLedger(database)
    with closing(sqlite3.connect(new)) as connection:
        assert _indexes(connection) == migrated


def _indexes(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the definition of each index, by name."""
    rows = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'workflow_runs'")
    return {name: sql.partition(" ON ")[2] for name, sql in rows if sql}


def test_a_program_of_format_1_refuses_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SqliteDatabase(path).close()
    monkeypatch.setattr(known, "FORMAT", 1)
    with pytest.raises(NewerFormat, match=r"has format 2.*reads up to 1"):
        SqliteDatabase(path)


def test_a_program_of_format_1_with_an_open_file_cannot_access_threads(path: Path) -> None:
    """Its statements name a removed column, so it cannot confuse threads of two workspaces."""
    with closing(sqlite3.connect(path, isolation_level=None)) as old:
        select = "SELECT id, epoch, owner, until, wanted FROM threads WHERE name = ?"
        assert old.execute(select, ("order-7",)).fetchone() is not None
        SqliteDatabase(path).close()
        for statement, values in (
            (select, ("order-7",)),
            ("INSERT INTO threads (name, changed) VALUES (?, ?)", ("new", 0)),
            ("UPDATE threads SET wanted = ? WHERE name = ? AND owner IS NOT NULL", ("x", "order-7")),
        ):
            with pytest.raises(sqlite3.OperationalError, match="name"):
                old.execute(statement, values)


def test_an_interrupted_migration_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = migrate.STEPS

    def failing(connection: sqlite3.Connection, seal: Any) -> None:
        steps[1](connection, seal)
        raise KeyboardInterrupt

    monkeypatch.setattr(migrate, "STEPS", (steps[0], failing))
    with pytest.raises(KeyboardInterrupt):
        SqliteDatabase(path)
    monkeypatch.undo()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM threads WHERE name = 'order-7'").fetchone() == (1,)
    with SqliteDatabase(path) as database:
        assert acme(database) in SqliteSaver(database).workspaces()  # type: ignore[operator]


def test_several_os_threads_can_open_an_old_file_concurrently(path: Path) -> None:
    async def together() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(SqliteSaver, path) for _ in range(4)))

    savers = asyncio.run(together())
    assert [saver.workspaces() for saver in savers] == [savers[0].workspaces()] * 4
    for saver in savers:
        saver.close()

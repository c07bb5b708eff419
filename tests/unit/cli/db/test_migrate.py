"""`statewright db migrate` creates the tables of a database, migrates older ones, and checks without changing them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.data_version import FORMAT
from statewright.storage.sqlite.migrate import STEPS


def create_format_1(path: Path) -> None:
    """Create a file as the first version of the format had it."""
    with closing(sqlite3.connect(path)) as connection:
        STEPS[0](connection, Encryptor(None))
        connection.execute("PRAGMA user_version = 1")
        connection.commit()


def format_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def tables_of(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def test_a_new_database_gets_all_tables_of_a_server(statewright: Command, folder: Path) -> None:
    created = statewright("db", "migrate", "--database", "data/runs.db")
    assert (created.code, created.out) == (0, f"Created the tables of data/runs.db (format {FORMAT}).\n")
    assert {"threads", "workflow_runs", "items"} <= tables_of(folder / "data/runs.db")
    assert json.loads(statewright("workers", "ls", "--json", "--database", "data/runs.db").out) == []


def test_an_older_database_is_migrated_once(statewright: Command, folder: Path) -> None:
    create_format_1(folder / "runs.db")
    migrated = statewright("db", "migrate", "--database", "runs.db")
    assert (migrated.code, migrated.out) == (0, f"Migrated runs.db from format 1 to format {FORMAT}.\n")
    assert format_of(folder / "runs.db") == FORMAT
    again = statewright("db", "migrate", "--database", "runs.db")
    assert (again.code, again.out) == (0, f"runs.db is up to date (format {FORMAT}).\n")


def test_a_check_changes_nothing(statewright: Command, folder: Path) -> None:
    missing = statewright("db", "migrate", "--check", "--database", "none.db")
    assert (missing.code, (folder / "none.db").exists()) == (1, False)
    assert "has no tables of Statewright. Create them with: statewright db migrate --database none.db\n" in missing.err
    create_format_1(folder / "old.db")
    old = statewright("db", "migrate", "--check", "--database", "old.db")
    assert (old.code, format_of(folder / "old.db")) == (1, 1)
    assert f"has format 1, and this version of Statewright uses format {FORMAT}" in old.err
    assert statewright("db", "migrate", "--database", "old.db").code == 0
    assert statewright("db", "migrate", "--check", "--database", "old.db").code == 0


@pytest.mark.parametrize("option", [(), ("--check",)])
def test_a_database_of_a_newer_version_is_refused(statewright: Command, folder: Path, option: tuple[str, ...]) -> None:
    create_format_1(folder / "new.db")
    with closing(sqlite3.connect(folder / "new.db")) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    refused = statewright("db", "migrate", *option, "--database", "new.db")
    assert (refused.code, "SW-newer-format" in refused.err) == (1, True)
    assert format_of(folder / "new.db") == FORMAT + 1


def test_the_database_is_that_of_the_project(statewright: Command, folder: Path) -> None:
    (folder / "statewright.toml").write_text('[serve]\ndatabase = "data/project.db"\n', encoding="utf-8")
    assert statewright("db", "migrate").code == 0
    assert (folder / "data/project.db").exists()


def test_a_file_of_another_program_is_refused(statewright: Command, folder: Path) -> None:
    with closing(sqlite3.connect(folder / "letters.db")) as connection:
        connection.execute("CREATE TABLE letters (x)")
    refused = statewright("db", "migrate", "--database", "letters.db")
    assert (refused.code, "is not a Statewright database" in refused.err) == (2, True)
    assert tables_of(folder / "letters.db") == {"letters"}

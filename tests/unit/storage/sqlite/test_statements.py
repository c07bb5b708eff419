"""The SQL statements of modules, which are read from files."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from statewright.storage.sqlite import statements as module
from statewright.storage.sqlite.statements import run_script, script, statements

FOLDER = Path(module.__file__).parent / "sql"
FILES = sorted(file.stem for file in FOLDER.glob("*.sql"))


@pytest.mark.parametrize("name", FILES)
def test_each_file_begins_with_a_comment(name: str) -> None:
    assert script(name).startswith("-- ")


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith("_tables")])
def test_each_statement_is_complete_and_each_file_is_used(name: str) -> None:
    assert any(f'statements("{name}")' in file.read_text("utf-8") for file in FOLDER.parent.parent.rglob("*.py"))
    assert statements(name)
    for text in statements(name).values():
        assert sqlite3.complete_statement(text + ";")
        assert not text.endswith(";")


def test_a_script_runs_inside_the_current_transaction() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("BEGIN")
    run_script(connection, "0001_tables")
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("name", FILES)
def test_placeholders_are_not_numbered(name: str) -> None:
    """Python 3.12.0 to 3.12.3 treat numbered placeholders as named ones, and warn if they get a sequence."""
    assert not re.search(r"\?\d", script(name))

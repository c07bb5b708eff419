"""Records as rows: the tables hold what the classes of records say, no less and no more."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.errors import DamagedDatabase, InvalidConfig
from statewright.runs import RECORDS, Approval, Column, Record, Run, RunStatus, columns_of
from statewright.storage.encryption import Encryptor
from statewright.storage.ledger.tables import Table, Tables, decrypted_json, encrypted_json
from statewright.storage.sqlite.statements import run_script, statements
from statewright.testing.conformance.ledger.samples import full_record, minimal_record, run

TYPES = {"text": "TEXT", "integer": "INTEGER", "flag": "INTEGER", "instant": "INTEGER", "status": "TEXT"}
TYPES |= {"real": "REAL", "json": "BLOB", "names": "TEXT", "sealed": "TEXT"}
SHARED: Any = {"statements": statements, "executes_late": False, "has_arrays": False}
PLAIN: Any = SimpleNamespace(encryptor=Encryptor(), **SHARED)
ENCRYPTED: Any = SimpleNamespace(
    encryptor=Encryptor(b"k" * 32), statements=statements, executes_late=False, has_arrays=False
)
"""What tables need of a database."""
SHOWN = {"id", "name", "slug", "workspace_id", "run_id", "task_id", "step_id", "step_name", "interrupt_id", "thread_id"}
SHOWN |= {"graph", "definition_id", "version", "kind", "type", "event", "event_type", "signal_type", "model", "value"}
SHOWN |= {"idempotency_key", "concurrency_key", "key", "queue", "on_busy", "source", "parent_id", "current_step"}
SHOWN |= {"claim", "worker_id", "webhook_id", "last_run_id", "status", "decision", "decided_by_key", "content_key"}
SHOWN |= {"day", "cron", "timezone", "overlap", "catch_up", "digest", "prefix", "place", "process_started", "events"}
"""Names, ids and choices: what records are found by, or what says nothing of the work. The guide tells of them."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.fixture
def connection() -> Any:
    connection = sqlite3.connect(":memory:")
    run_script(connection, "ledger_tables")
    yield connection
    connection.close()


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_each_field_has_its_column_and_each_column_its_field(connection: Any, kind: type[Record]) -> None:
    found = {
        name: (kind_of, bool(must_be or in_key))
        for _, name, kind_of, must_be, _, in_key in connection.execute(f"PRAGMA table_info({kind.TABLE})")
    }
    if kind is Run:
        assert found.pop("number") == ("INTEGER", True)
    expected = {one.name: (TYPES[one.kind], not one.optional) for one in columns_of(kind)}
    assert found == expected


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_what_tells_records_apart_is_unique_in_the_table(connection: Any, kind: type[Record]) -> None:
    found = {
        tuple(column for _, _, column in connection.execute(f"PRAGMA index_info('{name}')"))
        for _, name, unique, *_ in connection.execute(f"PRAGMA index_list({kind.TABLE})")
        if unique
    }
    assert found == {("id",), *kind.UNIQUE}


def test_the_tables_are_made_once(connection: Any) -> None:
    run_script(connection, "ledger_tables")
    assert connection.execute("SELECT * FROM ledger").fetchall() == [(4,)]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == {"ledger", "run_events", "run_inputs", *(kind.TABLE for kind in RECORDS)}


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_a_record_becomes_a_row_and_a_record_again(kind: type[Record]) -> None:
    table: Table[Any] = Table(kind, PLAIN)
    for one in (full_record(kind, "1"), minimal_record(kind, "2")):
        row = table.row(one)
        assert {type(value) for value in row} <= {str, int, float, bytes, type(None)}
        again = table.record(row)
        assert again == one
        assert again is not one


def test_a_row_that_is_no_record_is_damage() -> None:
    table = Table(Run, PLAIN)
    row = table.row(run())
    for place, value in ((table.names.index("status"), "x"), (table.names.index("tags"), b"["), (0, row)):
        changed = [*row[:place], value, *row[place + 1 :]] if place else row[1:]
        with pytest.raises(DamagedDatabase, match="a record of workflow_runs cannot be decoded"):
            table.record(changed)


def test_values_of_columns_are_stored_alone_too() -> None:
    table = Table(Run, PLAIN)
    one = replace(run(), status=RunStatus.WAITING, begun=True)
    stored = [table.encoded(name, getattr(one, name)) for name in ("status", "begun", "created_at", "due_at")]
    assert stored == ["waiting", 1, 1767270615123456, None]
    assert table.decoded(["status", "begun", "created_at", "due_at"], stored) == (
        RunStatus.WAITING,
        True,
        one.created_at,
        None,
    )
    assert table.encoded("status", "waiting") == "waiting"


def test_an_unknown_column_is_refused() -> None:
    table = Table(Run, PLAIN)
    with pytest.raises(InvalidConfig, match=r"no column 'satus'\. Did you mean 'status'\?"):
        table.encoded("satus", "x")
    table.check_column("metadata")
    with pytest.raises(InvalidConfig, match="holds JSON"):
        table.check_column("metadata", searched=True)


def test_in_text_that_may_be_encrypted_nothing_can_be_looked_for() -> None:
    for encryptor in (PLAIN, ENCRYPTED):
        with pytest.raises(InvalidConfig, match="prompt holds text that may be encrypted"):
            Table(Approval, encryptor).check_column("prompt", searched=True)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_an_encrypted_row_shows_names_and_numbers_alone(kind: type[Record]) -> None:
    table = Table(kind, ENCRYPTED)
    one = full_record(kind, "1")
    row = dict(zip(table.names, table.row(one), strict=True))
    shown = {name for name, value in row.items() if isinstance(value, str) and table.columns[name].kind != "status"}
    assert shown <= SHOWN
    assert all(row[one.name][:2] == b"\xc1e" for one in columns_of(kind) if one.kind in ("json", "sealed"))
    assert table.record(list(row.values())) == one


def test_text_of_an_encrypted_database_that_was_not_sealed_can_be_read_still() -> None:
    one = full_record(Approval, "1")
    assert (
        Table(Approval, ENCRYPTED).record(Table(Approval, PLAIN).row(replace(one, content=None))).prompt == one.prompt
    )


def test_a_table_is_prepared_when_it_is_met() -> None:
    tables = Tables(PLAIN)
    assert not tables
    assert tables[Run] is tables[Run]
    assert list(tables) == [Run]


@given(JSON)
def test_json_comes_back_as_it_was(value: Any) -> None:
    again = decrypted_json(PLAIN.encryptor, encrypted_json(PLAIN.encryptor, value))
    assert again == value
    assert repr(again) == repr(value)


def test_columns_say_what_they_hold() -> None:
    found = {one.name: one for one in columns_of(Run)}
    assert found["due_at"].optional
    assert found["input"] == Column("input", "json", object, True)

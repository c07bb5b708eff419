"""Records as rows: tables match the classes of records, values are converted, and encrypted rows hide content."""

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
"""A stand-in with the attributes of a database that tables use."""
SHOWN = {"id", "name", "slug", "workspace_id", "run_id", "task_id", "step_id", "step_name", "interrupt_id", "thread_id"}
SHOWN |= {"graph", "definition_id", "version", "kind", "type", "event", "event_type", "signal_type", "model", "value"}
SHOWN |= {
    "idempotency_key",
    "concurrency_key",
    "key",
    "queue",
    "queues",
    "sequence",
    "versions",
    "host",
    "on_busy",
    "source",
    "parent_id",
    "current_step",
}
SHOWN |= {
    "claim",
    "worker_id",
    "webhook_id",
    "last_run_id",
    "status",
    "decision",
    "decided_by_key",
    "content_key",
    "key_id",
}
SHOWN |= {"day", "cron", "timezone", "overlap", "catch_up", "digest", "prefix", "place", "process_started", "events"}
SHOWN |= {"key_id", "sent_by_key"}
"""Columns that stay readable in an encrypted database: names, ids and choices. The guide lists them."""
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
def test_fields_and_columns_correspond(connection: Any, kind: type[Record]) -> None:
    columns = {
        name: (type_name, bool(not_null or in_key))
        for _, name, type_name, not_null, _, in_key in connection.execute(f"PRAGMA table_info({kind.TABLE})")
    }
    if kind is Run:
        assert columns.pop("number") == ("INTEGER", True)
        assert columns.pop("held_by") == ("TEXT", False)
    expected = {column.name: (TYPES[column.kind], not column.optional) for column in columns_of(kind)}
    assert columns == expected


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_unique_fields_are_unique_in_the_table(connection: Any, kind: type[Record]) -> None:
    unique_columns = {
        tuple(column for _, _, column in connection.execute(f"PRAGMA index_info('{name}')"))
        for _, name, unique, *_ in connection.execute(f"PRAGMA index_list({kind.TABLE})")
        if unique
    }
    assert unique_columns == {("id",), *kind.UNIQUE}


def test_creating_the_tables_again_changes_nothing(connection: Any) -> None:
    run_script(connection, "ledger_tables")
    assert connection.execute("SELECT * FROM ledger").fetchall() == [(8,)]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == {"ledger", "run_events", "run_inputs", *(kind.TABLE for kind in RECORDS)}


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_a_record_survives_conversion_to_a_row(kind: type[Record]) -> None:
    table: Table[Any] = Table(kind, PLAIN)
    for record in (full_record(kind, "1"), minimal_record(kind, "2")):
        row = table.row(record)
        assert {type(value) for value in row} <= {str, int, float, bytes, type(None)}
        restored = table.record(row)
        assert restored == record
        assert restored is not record


def test_an_invalid_row_raises_damaged_database() -> None:
    table = Table(Run, PLAIN)
    row = table.row(run())
    for index, value in ((table.names.index("status"), "x"), (table.names.index("tags"), b"["), (0, row)):
        changed = [*row[:index], value, *row[index + 1 :]] if index else row[1:]
        with pytest.raises(DamagedDatabase, match="a record of workflow_runs cannot be decoded"):
            table.record(changed)


def test_single_values_of_columns_are_encoded_and_decoded() -> None:
    table = Table(Run, PLAIN)
    record = replace(run(), status=RunStatus.WAITING, begun=True)
    stored = [table.encoded(name, getattr(record, name)) for name in ("status", "begun", "created_at", "due_at")]
    assert stored == ["waiting", 1, 1767270615123456, None]
    assert table.decoded(["status", "begun", "created_at", "due_at"], stored) == (
        RunStatus.WAITING,
        True,
        record.created_at,
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


def test_text_that_may_be_encrypted_cannot_be_searched() -> None:
    for encryptor in (PLAIN, ENCRYPTED):
        with pytest.raises(InvalidConfig, match="prompt holds text that may be encrypted"):
            Table(Approval, encryptor).check_column("prompt", searched=True)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.TABLE)
def test_an_encrypted_row_shows_only_names_and_numbers(kind: type[Record]) -> None:
    table = Table(kind, ENCRYPTED)
    one = full_record(kind, "1")
    row = dict(zip(table.names, table.row(one), strict=True))
    readable = {name for name, value in row.items() if isinstance(value, str) and table.columns[name].kind != "status"}
    assert readable <= SHOWN
    assert all(row[column.name][:2] == b"\xc1e" for column in columns_of(kind) if column.kind in ("json", "sealed"))
    assert table.record(list(row.values())) == one


def test_unencrypted_text_of_an_encrypted_database_can_be_read() -> None:
    record = full_record(Approval, "1")
    assert (
        Table(Approval, ENCRYPTED).record(Table(Approval, PLAIN).row(replace(record, content=None))).prompt
        == record.prompt
    )


def test_a_table_is_prepared_at_its_first_use() -> None:
    tables = Tables(PLAIN)
    assert not tables
    assert tables[Run] is tables[Run]
    assert list(tables) == [Run]


@given(JSON)
def test_json_survives_encryption_and_decryption(value: Any) -> None:
    restored = decrypted_json(PLAIN.encryptor, encrypted_json(PLAIN.encryptor, value))
    assert restored == value
    assert repr(restored) == repr(value)


def test_columns_have_the_kind_and_optionality_of_fields() -> None:
    columns = {column.name: column for column in columns_of(Run)}
    assert columns["due_at"].optional
    assert columns["input"] == Column("input", "json", object, True)

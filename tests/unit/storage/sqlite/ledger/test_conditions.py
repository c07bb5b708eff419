"""Conditions as SQL: parameters, few distinct statements, and indexes for the queries of the service."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from statewright.runs import (
    Among,
    Approval,
    Condition,
    Delivery,
    Insert,
    ModelCall,
    Order,
    Run,
    RunLabel,
    RunStatus,
    Schedule,
    Signal,
    StepRun,
    Wait,
    where,
)
from statewright.storage.encryption import Encryptor
from statewright.storage.ledger.conditions import conditions, order_by
from statewright.storage.ledger.tables import Tables
from statewright.storage.sqlite import SqliteLedger
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.statements import statements
from statewright.testing.conformance.ledger.samples import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHARED: Any = {"statements": statements, "executes_late": False, "has_arrays": False}
TABLES = Tables(cast("Any", SimpleNamespace(encryptor=Encryptor(), **SHARED)))


def sql_of(*parts: Any) -> str:
    return conditions(TABLES, Run, [Condition(*part) for part in parts])[0]


def test_no_conditions_select_all_records() -> None:
    assert conditions(TABLES, Run, ()) == ("TRUE", [])


def test_values_become_parameters() -> None:
    sql = conditions(TABLES, Run, [Condition("graph", "=", "g' OR 1"), Condition("due_at", "<", NOW)])
    assert sql == ('"graph" = ? AND "due_at" < ?', ["g' OR 1", 1767225600000000])


def test_comparisons_with_none_use_is_null() -> None:
    assert sql_of(("claim", "=", None), ("claim", "!=", None)) == '"claim" IS NULL AND "claim" IS NOT NULL'
    assert sql_of(("claim", "!=", "x")) == '("claim" <> ? OR "claim" IS NULL)'
    assert sql_of(("due_at", "<", None)) == "FALSE"


def test_lists_are_padded_so_that_few_statements_are_needed() -> None:
    texts = {sql_of(("id", "in", [str(n) for n in range(length)])) for length in range(1, 1025)}
    assert len(texts) == 11
    text, values = conditions(TABLES, Run, [Condition("id", "in", list("abc"))])
    assert (text, values) == ('"id" IN (?, ?, ?, ?)', ["a", "b", "c", "c"])


def test_a_long_list_is_passed_as_one_parameter() -> None:
    many = [f"r{n}" for n in range(5000)]
    text, values = conditions(TABLES, Run, [Condition("id", "in", many)])
    assert (text.count("?"), len(values)) == (1, 1)
    assert conditions(TABLES, Run, [Condition("id", "in", [*many, "a\0b"])]) == (text, values)


def test_text_with_a_null_character_matches_no_record() -> None:
    texts = [sql_of(("id", "=", "a\0")), sql_of(("id", "!=", "a\0")), sql_of(("id", "in", ["a\0"]))]
    assert texts == ["FALSE", "TRUE", "FALSE"]


def test_the_order_ends_with_the_id() -> None:
    assert order_by(TABLES[Run], None) == '"id"'
    assert order_by(TABLES[Run], Order("due_at", descending=True)) == '"due_at" DESC NULLS LAST, "id"'


LABELLED = Condition("id", "in", Among(RunLabel, "run_id", where(name="team", value="red")))
ACTIVE = Condition("status", "in", [RunStatus.RUNNING, RunStatus.PENDING])
QUERIES: list[Any] = [
    (Run, where(id="x"), None),
    (Run, where(workspace_id="w"), Order("created_at", True)),
    (Run, [*where(workspace_id="w"), ACTIVE], Order("created_at", True)),
    (Run, [ACTIVE], None),
    (Run, where(workspace_id="w1", thread_id="t"), None),
    (Run, where(parent_id="p"), None),
    (Run, where(workspace_id="w", idempotency_key="k"), None),
    (Run, [Condition("claim", "!=", None), *where(worker_id="w")], None),
    (Run, [Condition("deadline_at", "<=", NOW)], Order("deadline_at")),
    (Run, [*where(workspace_id="w"), LABELLED], Order("created_at", True)),
    (RunLabel, where(run_id="r"), None),
    (StepRun, where(run_id="r"), Order("superstep")),
    (ModelCall, where(run_id="r"), None),
    (ModelCall, [*where(workspace_id="w"), Condition("created_at", ">=", NOW)], None),
    (Wait, where(run_id="r"), None),
    (Wait, where(workspace_id="w"), Order("created_at", True)),
    (Signal, where(run_id="r", taken=False), Order("created_at")),
    (Signal, where(run_id="r", key="k"), None),
    (Approval, where(workspace_id="w", decision=None), Order("created_at", True)),
    (Approval, where(workspace_id="w"), Order("created_at", True)),
    (Approval, where(run_id="r"), None),
    (Delivery, [Condition("due_at", "<=", NOW), *where(status="pending")], Order("due_at")),
    (Delivery, where(webhook_id="h"), Order("created_at", True)),
    (Schedule, [Condition("next_at", "<=", NOW), *where(paused=False)], Order("next_at")),
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_queries_of_the_service_use_an_index(database: SqliteDatabase, query: Any) -> None:
    ledger = SqliteLedger(database)
    ledger.write([Insert(run())])
    kind, conditions, order = query
    executed: list[tuple[str, Any]] = []
    with database.read() as connection:
        connection.set_trace_callback(lambda text: executed.append((text, None)))
    ledger.find(kind, conditions, order=order, limit=20)
    with database.read() as connection:
        connection.set_trace_callback(None)
        (sql,) = [text for text, _ in executed if text.startswith("SELECT")]
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
    accesses = [step for step in plan if re.match("SCAN|SEARCH", step)]
    assert accesses
    for step in accesses:
        assert re.search(r"USING (COVERING )?(INDEX|PRIMARY KEY)", step), plan
        assert step.startswith("SEARCH"), plan

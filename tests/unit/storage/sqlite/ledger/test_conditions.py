"""Conditions as SQL: few statements, values apart from them, and an index for what a service asks."""

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


def text_of(*given: Any) -> str:
    return conditions(TABLES, Run, [Condition(*one) for one in given])[0]


def test_no_conditions_are_met_by_all() -> None:
    assert conditions(TABLES, Run, ()) == ("TRUE", [])


def test_values_stand_apart() -> None:
    found = conditions(TABLES, Run, [Condition("graph", "=", "g' OR 1"), Condition("due_at", "<", NOW)])
    assert found == ('"graph" = ? AND "due_at" < ?', ["g' OR 1", 1767225600000000])


def test_none_is_part_of_the_text() -> None:
    assert text_of(("claim", "=", None), ("claim", "!=", None)) == '"claim" IS NULL AND "claim" IS NOT NULL'
    assert text_of(("claim", "!=", "x")) == '("claim" <> ? OR "claim" IS NULL)'
    assert text_of(("due_at", "<", None)) == "FALSE"


def test_lists_of_many_lengths_are_few_statements() -> None:
    texts = {text_of(("id", "in", [str(n) for n in range(length)])) for length in range(1, 1025)}
    assert len(texts) == 11
    text, values = conditions(TABLES, Run, [Condition("id", "in", list("abc"))])
    assert (text, values) == ('"id" IN (?, ?, ?, ?)', ["a", "b", "c", "c"])


def test_long_lists_are_one_value() -> None:
    many = [f"r{n}" for n in range(5000)]
    text, values = conditions(TABLES, Run, [Condition("id", "in", many)])
    assert (text.count("?"), len(values)) == (1, 1)
    assert conditions(TABLES, Run, [Condition("id", "in", [*many, "a\0b"])]) == (text, values)


def test_text_with_a_null_character_matches_no_record() -> None:
    texts = [text_of(("id", "=", "a\0")), text_of(("id", "!=", "a\0")), text_of(("id", "in", ["a\0"]))]
    assert texts == ["FALSE", "TRUE", "FALSE"]


def test_order_is_by_ids_last() -> None:
    assert order_by(TABLES[Run], None) == '"id"'
    assert order_by(TABLES[Run], Order("due_at", descending=True)) == '"due_at" DESC NULLS LAST, "id"'


LABELLED = Condition("id", "in", Among(RunLabel, "run_id", where(name="team", value="red")))
ACTIVE = Condition("status", "in", [RunStatus.RUNNING, RunStatus.PENDING])
QUESTIONS: list[Any] = [
    (Run, where(id="x"), None),
    (Run, where(workspace_id="w"), Order("created_at", True)),
    (Run, [*where(workspace_id="w"), ACTIVE], Order("created_at", True)),
    (Run, [ACTIVE], None),
    (Run, where(workspace_id="w1", thread_id="t"), None),
    (Run, where(parent_id="p"), None),
    (Run, where(workspace_id="w", idempotency_key="k"), None),
    (Run, [Condition("claim", "!=", None), *where(worker_id="w")], None),
    (Run, [Condition("due_at", "<=", NOW), *where(claim=None)], Order("due_at")),
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


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_what_a_service_asks_is_found_by_an_index(database: SqliteDatabase, question: Any) -> None:
    ledger = SqliteLedger(database)
    ledger.write([Insert(run())])
    kind, fitting, order = question
    asked: list[tuple[str, Any]] = []
    with database.read() as connection:
        connection.set_trace_callback(lambda text: asked.append((text, None)))
    ledger.find(kind, fitting, order=order, limit=20)
    with database.read() as connection:
        connection.set_trace_callback(None)
        (sql,) = [text for text, _ in asked if text.startswith("SELECT")]
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
    looked = [step for step in plan if re.match("SCAN|SEARCH", step)]
    assert looked
    for step in looked:
        assert re.search(r"USING (COVERING )?(INDEX|PRIMARY KEY)", step), plan
        assert step.startswith("SEARCH"), plan

"""Claims of runs: use of indexes, and few statements for runs that have to wait."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from statewright.runs import ENDED, Advance, Insert, Run, RunStatus, Update, Workspace, where
from statewright.storage.sqlite import SqliteLedger
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.statements import statements
from statewright.testing.conformance.ledger.samples import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATEMENTS = statements("ledger")


@pytest.fixture
def ledger(database: SqliteDatabase) -> SqliteLedger:
    return SqliteLedger(database)


@contextmanager
def traced_statements(ledger: SqliteLedger) -> Iterator[list[str]]:
    """Yield a list of the statements that the writing connection executes."""
    executed: list[str] = []
    ledger.database.write(lambda connection: connection.set_trace_callback(executed.append))
    yield executed
    ledger.database.write(lambda connection: connection.set_trace_callback(None))


def claim(ledger: SqliteLedger, limit: int = 10) -> list[str]:
    runs: Any = ledger.claim("w", NOW, limit)
    return [record.id for record in runs]


@pytest.mark.parametrize("statement", ["ahead_on_thread", "ahead_in_queue"])
def test_queries_for_earlier_runs_cover_all_statuses_before_the_end(statement: str) -> None:
    for status in RunStatus:
        assert (f"'{status}'" in STATEMENTS[statement]) == (status not in ENDED)


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("due", "SEARCH workflow_runs USING INDEX runs_due"),
        ("ahead_on_thread", "SEARCH workflow_runs USING INDEX runs_by_thread"),
        ("ahead_in_queue", "SEARCH workflow_runs USING INDEX runs_by_queue"),
        ("at_work", "SEARCH workflow_runs USING COVERING INDEX runs_at_work"),
        ("at_work_with_key", "SEARCH workflow_runs USING COVERING INDEX runs_at_work_by_key"),
    ],
)
def test_statements_of_a_claim_use_indexes(ledger: SqliteLedger, statement: str, index: str) -> None:
    sql = STATEMENTS[statement]
    with ledger.database.read() as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", ["x"] * sql.count("?")).fetchall()
    assert plan[0][3].startswith(index)
    assert not any("TEMP B-TREE" in row[3] for row in plan)


def test_a_claim_without_due_runs_executes_one_query(ledger: SqliteLedger) -> None:
    ledger.write([Insert(run(f"r{n}", due_at=NOW + timedelta(days=1))) for n in range(50)])
    with traced_statements(ledger) as executed:
        assert claim(ledger) == []
    assert [statement.strip().rpartition("\n")[2] for statement in executed if "workflow_runs" in statement] == [
        "ORDER BY due_at, id LIMIT 11"
    ]


def test_runs_of_a_full_workspace_are_skipped_with_few_queries(ledger: SqliteLedger) -> None:
    ledger.write([Insert(Workspace(id="full", slug="full", max_running=1, created_at=NOW))])
    ledger.write([Insert(run(f"r{n:05}", workspace_id="full", due_at=NOW)) for n in range(3000)])
    ledger.write([Insert(run("s1", due_at=NOW)), Insert(run("s2", due_at=NOW))])
    with traced_statements(ledger) as executed:
        assert claim(ledger, 5) == ["r00000", "s1", "s2"]
    assert 5 < len([statement for statement in executed if "SELECT" in statement]) < 12


def test_two_ledgers_on_one_file_claim_different_runs(database: SqliteDatabase) -> None:
    first = SqliteLedger(database)
    first.write([Insert(run(f"r{n}", due_at=NOW)) for n in range(4)])
    with SqliteLedger(database.path) as second:
        assert claim(first, 2) + claim(second, 3) == ["r0", "r1", "r2", "r3"]


def test_a_write_with_a_lost_claim_is_refused(ledger: SqliteLedger) -> None:
    ledger.write([Insert(run("r1", due_at=NOW))])
    (first,) = list(ledger.claim("w", NOW, 1))  # type: ignore[arg-type]
    ledger.write([Update(Run, "r1", {"claim": None, "due_at": NOW})])
    (second,) = list(ledger.claim("w", NOW, 1))  # type: ignore[arg-type]
    with pytest.raises(Exception, match="does not exist with claim"):
        ledger.write([Advance("r1", NOW, {"graph": "x"}, (), where(claim=first.claim))])
    ledger.write([Advance("r1", NOW, {"graph": "x"}, (), where(claim=second.claim))])


def test_a_rolled_back_claim_claims_nothing(ledger: SqliteLedger) -> None:
    ledger.write([Insert(run("r1", due_at=NOW))])

    def fail(connection: sqlite3.Connection) -> None:
        from statewright.storage.ledger.claim import claim_runs
        from statewright.storage.ledger.tables import Tables

        assert len(claim_runs(connection, Tables(ledger.database), "w", 2**60, 5)) == 1
        raise KeyError("now")

    with pytest.raises(KeyError):
        ledger.database.write(fail)
    assert claim(ledger) == ["r1"]

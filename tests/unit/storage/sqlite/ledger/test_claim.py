"""Claims of runs: use of indexes, and few statements for runs that have to wait."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from statewright.runs import (
    ENDED,
    Advance,
    ExcludedVersion,
    Insert,
    Queue,
    QueueSize,
    Run,
    RunStatus,
    Update,
    Workspace,
    where,
)
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


@pytest.mark.parametrize("statement", ["begun_on_thread", "begun_in_sequence"])
def test_queries_for_earlier_runs_cover_all_runs_that_have_not_ended(statement: str) -> None:
    ended = STATEMENTS[statement].partition("NOT IN (")[2].partition(")")[0]
    assert ended.split(", ") == [f"'{status}'" for status in RunStatus if status in ENDED]


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("next_due_group", "SEARCH workflow_runs USING INDEX runs_due"),
        ("due", "SEARCH workflow_runs USING INDEX runs_due"),
        ("size_of_due_group", "SEARCH workflow_runs USING INDEX runs_due"),
        ("first_due", "SEARCH workflow_runs USING INDEX runs_due"),
        ("begun_on_thread", "SEARCH workflow_runs USING INDEX runs_begun_on_thread"),
        ("pending_on_thread", "SEARCH workflow_runs USING INDEX runs_by_thread"),
        ("begun_in_sequence", "SEARCH workflow_runs USING INDEX runs_begun_in_sequence"),
        ("pending_in_sequence", "SEARCH workflow_runs USING INDEX runs_pending_in_sequence"),
        ("claimed_in_workspace", "SEARCH workflow_runs USING COVERING INDEX runs_claimed"),
        ("claimed_with_key", "SEARCH workflow_runs USING COVERING INDEX runs_claimed_by_key"),
        ("claimed_in_queue", "SEARCH workflow_runs USING COVERING INDEX runs_claimed_by_queue"),
        ("next_held_workspace", "SEARCH workflow_runs USING INDEX runs_held_in_workspace"),
        ("next_held_key", "SEARCH workflow_runs USING INDEX runs_held_by_key"),
        ("next_group_in_workspace", "SEARCH workflow_runs USING INDEX runs_held_in_workspace"),
        ("next_group_with_key", "SEARCH workflow_runs USING INDEX runs_held_with_key"),
        ("held_in_workspace", "SEARCH workflow_runs USING INDEX runs_held_in_workspace"),
        ("held_with_key", "SEARCH workflow_runs USING INDEX runs_held_with_key"),
    ],
)
def test_statements_of_a_claim_use_indexes(ledger: SqliteLedger, statement: str, index: str) -> None:
    sql = STATEMENTS[statement]
    with ledger.database.read() as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", ["x"] * sql.count("?")).fetchall()
    assert f"{plan[0][3]} ".startswith(f"{index} ")
    # The runs of one thread or sequence that have begun are few, and may be sorted.
    assert statement.startswith("begun") or not any("TEMP B-TREE" in row[3] for row in plan)


@pytest.mark.parametrize(
    ("statement", "values", "last"),
    [
        ("next_due_group", {}, ("default", "", 0, 0)),
        ("next_held_workspace", {"held_by": "limit of workspace"}, ("w1",)),
        ("next_group_in_workspace", {"held_by": "limit of workspace"}, ("w1", "default", "", 0, 0)),
        ("next_held_key", {"held_by": "limit of key"}, ("w1", "k")),
        ("next_group_with_key", {"held_by": "limit of key"}, ("w1", "k", 1, "default", "", 0, 0)),
    ],
)
def test_the_end_of_a_group_is_found_without_reading_its_runs(
    ledger: SqliteLedger, statement: str, values: dict[str, str], last: tuple[Any, ...]
) -> None:
    key = {"concurrency_key": "k", "concurrency_limit": 1}
    ledger.write([Insert(run(f"r{n}", due_at=NOW, **key)) for n in range(500)])
    held_by = values.get("held_by")
    ledger.database.write(lambda connection: connection.execute("UPDATE workflow_runs SET held_by = ?", (held_by,)))
    steps: list[int] = []
    with ledger.database.read() as connection:
        connection.execute(STATEMENTS[statement], last).fetchall()  # the statement is compiled
        connection.set_progress_handler(lambda: steps.append(1), 1)  # called for each instruction
        rows = connection.execute(STATEMENTS[statement], last).fetchall()
        connection.set_progress_handler(None, 0)
    assert rows == []
    assert 0 < len(steps) < 100


def test_the_sizes_of_queues_cost_the_same_however_many_runs_wait(ledger: SqliteLedger) -> None:
    def count_instructions() -> int:
        steps: list[int] = []
        with ledger.database.read() as connection:
            connection.set_progress_handler(lambda: steps.append(1), 1)  # called for each instruction
        assert ledger.queue_sizes(NOW) == [QueueSize(name, 0, None, 0) for name in ("a", "b", "c")]
        with ledger.database.read() as connection:
            connection.set_progress_handler(None, 0)
        return len(steps)

    def wait(name: str, queue: str, due_at: datetime | None = None) -> Insert:
        return Insert(run(name, queue=queue, status=RunStatus.WAITING, due_at=due_at))

    timer = NOW + timedelta(hours=1)
    ledger.write([wait("a", "a"), wait("b", "b"), wait("c", "c", timer)])
    few = count_instructions()
    ledger.write([wait(f"{queue}{n}", queue) for n in range(500) for queue in ("a", "b")])
    ledger.write([wait(f"c{n}", "c", timer) for n in range(500)])
    assert few <= count_instructions() < few + 10


def count_claim_queries(ledger: SqliteLedger, limit: int, expected: list[str]) -> int:
    """Claim runs, and return the number of statements."""
    with traced_statements(ledger) as executed:
        assert claim(ledger, limit) == expected
    return len([statement for statement in executed if "workflow_runs" in statement])


def test_a_claim_without_due_runs_reads_one_group(ledger: SqliteLedger) -> None:
    assert count_claim_queries(ledger, 10, []) == 3
    ledger.write([Insert(run(f"r{n}", due_at=NOW + timedelta(days=1))) for n in range(50)])
    assert count_claim_queries(ledger, 10, []) == 5


@pytest.mark.parametrize("group", ["workspace", "key", "thread", "sequence"])
def test_runs_that_have_to_wait_are_examined_once(ledger: SqliteLedger, group: str) -> None:
    """Either when they are written or by the first claim; the next ones cost as much as with no such run."""
    groups: dict[str, dict[str, Any]] = {
        "workspace": {"workspace_id": "full"},
        "key": {"concurrency_key": "k", "concurrency_limit": 1},
        "thread": {"thread_id": "t"},
        "sequence": {"sequence": "s"},
    }
    earlier = NOW - timedelta(days=1)
    ledger.write([Insert(Workspace(id="full", slug="full", max_running=1, created_at=NOW))])
    ledger.write([Insert(run(f"r{n:05}", due_at=earlier, **groups[group])) for n in range(500)])
    ledger.write([Insert(run(f"s{n}", due_at=NOW)) for n in range(8)])
    is_known_when_written = group in ("thread", "sequence")
    assert (count_claim_queries(ledger, 3, ["r00000", "s0", "s1"]) < 30) == is_known_when_written
    assert count_claim_queries(ledger, 2, ["s2", "s3"]) < 30
    ledger.write([Update(Run, "r00000", {"status": RunStatus.COMPLETED, "claim": None})])
    assert count_claim_queries(ledger, 2, ["r00001", "s4"]) < 40


@pytest.mark.parametrize("served", [{"queues": ["default"]}, {"excluded_versions": [ExcludedVersion("v2")]}], ids=str)
def test_runs_that_a_worker_does_not_serve_cost_nothing(ledger: SqliteLedger, served: Any) -> None:
    ledger.write([Insert(run(f"r{n:05}", due_at=NOW, queue="gpu", definition_id="v2")) for n in range(500)])
    ledger.write([Insert(run("s1", due_at=NOW))])
    with traced_statements(ledger) as executed:
        runs: Any = ledger.claim("w", NOW, 5, **served)
    assert [record.id for record in runs] == ["s1"]
    assert len([statement for statement in executed if "workflow_runs" in statement]) < 20


@pytest.mark.parametrize("group", [{"workspace_id": "full"}, {"concurrency_key": "k", "concurrency_limit": 1}], ids=str)
@pytest.mark.parametrize("queue", ["unserved", "spent"])
def test_held_runs_of_a_limit_that_permits_others_cost_nothing(ledger: SqliteLedger, group: Any, queue: str) -> None:
    ledger.write(
        [
            Insert(Workspace(id="full", slug="full", max_running=1, created_at=NOW)),
            Insert(Queue(id="spent", starts_per_minute=1, tokens=0, filled_at=NOW)),
            Insert(run("first", claim="c", **group)),
            *(Insert(run(f"r{n:05}", due_at=NOW, queue=queue, priority=-1, **group)) for n in range(500)),
        ]
    )
    ledger.database.write(lambda connection: connection.execute("UPDATE queues SET tokens = 1"))
    assert claim(ledger) == []
    ledger.database.write(lambda connection: connection.execute("UPDATE queues SET tokens = 0"))
    ledger.write([Update(Run, "first", {"status": RunStatus.COMPLETED, "claim": None})])
    ledger.write([Insert(run(f"s{n}", due_at=NOW, **group)) for n in range(2)])
    for expected in (["s0"], []):
        with traced_statements(ledger) as executed:
            runs: Any = ledger.claim("w", NOW, 5, queues=["default", "spent"])
        assert [record.id for record in runs] == expected
        assert len([statement for statement in executed if "workflow_runs" in statement]) < 40


def test_runs_of_a_queue_at_its_limit_cost_one_query_each_claim(ledger: SqliteLedger) -> None:
    for limit in ({"max_running": 1}, {"starts_per_minute": 1, "tokens": 1, "filled_at": NOW}):
        name = next(iter(limit))
        ledger.write([Insert(Queue(id=name, **limit))])
        ledger.write([Insert(run(f"{name}{n:05}", due_at=NOW, queue=name)) for n in range(500)])
        assert claim(ledger, 1) == [f"{name}00000"]
    ledger.write([Insert(run(f"s{n}", due_at=NOW)) for n in range(8)])
    assert count_claim_queries(ledger, 2, ["s0", "s1"]) < 30


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
        from statewright.storage.ledger.claim import Claimant, HeldCursor, claim_runs
        from statewright.storage.ledger.tables import Tables

        assert len(claim_runs(connection, Tables(ledger.database), Claimant("w"), NOW, 5, HeldCursor())) == 1
        raise KeyError("now")

    with pytest.raises(KeyError):
        ledger.database.write(fail)
    assert claim(ledger) == ["r1"]

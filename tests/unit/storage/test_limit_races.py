"""A limit that is set while a run is started as if there were none: two connections, whose transactions overlap.

A service starts a run that is claimed at once only if nothing limits it, and has the ledger refuse it if a limit was
set since. Whichever of the two transactions is committed first, the limit counts the run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import empty_database, shared_url

from statewright.checkpoint import InMemorySaver
from statewright.errors import RecordPresent
from statewright.futures import resolve
from statewright.runs import Change, Condition, Insert, Queue, Run, Update, Workspace, where
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.operations.starting import Starter, claimed
from statewright.storage.database import Database
from statewright.storage.open import ledger_of
from statewright.storage.postgres import PostgresDatabase
from statewright.storage.sqlite import SqliteDatabase
from statewright.testing import FakeClock
from statewright.testing.conformance.ledger.samples import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = 0.3
"""Seconds for which a transaction stays open while another one should wait for it."""
OF_QUEUE = [Insert(Queue(id="narrow", max_running=1))]
CHANGED_QUEUE = [Update(Queue, "wide", {"max_running": 1})]
OF_WORKSPACE = [Update(Workspace, "w1", {"max_running": 1})]


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Database]]:
    """Two databases with connections of their own to the same tables."""
    if request.param == "sqlite":
        path = tmp_path / "runs.db"
        with SqliteDatabase(path) as first, SqliteDatabase(path) as second:
            yield [first, second]
        return
    first = empty_database()
    with PostgresDatabase(shared_url(), schema=first.schema, trusts_clocks=True) as second:
        yield [first, second]


@pytest.fixture(params=[(OF_QUEUE, "narrow"), (CHANGED_QUEUE, "wide"), (OF_WORKSPACE, "default")], ids=lambda _: "")
def limited(request: pytest.FixtureRequest, databases: list[Database]) -> tuple[list[Change], str]:
    """The changes that set a limit of one run, and the queue of runs that it limits."""
    changes, queue = request.param
    workspace = Workspace(id="w1", slug="w1", name="w1", created_at=NOW)
    waiting = run("waiting", workspace_id="w1", queue=queue, due_at=NOW)
    resolve(ledger_of(databases[0]).write([Insert(workspace), Insert(Queue(id="wide")), Insert(waiting)]))
    return changes, queue


def start_of(database: Database, queue: str) -> list[Change]:
    """Return the changes of a service that starts a run which nothing limits."""
    ledger = ledger_of(database)
    starter = Starter(ServiceContext(ledger, InMemorySaver(), Catalog(), FakeClock(), ServiceSettings()))
    started = claimed(replace(run("started", workspace_id="w1", thread_id="started", queue=queue)), "wrk_1")
    return [*starter.limit_guards(started), Insert(started)]


def write_while(
    database: Database, changes: list[Change], other: Callable[[], Any], *, patience: float = PATIENCE
) -> Future[Any]:
    """Make changes in a transaction, and call a function in another thread before it is committed.

    The transaction stays open until the function has returned, at most for `patience` seconds. Return the result of the
    function.
    """
    job = ledger_of(database).job(changes)
    futures: list[Future[Any]] = []
    returned: list[bool] = []
    with ThreadPoolExecutor(1) as pool:

        def make_changes_and_call(connection: Any) -> None:
            job(connection)
            connection.execute("SELECT 1").fetchone()  # the changes were made
            futures.append(pool.submit(other))
            done = threading.Event()
            futures[-1].add_done_callback(lambda _: done.set())
            returned.append(done.wait(patience))

        database.write(make_changes_and_call)
    assert returned[-1] or patience == PATIENCE, "The function has waited for the transaction."
    return futures[-1]


def test_a_claim_after_a_limit_was_set_counts_the_run_that_was_being_started(
    databases: list[Database], limited: tuple[list[Change], str]
) -> None:
    changes, queue = limited
    other = ledger_of(databases[1])

    def set_limit_and_claim() -> Any:
        resolve(other.write(changes))
        return resolve(other.claim("wrk_2", NOW, 10))

    claims = write_while(databases[0], start_of(databases[0], queue), set_limit_and_claim)
    assert claims.result() == []
    assert resolve(other.count(Run, [*where(workspace_id="w1"), Condition("claim", "!=", None)])) == 1


def test_a_run_that_is_started_while_a_limit_is_being_set_is_refused(
    databases: list[Database], limited: tuple[list[Change], str]
) -> None:
    changes, queue = limited
    other = ledger_of(databases[1])
    start = start_of(databases[1], queue)
    started = write_while(databases[0], changes, lambda: resolve(other.write(start)))
    with pytest.raises(RecordPresent):
        started.result()
    assert resolve(other.get(Run, "started")) is None


def test_a_run_that_is_started_while_a_rate_is_being_set_is_refused(databases: list[Database]) -> None:
    other = ledger_of(databases[1])
    start = start_of(databases[1], "narrow")
    rate: list[Change] = [Insert(Queue(id="narrow", starts_per_minute=1))]
    with pytest.raises(RecordPresent):
        write_while(databases[0], rate, lambda: resolve(other.write(start))).result()


def test_starts_on_a_server_do_not_wait_for_each_other() -> None:
    first = empty_database()
    others: list[Change] = [Insert(claimed(run("other", queue="wide"), "wrk_2"))]
    with PostgresDatabase(shared_url(), schema=first.schema, trusts_clocks=True) as second:
        ledger = ledger_of(second)
        start = start_of(first, "wide")
        started = write_while(first, start, lambda: resolve(ledger.write(others)), patience=600)
        assert started.result() is None
    assert resolve(ledger_of(first).count(Run)) == 2

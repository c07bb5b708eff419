"""Reads on a replica: a hot standby of the server, whose replay is paused so that it is visibly behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest
from tests.postgres_programs import Server, own_server
from tests.postgres_server import execute

from statewright import START, InMemorySaver, StateGraph
from statewright.async_futures import aresolve
from statewright.clock import SystemClock
from statewright.errors import SerdeError, StorageUnavailable
from statewright.futures import resolve
from statewright.runs import Insert, Run, RunStatus
from statewright.service.context.records import Records
from statewright.stale_reads import for_history
from statewright.storage.postgres import PostgresDatabase, PostgresLedger, PostgresSaver
from statewright.storage.postgres import replica as replica_module
from statewright.testing.conformance.checkpointer.samples import commit_after
from statewright.testing.conformance.ledger.samples import run


class Count(TypedDict):
    n: int


@pytest.fixture(scope="module")
def primary() -> Iterator[Server]:
    with own_server(wal_level="replica", hot_standby="on") as server:
        yield server


@pytest.fixture(scope="module")
def standby(primary: Server) -> Iterator[Server]:
    with own_server(primary=primary, hot_standby="on") as server:
        yield server


@pytest.fixture
def database(primary: Server, standby: Server) -> Iterator[PostgresDatabase]:
    execute(primary.url, "SET client_min_messages TO warning", "DROP SCHEMA IF EXISTS replicated CASCADE")
    with PostgresDatabase(primary.url, schema="replicated", replica_url=standby.url) as database:
        yield database


def catch_up(primary: Server, standby: Server) -> None:
    """Wait until the replica has replayed all changes, and pause its replay."""
    last = execute(primary.url, "SELECT pg_current_wal_flush_lsn()::text")[0][0]
    execute(standby.url, "SELECT pg_wal_replay_resume()")
    deadline = time.monotonic() + 60
    while not execute(standby.url, f"SELECT pg_last_wal_replay_lsn() >= '{last}'")[0][0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    execute(standby.url, "SELECT pg_wal_replay_pause()")


def counting(saver: Any) -> Any:
    graph = StateGraph(Count).add_node("count", lambda state: {"n": state["n"] + 1}).add_edge(START, "count")
    return graph.compile(checkpointer=saver)


def test_histories_and_lists_are_read_on_the_replica_and_heads_on_the_primary(
    database: PostgresDatabase, primary: Server, standby: Server
) -> None:
    app = counting(PostgresSaver(database))
    ledger = PostgresLedger(database)
    app.invoke({"n": 0}, thread_id="t")
    ledger.write([Insert(run("r1"))])
    catch_up(primary, standby)
    app.invoke({"n": 10}, thread_id="t")
    app.invoke({"n": 20}, thread_id="later")
    ledger.write([Insert(run("r2"))])

    history = [snapshot.values["n"] for snapshot in app.get_state_history(thread_id="t")]
    assert history[0] == 1
    assert [thread.thread_id for thread in app.threads()] == ["t"]
    assert app.get_state(thread_id="t").values == {"n": 11}
    assert app.get_state(thread_id="later").values == {"n": 21}
    assert resolve(for_history(ledger).count(Run)) == 1
    assert asyncio.run(_count(for_history(ledger))) == 1
    assert resolve(ledger.count(Run)) == 2

    catch_up(primary, standby)
    assert next(iter(app.get_state_history(thread_id="t"))).values["n"] == 11
    assert len(app.threads()) == 2


def test_records_of_a_run_are_read_on_the_replica_once_they_cannot_change_any_more(
    database: PostgresDatabase, primary: Server, standby: Server
) -> None:
    ledger = PostgresLedger(database)
    records, long_ago = Records(ledger, SystemClock()), datetime.now(UTC) - timedelta(hours=1)
    ended = run("ended", status=RunStatus.COMPLETED, updated_at=long_ago)
    just_ended = run("just ended", status=RunStatus.COMPLETED, updated_at=datetime.now(UTC))
    waiting = run("waiting", status=RunStatus.WAITING, updated_at=long_ago)
    ledger.write([Insert(ended)])
    catch_up(primary, standby)
    ledger.write([Insert(just_ended), Insert(waiting)])
    assert [resolve(records.ledger_of(each).count(Run)) for each in (ended, just_ended, waiting)] == [1, 3, 3]
    pages = [asyncio.run(records.page(Run, (), page=1, page_size=10, stale_ok=stale_ok)) for stale_ok in (True, False)]
    assert [page.total for page in pages] == [1, 3]


async def _count(ledger: Any) -> int:
    return await aresolve(ledger.count(Run))


def test_rows_that_the_replica_does_not_have_yet_are_read_on_the_primary(
    database: PostgresDatabase, primary: Server, standby: Server
) -> None:
    saver = PostgresSaver(database)
    head = resolve(saver.commit(commit_after(None)))
    catch_up(primary, standby)
    newer = resolve(saver.commit(commit_after(head, n=1)))
    newest = resolve(saver.commit(commit_after(newer, n=2)))
    before = resolve(for_history(saver).history("thread", before=newest))
    assert [saved.id for saved in before] == [newer, head]


def test_a_replica_without_the_tables_is_not_used(primary: Server, standby: Server) -> None:
    catch_up(primary, standby)
    execute(primary.url, "SET client_min_messages TO warning", "DROP SCHEMA IF EXISTS unknown CASCADE")
    with PostgresDatabase(primary.url, schema="unknown", replica_url=standby.url) as database:
        app = counting(PostgresSaver(database))
        app.invoke({"n": 0}, thread_id="t")
        assert [thread.thread_id for thread in app.threads()] == ["t"]


def test_a_replica_that_is_lost_is_left_alone_for_some_time(
    database: PostgresDatabase, primary: Server, standby: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "PAUSE", 3600.0)
    app = counting(PostgresSaver(database))
    app.invoke({"n": 0}, thread_id="t")
    catch_up(primary, standby)
    app.invoke({"n": 10}, thread_id="later")
    assert len(app.threads()) == 1
    standby.stop("fast")
    try:
        assert len(app.threads()) == 2
    finally:
        standby.start()
        execute(standby.url, "SELECT pg_wal_replay_pause()")
    assert len(app.threads()) == 2
    with PostgresDatabase(primary.url, schema="replicated", replica_url=standby.url) as other:
        assert len(resolve(for_history(PostgresSaver(other)).threads())) >= 1


def test_a_port_without_a_replica_reads_itself() -> None:
    saver = InMemorySaver()
    assert for_history(saver) is saver


def test_reads_on_a_replica_fail_like_those_on_the_primary(database: PostgresDatabase) -> None:
    reader = for_history(PostgresSaver(database))
    with pytest.raises(SerdeError):
        resolve(reader.history("\ud800"))
    database.close()
    with pytest.raises(StorageUnavailable):
        resolve(reader.history("t"))


def test_a_database_with_several_hosts_is_opened_on_the_one_that_accepts_writes(
    primary: Server, standby: Server, database: PostgresDatabase
) -> None:
    hosts = f"host=127.0.0.1,127.0.0.1 port={standby.port},{primary.port} user=postgres dbname=postgres"
    with PostgresDatabase(f"{hosts} target_session_attrs=read-write", schema="replicated") as other:
        resolve(PostgresSaver(other).commit(commit_after(None)))
    assert resolve(PostgresSaver(database).load("thread")) is not None

"""The views of Postgres keep the promises of their ports behind pgbouncer, which assigns a session to each transaction.

The pool has few sessions, in turn, so that a statement that was prepared, a setting or a lock that outlived its
transaction would soon meet another client.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from tests.pgbouncer import pooler
from tests.postgres_programs import Server, own_server
from tests.postgres_server import empty_schema, execute

from statewright.checkpoint import BranchKey, Checkpointer
from statewright.errors import CheckpointConflict, RecordConflict, StorageUnavailable
from statewright.futures import resolve
from statewright.runs import Absent, Condition, Insert, Ledger, Run, where
from statewright.storage.postgres import PostgresDatabase, PostgresLedger, PostgresSaver, PostgresStore
from statewright.testing.conformance.checkpointer import CheckpointerConformance
from statewright.testing.conformance.checkpointer.samples import commit_after
from statewright.testing.conformance.ledger import LedgerConformance
from statewright.testing.conformance.ledger.samples import run
from statewright.testing.conformance.store import StoreConformance

ROUNDS = 20
CLIENTS = 8
POOL_SIZE = 3


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server(autovacuum="off", log_statement="all") as server:
        yield server


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    with pooler(server, pool_size=POOL_SIZE) as url:
        yield url


@pytest.fixture(scope="module")
def database(url: str) -> Iterator[PostgresDatabase]:
    # Two schemas take turns, so that a search path that outlived its transaction would be noticed.
    with PostgresDatabase(url, schema="pooled", prepare=False, trusts_clocks=True) as database:
        yield database


@pytest.fixture(scope="module")
def neighbour(url: str) -> Iterator[PostgresDatabase]:
    with PostgresDatabase(url, schema="neighbour", prepare=False) as database:
        yield database


class Pooled:
    database: PostgresDatabase

    @pytest.fixture(autouse=True)
    def _database(self, database: PostgresDatabase) -> None:
        self.database = database


@pytest.mark.sampled
class TestSaver(Pooled, CheckpointerConformance):
    def make_saver(self) -> PostgresSaver:
        empty_schema(self.database)
        return PostgresSaver(self.database)


@pytest.mark.sampled
class TestLedger(Pooled, LedgerConformance):
    def make_ledger(self) -> PostgresLedger:
        empty_schema(self.database)
        return PostgresLedger(self.database)

    def make_saver(self, ledger: Ledger) -> Checkpointer:
        assert isinstance(ledger, PostgresLedger)
        return PostgresSaver(ledger.database)


@pytest.mark.sampled
class TestStore(Pooled, StoreConformance):
    def make_store(self, **options: Any) -> PostgresStore:
        empty_schema(self.database)
        return PostgresStore(self.database, **options)


# -- several clients


@pytest.fixture
def clients(url: str, database: PostgresDatabase) -> Iterator[list[PostgresDatabase]]:
    empty_schema(database)
    clients = [PostgresDatabase(url, schema="pooled", prepare=False) for _ in range(CLIENTS)]
    yield clients
    for client in clients:
        client.close()


def test_one_of_many_commits_after_a_head_is_saved(clients: list[PostgresDatabase]) -> None:
    savers = list(map(PostgresSaver, clients))
    with ThreadPoolExecutor(CLIENTS) as pool:
        for number in range(ROUNDS):
            key = BranchKey(f"t{number}")
            head = resolve(savers[0].commit(commit_after(None, branch_key=key)))

            def commit(saver: PostgresSaver, head: str = head, key: BranchKey = key) -> object:
                try:
                    return resolve(saver.commit(commit_after(head, branch_key=key, n=1)))
                except CheckpointConflict as error:
                    return error

            results = list(pool.map(commit, savers))
            assert sum(isinstance(result, str) for result in results) == 1
            saved = resolve(savers[0].load(f"t{number}"))
            assert saved is not None
            assert saved.id in results


def test_one_of_many_runs_starts_on_a_thread(clients: list[PostgresDatabase]) -> None:
    ledgers = list(map(PostgresLedger, clients))
    numbers = count()
    with ThreadPoolExecutor(CLIENTS) as pool:
        for number in range(ROUNDS):
            on_thread = where(workspace_id="w1", thread_id=f"t{number}")

            def start(ledger: PostgresLedger, on_thread: Any = on_thread, thread_id: str = f"t{number}") -> bool:
                try:
                    ledger.write([Absent(Run, on_thread), Insert(run(f"r{next(numbers)}", thread_id=thread_id))])
                except RecordConflict:
                    return False
                return True

            assert sum(pool.map(start, ledgers)) == 1
            assert resolve(ledgers[0].count(Run, on_thread)) == 1


def test_a_run_is_claimed_by_one_of_many_workers(clients: list[PostgresDatabase]) -> None:
    ledgers = list(map(PostgresLedger, clients))
    due_at = datetime(2026, 1, 1, tzinfo=UTC)
    ledgers[0].write([Insert(run(f"r{n}", due_at=due_at)) for n in range(60)])

    def claim_all(ledger: PostgresLedger) -> list[str]:
        claimed: list[str] = []
        while runs := resolve(ledger.claim(f"worker {id(ledger)}", datetime.now(UTC), 3)):
            claimed += [run.id for run in runs]
        return claimed

    with ThreadPoolExecutor(CLIENTS) as pool:
        claimed = [run_id for ids in pool.map(claim_all, ledgers) for run_id in ids]
    assert sorted(claimed) == sorted(f"r{n}" for n in range(60))
    assert resolve(ledgers[0].count(Run, [Condition("claim", "!=", None)])) == 60


def test_two_schemas_behind_one_pool_stay_apart(clients: list[PostgresDatabase], neighbour: PostgresDatabase) -> None:
    savers = [*map(PostgresSaver, clients), PostgresSaver(neighbour)]
    with ThreadPoolExecutor(len(savers)) as pool:
        list(pool.map(lambda n: resolve(savers[n].commit(commit_after(None, branch_key=BranchKey(f"t{n}")))), range(9)))
    assert [entry.thread_id for entry in resolve(savers[-1].threads())] == ["t8"]
    assert len(resolve(savers[0].threads())) == CLIENTS


def test_nothing_outlives_a_transaction(server: Server, clients: list[PostgresDatabase]) -> None:
    saver, ledger, store = PostgresSaver(clients[0]), PostgresLedger(clients[0]), PostgresStore(clients[0])
    resolve(saver.commit(commit_after(None)))
    ledger.claim("w", datetime.now(UTC), 1)
    store.put(("a",), "b", {})
    assert clients[0].bell is None  # it would listen in a session of its own
    statements = (server.folder / "log").read_text()
    assert "save_commit" in statements
    outliving = ("LISTEN", "PREPARE", "DEALLOCATE", "SET search_path", "pg_advisory_lock", "TEMP TABLE", "WITH HOLD")
    assert [word for word in outliving if word in statements] == []
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    assert execute(server.url, locks)[0][0] == 0


def test_a_pooler_is_recognized_although_its_sessions_may_prepare_statements(url: str) -> None:
    def search_paths() -> set[str]:
        with ThreadPoolExecutor(POOL_SIZE) as threads:
            show = "SELECT current_setting('search_path'), pg_sleep(0.05)"
            return {rows[0][0] for rows in threads.map(lambda _: execute(url, show), range(POOL_SIZE * 2))}

    before = search_paths()
    with suppress(StorageUnavailable):  # this pooler does not support them
        PostgresDatabase(url, schema="pooled", prepare=True).close()
    assert search_paths() == before

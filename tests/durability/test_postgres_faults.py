"""Faults of a Postgres server, of its network and of other clients: nothing is lost, doubled or stuck for ever."""

from __future__ import annotations

import asyncio
import operator
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypedDict

import pytest
from tests.postgres_programs import Server, own_server
from tests.postgres_server import execute
from tests.tcp_proxy import TcpProxy

from statewright import END, START, StateGraph
from statewright.checkpoint import BranchKey, LeaseRequest
from statewright.errors import (
    CheckpointConflict,
    LeaseLost,
    StorageFull,
    StorageLocked,
    StorageUnavailable,
    ThreadBusy,
)
from statewright.futures import resolve
from statewright.runs import Advance, Condition, Insert, NewEvent, Run, RunStatus, where
from statewright.service import Catalog, Service, ServiceSettings, StartRun
from statewright.storage.database import Statement
from statewright.storage.postgres import PostgresDatabase, PostgresLedger, PostgresSaver
from statewright.storage.postgres import database as database_module
from statewright.testing.clock import FakeClock
from statewright.testing.conformance.checkpointer.samples import commit_after
from statewright.testing.conformance.ledger.samples import run

STEPS = 40
THREADS = 4
RUNS = 120
HOUR = timedelta(hours=1)


class Count(TypedDict):
    n: Annotated[int, operator.add]


def counting_graph(on_step: Callable[[int], None]) -> Any:
    def count(state: Count) -> dict[str, int]:
        on_step(state["n"])
        return {"n": 1}

    graph = StateGraph(Count).add_node("count", count).add_edge(START, "count")
    return graph.add_conditional_edges("count", lambda state: END if state["n"] >= STEPS else "count")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server(autovacuum="off") as server:
        yield server


@pytest.fixture
def schema(server: Server, request: pytest.FixtureRequest) -> str:
    name = f"test_{abs(hash(request.node.name))}"
    execute(server.url, "SET client_min_messages TO warning", f"DROP SCHEMA IF EXISTS {name} CASCADE")
    return name


@pytest.fixture
def proxy(server: Server) -> Iterator[TcpProxy]:
    with TcpProxy(server.port) as proxy:
        yield proxy


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def now_and(seconds: float) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now, now + timedelta(seconds=seconds)


# -- restarts


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_runs_go_on_after_a_restart_of_the_server(server: Server, schema: str, mode: str) -> None:
    steps = [0] * THREADS
    saved: list[list[int]] = []
    with PostgresDatabase(server.url, schema=schema) as database:

        def advance(number: int) -> int:
            def on_step(n: int) -> None:
                steps[number] += 1

            graph = counting_graph(on_step).compile(checkpointer=PostgresSaver(database))
            return graph.invoke({"n": 0}, thread_id=f"t{number}", recursion_limit=STEPS + 5)["n"]

        with ThreadPoolExecutor(THREADS) as pool:
            results = [pool.submit(advance, number) for number in range(THREADS)]
            for reached in (STEPS // 4, STEPS // 2):
                wait_until(lambda reached=reached: min(steps) >= reached)  # type: ignore[misc]
                server.stop(mode)
                server.start()
            assert [result.result() for result in results] == [STEPS] * THREADS
        for number in range(THREADS):
            history = resolve(PostgresSaver(database).history(f"t{number}"))
            saved.append([checkpoint.checkpoint.values["n"] for checkpoint in reversed(history)])
    assert saved == [list(range(STEPS + 1))] * THREADS
    assert steps == [STEPS] * THREADS


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_every_run_is_worked_on_once_although_the_server_restarts(server: Server, schema: str, mode: str) -> None:
    done: list[str] = []

    def claim(ledger: PostgresLedger, worker: str) -> Sequence[Run]:
        try:
            return resolve(ledger.claim(worker, datetime.now(UTC), 2))
        except StorageUnavailable:  # the response was lost
            claimed = [*where(worker_id=worker), Condition("claim", "!=", None)]
            return resolve(ledger.find(Run, claimed)) or claim(ledger, worker)

    def work(ledger: PostgresLedger, worker: str) -> None:
        while runs := claim(ledger, worker):
            for claimed in runs:
                is_own = where(claim=claimed.claim)
                end = {"status": RunStatus.COMPLETED, "claim": None, "worker_id": None, "due_at": None}
                resolve(ledger.write([Advance(claimed.id, datetime.now(UTC), end, expect=is_own)]))
                done.append(claimed.id)

    with PostgresDatabase(server.url, schema=schema) as first, PostgresDatabase(server.url, schema=schema) as second:
        ledgers = [PostgresLedger(first), PostgresLedger(second)]
        resolve(ledgers[0].write([Insert(run(f"r{n}", due_at=datetime(2026, 1, 1, tzinfo=UTC))) for n in range(RUNS)]))
        with ThreadPoolExecutor(2) as pool:
            works = [pool.submit(work, ledger, f"w{n}") for n, ledger in enumerate(ledgers)]
            for reached in (RUNS // 4, RUNS // 2):
                wait_until(lambda reached=reached: len(done) >= reached)  # type: ignore[misc]
                server.stop(mode)
                server.start()
            for result in works:
                result.result()
        left = resolve(ledgers[0].count(Run, [Condition("status", "!=", RunStatus.COMPLETED)]))
    assert left == 0
    assert sorted(done) == sorted(f"r{n}" for n in range(RUNS))


def test_a_server_that_stays_away_is_reported_and_used_when_it_is_back(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statewright.storage.postgres.writer.PATIENCE", 0.5)
    with own_server() as server, PostgresDatabase(server.url, schema=schema) as database:
        saver = PostgresSaver(database)
        head = resolve(saver.commit(commit_after(None)))
        server.stop("fast")
        with pytest.raises(StorageUnavailable, match="Nothing was written"):
            resolve(saver.commit(commit_after(head)))
        with pytest.raises(StorageUnavailable, match="cannot be used"):
            resolve(saver.load("thread"))
        server.start()
        resolve(saver.commit(commit_after(head)))
        assert len(resolve(saver.history("thread"))) == 2


def test_a_group_of_writes_waits_only_once_for_a_server_that_is_away(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("statewright.storage.postgres.writer.PATIENCE", 0)  # a single attempt
    attempts: list[None] = []
    connect = PostgresDatabase._connect

    def connect_counted(database: PostgresDatabase, *arguments: Any, **options: Any) -> Any:
        attempts.append(None)
        return connect(database, *arguments, **options)

    def stop_server(connection: Any) -> None:
        server.stop("immediate")

    def insert(connection: Any) -> None:
        connection.execute("INSERT INTO events (place, body) VALUES (1, '')")

    with own_server() as server, PostgresDatabase(server.url, schema=schema) as database:
        monkeypatch.setattr(PostgresDatabase, "_connect", connect_counted)
        for first in (stop_server, insert):  # the server is lost within a group, and away before another
            attempts.clear()
            with database.transaction_lock:
                writes = [database.submit(job) for job in (first, *[insert] * 9)]
            for write in writes:
                with pytest.raises(StorageUnavailable, match="Nothing was written"):
                    write.result()
            assert len(attempts) == 1
        server.start()
        database.write(insert)


# -- the network


def test_a_commit_whose_request_is_lost_is_saved_once(server: Server, schema: str, proxy: TcpProxy) -> None:
    with PostgresDatabase(server.tcp_url(proxy.port), schema=schema) as database:
        saver = PostgresSaver(database)
        head = None
        for n in range(5):
            proxy.watch_requests = lambda data, before=proxy.cuts: proxy.cuts == before  # type: ignore[misc]
            head = resolve(saver.commit(commit_after(head, n=n)))
        assert proxy.cuts == 5
        proxy.watch_requests = None
        assert [saved.checkpoint.values["n"] for saved in resolve(saver.history("thread"))] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("prepare", [True, False])
def test_a_commit_whose_response_is_lost_is_not_repeated(
    server: Server, schema: str, proxy: TcpProxy, prepare: bool
) -> None:
    with PostgresDatabase(server.tcp_url(proxy.port), schema=schema, prepare=prepare) as database:
        saver, ledger = PostgresSaver(database), PostgresLedger(database)
        head = resolve(saver.commit(commit_after(None)))
        ledger.write([Insert(run("r"))])
        for n in range(1, 5):
            advance = ledger.job(
                [Advance("r", datetime.now(UTC), {}, expect=where(last_event=n - 1), events=[NewEvent("x", {})])]
            )
            proxy.watch_responses = cut_at_commit(proxy)
            head = resolve(saver.commit(commit_after(head, n=n), also=[advance]))
        assert proxy.cuts == 4
        proxy.watch_responses = None
        assert [saved.checkpoint.values["n"] for saved in resolve(saver.history("thread"))] == [4, 3, 2, 1, 0]
        assert [event.seq for event in resolve(ledger.events("r"))] == [1, 2, 3, 4]
        with pytest.raises(CheckpointConflict):  # a commit that really comes too late
            resolve(saver.commit(commit_after(None)))


IDLE = b"Z\0\0\0\5I"
"""The message that a session waits for a statement, and that no transaction is open."""


def cut_at_commit(proxy: TcpProxy) -> Callable[[bytes], bool]:
    """Return a watch that cuts one connection when the server reports a commit."""
    before = proxy.cuts
    return lambda data: proxy.cuts == before and reports_commit(data)


def reports_commit(data: bytes) -> bool:
    # Without a statement that commits, the server reports that no transaction is open after the last result.
    return b"COMMIT\0" in data or (b"record_transaction\0" in data and data.endswith(IDLE))


def test_a_claim_whose_response_is_lost_is_reported(server: Server, schema: str, proxy: TcpProxy) -> None:
    with PostgresDatabase(server.tcp_url(proxy.port), schema=schema) as database:
        ledger = PostgresLedger(database)
        resolve(ledger.write([Insert(run(f"r{n}", due_at=datetime(2026, 1, 1, tzinfo=UTC))) for n in range(3)]))
        proxy.watch_responses = cut_at_commit(proxy)
        with pytest.raises(StorageUnavailable, match="Read the stored data"):
            resolve(ledger.claim("w", datetime.now(UTC), 2))
        assert proxy.cuts == 1
        claimed = resolve(ledger.find(Run, where(worker_id="w")))
        assert len({claimed.claim for claimed in claimed}) == 2
        assert len(resolve(ledger.claim("w", datetime.now(UTC), 2))) == 1


def test_a_worker_begins_the_runs_of_a_claim_whose_response_is_lost_without_waiting_for_a_heartbeat(
    server: Server, schema: str, proxy: TcpProxy
) -> None:
    async def work() -> list[Run]:
        catalog = Catalog()
        catalog.serve("count", counting_graph(lambda n: None))
        with PostgresDatabase(server.tcp_url(proxy.port), schema=schema) as database:
            ledger = PostgresLedger(database)
            # The heartbeats are farther apart than the test lasts.
            settings = ServiceSettings(lease=36_000, poll_interval=36_000)
            service = Service(catalog, ledger=ledger, saver=PostgresSaver(database), settings=settings)
            async with service:
                proxy.watch_responses = cut_at_claim(proxy)
                # Later, so that no run is claimed by the request that starts it.
                soon = datetime.now(UTC) + timedelta(seconds=1)
                requests = [StartRun(graph="count", input={"n": STEPS - 2}, after=soon) for _ in range(4)]
                runs = [(await service.start("default", request)).run for request in requests]
                return [await service.wait("default", run.id, 600) for run in runs]

    runs = asyncio.run(work())
    assert proxy.cuts == 1
    assert [run.status for run in runs] == [RunStatus.COMPLETED] * 4


def cut_at_claim(proxy: TcpProxy) -> Callable[[bytes], bool]:
    """Return a watch that cuts one connection when the server reports a claim of runs and its commit."""
    before = proxy.cuts
    return lambda data: proxy.cuts == before and reports_commit(data) and b"wrk_" in data and b"run_" in data


@pytest.mark.parametrize(
    "statement", ["SELECT 1", "SELECT repeat('x', 50000000)"]
)  # waits for a statement, for a reader
def test_a_client_that_is_gone_within_a_transaction_holds_its_locks_no_longer_than_the_limit(
    server: Server, schema: str, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr(database_module, "IDLE_LIMIT", 1)
    frozen = PostgresDatabase(server.tcp_url(proxy.port), schema=schema)
    with PostgresDatabase(server.url, schema=schema) as database:
        has_locked = threading.Event()
        freeze = proxy.freeze if statement == "SELECT 1" else proxy.freeze_responses

        def job(connection: Any) -> None:
            connection.lock("thread default thread")
            connection.execute("LOCK TABLE lines IN EXCLUSIVE MODE")
            if not has_locked.is_set():
                freeze()
                has_locked.set()
            connection.execute(statement)

        with ThreadPoolExecutor(1) as pool:
            blocked = pool.submit(frozen.write, job)
            assert has_locked.wait(60)
            resolve(PostgresSaver(database).commit(commit_after(None)))
            proxy.thaw()
            blocked.result()  # it was done again in another session
    frozen.close()


def test_a_session_that_is_lost_within_a_request_does_not_keep_its_locks(
    server: Server, schema: str, proxy: TcpProxy
) -> None:
    proxy.tells_server = False
    with PostgresDatabase(server.tcp_url(proxy.port), schema=schema) as database:
        saver, saved = PostgresSaver(database), list[str]()
        head = resolve(saver.commit(commit_after(None)))
        large = commit_after(head, deltas={"text": "x" * 1_000_000})
        sent = [0]

        def is_half_sent(data: bytes) -> bool:  # the server has the lock of the thread, and not the checkpoint
            sent[0] += len(data)
            return proxy.cuts == 0 and sent[0] > 300_000

        proxy.watch_requests = is_half_sent
        thread = threading.Thread(target=lambda: saved.append(resolve(saver.commit(large))), daemon=True)
        thread.start()
        thread.join(600)
        was_saved = bool(saved)
        proxy.cut()
        assert was_saved
        assert proxy.cuts == 1
        assert saved == [checkpoint.id for checkpoint in resolve(saver.history("thread"))][:1]


def test_a_lost_session_that_still_executes_a_statement_does_not_keep_its_locks_afterwards(
    server: Server, schema: str, proxy: TcpProxy
) -> None:
    """The rest of its transaction never comes, but at first it does not wait for it."""
    proxy.tells_server = False
    sent = [0]

    def is_half_sent(data: bytes) -> bool:
        sent[0] += len(data)
        return proxy.cuts == 0 and sent[0] > 300_000

    def job(connection: Any) -> int:
        connection.lock("thread default thread")
        if proxy.cuts == 0:
            connection.send(Statement("SELECT pg_sleep(0.5)", ()))
        return connection.execute("SELECT length(?)", ("x" * 1_000_000,)).fetchone()[0]

    with PostgresDatabase(server.tcp_url(proxy.port), schema=schema) as database, ThreadPoolExecutor(1) as pool:
        resolve(PostgresSaver(database).commit(commit_after(None)))
        proxy.watch_requests = is_half_sent
        written = pool.submit(lambda: resolve(database.write(job)))
        assert written.result(600) == 1_000_000
        assert proxy.cuts == 1


def test_a_worker_that_was_frozen_for_longer_than_its_lease_cannot_write(
    server: Server, schema: str, proxy: TcpProxy
) -> None:
    frozen = PostgresDatabase(server.tcp_url(proxy.port), schema=schema)
    with PostgresDatabase(server.url, schema=schema) as database, ThreadPoolExecutor(1) as pool:
        savers = [PostgresSaver(frozen), PostgresSaver(database)]
        hold = LeaseRequest("old", *now_and(0.5), claims=True)
        head = resolve(savers[0].commit(commit_after(None, hold=hold)))
        proxy.freeze()
        late = pool.submit(savers[0].commit, commit_after(head, hold=LeaseRequest("old", *now_and(60))))
        new = None
        while new is None:
            try:
                new = resolve(savers[1].renew("thread", LeaseRequest("new", *now_and(60), claims=True)))
            except ThreadBusy:
                time.sleep(0.05)
        proxy.thaw()
        with pytest.raises(LeaseLost):
            resolve(late.result())
        assert len(resolve(savers[1].history("thread"))) == 1
    frozen.close()


# -- limits of the server


def test_a_server_without_free_connections_is_reported_when_a_database_is_opened(schema: str) -> None:
    limits = {"max_connections": "5", "superuser_reserved_connections": "0", "max_wal_senders": "0"}
    with own_server(**limits) as server, PostgresDatabase(server.url, schema=schema) as database:
        others: list[PostgresDatabase] = []

        def open_more() -> None:
            while len(others) < 10:
                others.append(PostgresDatabase(server.url, schema=schema))

        with pytest.raises(StorageUnavailable, match="max_connections"):
            open_more()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: resolve(PostgresSaver(database).threads()))  # needs a session more
            for other in others:
                other.close()
            assert waiting.result() == []


def test_a_commit_that_waits_for_too_long_is_refused_and_can_be_repeated(server: Server, schema: str) -> None:
    url = f"{server.url}&options=-c%20statement_timeout%3D300"
    with PostgresDatabase(server.url, schema=schema) as other, PostgresDatabase(url, schema=schema) as database:
        saver, commit = PostgresSaver(database), commit_after(None)
        with ThreadPoolExecutor(1) as pool:
            is_locked, is_refused = threading.Event(), threading.Event()

            def hold_lock(connection: Any) -> None:
                connection.execute("LOCK TABLE lines IN EXCLUSIVE MODE")
                is_locked.set()
                is_refused.wait(60)

            holding = pool.submit(other.write, hold_lock)
            assert is_locked.wait(60)
            try:
                with pytest.raises(StorageLocked, match="Nothing was written"):
                    resolve(saver.commit(commit))
            finally:
                is_refused.set()
            holding.result()
        resolve(saver.commit(commit))
        assert len(resolve(saver.history("thread"))) == 1


def test_a_full_disk_is_reported_and_nothing_is_written(server: Server, schema: str) -> None:
    with PostgresDatabase(server.url, schema=schema) as database:
        saver, commit = PostgresSaver(database), commit_after(None)
        execute(
            server.url,
            f"""CREATE FUNCTION {schema}.fill() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
            END $$""",
            f"CREATE TRIGGER fill BEFORE INSERT ON {schema}.records EXECUTE FUNCTION {schema}.fill()",
        )
        with pytest.raises(StorageFull, match="No space left on device"):
            resolve(saver.commit(commit))
        assert resolve(saver.load("thread")) is None
        execute(server.url, f"DROP TRIGGER fill ON {schema}.records")
        resolve(saver.commit(commit))


# -- clocks


@pytest.mark.parametrize("wrong", [-HOUR, HOUR])
def test_clocks_that_are_wrong_by_an_hour_never_release_a_held_thread(
    server: Server, schema: str, wrong: timedelta
) -> None:
    databases = [
        PostgresDatabase(server.url, schema=schema, clock=FakeClock(datetime.now(UTC) + error))
        for error in (wrong, -wrong)
    ]
    savers = list(map(PostgresSaver, databases))

    def request(number: int) -> LeaseRequest:
        now = databases[number].clock.now()
        return LeaseRequest(f"worker {number}", now, now + timedelta(minutes=1), claims=True)

    head = resolve(savers[0].commit(commit_after(None, hold=request(0))))
    with pytest.raises(ThreadBusy):
        resolve(savers[1].renew("thread", request(1)))
    resolve(savers[0].commit(commit_after(head, hold=request(0))))
    assert len(resolve(savers[1].history("thread", namespace=BranchKey("thread").namespace))) == 2
    for database in databases:
        database.close()

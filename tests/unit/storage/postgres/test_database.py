"""The Postgres database: schemas, keys, clocks, and sessions that are lost."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.postgres_server import empty_database, execute, new_schema_url, shared_server, shared_url

from statewright.checkpoint import BranchKey, LeaseRequest
from statewright.errors import (
    DamagedDatabase,
    InvalidConfig,
    NewerFormat,
    SerdeError,
    StorageError,
    StorageUnavailable,
    ThreadBusy,
    WrongEncryptionKey,
)
from statewright.futures import resolve
from statewright.runs import Insert, Queue, Run, RunStatus, Update, where
from statewright.runs.bell import Ring
from statewright.storage.database import Statement
from statewright.storage.postgres import PostgresDatabase, PostgresLedger, PostgresSaver, PostgresStore
from statewright.storage.postgres.bell import PostgresBell
from statewright.storage.postgres.connection import Session, parse
from statewright.storage.postgres.writer import MAX_ATTEMPTS
from statewright.testing.clock import FakeClock
from statewright.testing.conformance.checkpointer.samples import commit_after
from statewright.testing.conformance.ledger.samples import NOW, run

HOUR = timedelta(hours=1)
UNDO_VERSION_8 = ("DROP INDEX older.runs_waiting",)
UNDO_VERSION_7 = (
    "DROP TABLE older.sessions",
    "DROP INDEX older.runs_completed, older.runs_failed, older.runs_cancelled",
    "ALTER TABLE older.workflow_runs DROP COLUMN progress",
    "ALTER TABLE older.signals DROP COLUMN sent_by_key",
)
REFUSED_COMMITS = (
    """CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql
       AS $$ BEGIN RAISE EXCEPTION 'refused at the commit'; END $$""",
    """CREATE CONSTRAINT TRIGGER refused AFTER INSERT ON records DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION refuse()""",
)
"""Statements after which the server checks each commit, and refuses it."""


def open_schema(name: str, **options: Any) -> PostgresDatabase:
    return PostgresDatabase(shared_url(), schema=name, **options)


def backend_of(database: PostgresDatabase) -> int:
    return database.write(lambda connection: connection.execute("SELECT pg_backend_pid()").fetchone()[0])


def end_session(pid: int) -> None:
    execute(shared_url(), f"SELECT pg_terminate_backend({pid}, 10000)")


# -- schemas and keys


def test_processes_that_start_at_once_create_a_schema_once() -> None:
    databases: list[PostgresDatabase] = []
    shared_url()
    threads = [threading.Thread(target=lambda: databases.append(open_schema("together"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(databases) == 6
    for database in databases:
        database.close()


def test_tables_in_the_schema_public_do_not_stand_for_those_of_another_schema() -> None:
    execute(shared_url(), 'DROP DATABASE IF EXISTS "with_public"', 'CREATE DATABASE "with_public"')
    url = shared_server().url_of("with_public")
    with PostgresDatabase(url) as public, PostgresDatabase(url, schema="other") as other:
        resolve(PostgresSaver(public).commit(commit_after(None)))
        assert list(resolve(PostgresSaver(other).threads())) == []
    assert PostgresDatabase.is_initialized(url)
    assert PostgresDatabase.is_initialized(url, schema="other")
    assert not PostgresDatabase.is_initialized(url, schema="third")


def test_after_its_schema_was_removed_a_database_uses_no_tables_of_the_schema_public() -> None:
    execute(shared_url(), 'DROP DATABASE IF EXISTS "with_removed"', 'CREATE DATABASE "with_removed"')
    url = shared_server().url_of("with_removed")
    with PostgresDatabase(url) as public, PostgresDatabase(url, schema="removed") as removed:
        saver = PostgresSaver(removed)
        head = resolve(saver.commit(commit_after(None)))
        execute(url, "SET client_min_messages TO warning", "DROP SCHEMA removed CASCADE")
        for action in (lambda: saver.commit(commit_after(head)), lambda: saver.load("thread"), saver.threads):
            with pytest.raises(StorageUnavailable, match="The schema was dropped while it was open"):
                resolve(action())
        assert list(resolve(PostgresSaver(public).threads())) == []


def test_the_schema_of_a_newer_version_is_refused() -> None:
    open_schema("newer").close()
    execute(shared_url(), "UPDATE newer.statewright_schema SET version = 99")
    with pytest.raises(NewerFormat, match=r"\(schema newer\).* has format 99"):
        open_schema("newer")


@pytest.mark.parametrize("version", [3, 5])
def test_a_migration_replaces_the_functions_of_claims(version: int) -> None:
    new_schema_url("older")
    open_schema("older").close()
    older = "CREATE OR REPLACE FUNCTION older.tokens_of(p_queue older.queues, p_now BIGINT) RETURNS DOUBLE PRECISION"
    execute(shared_url(), f"{older} LANGUAGE sql AS 'SELECT 0.0::DOUBLE PRECISION'")
    execute(shared_url(), "DROP FUNCTION older.claim_together")
    if version == 3:
        execute(shared_url(), "DROP INDEX older.runs_held_in_workspace, older.runs_held_with_key")
    execute(shared_url(), *UNDO_VERSION_8, *UNDO_VERSION_7)
    execute(shared_url(), f"UPDATE older.statewright_schema SET version = {version}")
    with open_schema("older", trusts_clocks=True) as database:
        ledger = PostgresLedger(database)
        ledger.write([Insert(Queue(id="q", starts_per_minute=60)), Insert(run("r1", queue="q", due_at=NOW))])
        assert [claimed.id for claimed in resolve(ledger.claim("w", NOW, 10))] == ["r1"]
        ledger.write([Insert(run(name, due_at=NOW)) for name in ("r2", "r3")])
        assert [claimed.id for claimed in resolve(ledger.claim("w", NOW, 10))] == ["r2", "r3"]


_ROWS_READ = """
SELECT (seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes AS i WHERE i.relid = t.relid))::BIGINT
FROM pg_stat_user_tables AS t WHERE schemaname = ? AND relname = 'workflow_runs'
"""


def rows_read(database: PostgresDatabase, *, from_readers: bool = False) -> int:
    """Return the number of rows of runs that the writing session has read so far, or also the sessions for reading."""
    for call in (database.write, database.query) if from_readers else (database.write,):
        call(lambda session: session.execute("SELECT pg_stat_force_next_flush()"))
        call(lambda session: session.execute("SELECT 1"))  # the statistics follow the end of a transaction
    return database.query(lambda session: session.execute(_ROWS_READ, (database.schema,)).fetchone()[0])


def test_plans_for_empty_tables_are_not_used_for_full_ones() -> None:
    database = empty_database(trusts_clocks=True)
    execute(shared_url(), f'VACUUM ANALYZE "{database.schema}".workflow_runs')
    ledger = PostgresLedger(database)

    def claim(count: int) -> list[Run]:
        return list(resolve(ledger.claim("w", NOW, count)))

    def write_steps(runs: Sequence[Run]) -> None:
        for claimed in runs:
            change = Update(Run, claimed.id, {"current_step": "a"}, where(claim=claimed.claim))
            ledger.write([change])

    ledger.write([Insert(run("first", due_at=NOW))])
    write_steps(claim(1) * 20)
    ledger.write([Insert(run(f"r{number}", due_at=NOW)) for number in range(2000)])
    others = claim(1000)
    before = rows_read(database)
    write_steps(others[:100])
    assert rows_read(database) - before < 10_000
    before = rows_read(database)
    assert len(claim(100)) == 100
    assert rows_read(database) - before < 10_000


def test_the_sizes_of_queues_are_read_without_the_runs_that_wait() -> None:
    database = empty_database(trusts_clocks=True)
    ledger = PostgresLedger(database)
    waits = [run(f"r{number}", queue=f"q{number % 3}", status=RunStatus.WAITING) for number in range(2000)]
    timers = [run(f"t{number}", queue="timers", due_at=NOW + HOUR) for number in range(1000)]
    ledger.write([Insert(record) for record in (*waits, *timers, run("due", due_at=NOW))])
    before = rows_read(database, from_readers=True)
    sizes = resolve(ledger.queue_sizes(NOW))
    assert [size.queue for size in sizes] == ["default", "q0", "q1", "q2", "timers"]
    assert 0 < rows_read(database, from_readers=True) - before < 100


def test_a_wrong_key_is_refused() -> None:
    open_schema("with_key", key=bytes(32)).close()
    with pytest.raises(WrongEncryptionKey, match="is wrong"):
        open_schema("with_key", key=b"k" * 32)
    with pytest.raises(WrongEncryptionKey, match="no key was given"):
        open_schema("with_key")
    open_schema("without_key").close()
    with pytest.raises(WrongEncryptionKey, match="is not encrypted"):
        open_schema("without_key", key=bytes(32))


@pytest.mark.parametrize("schema", ["", "A", "a b", 'a"; DROP', "1a", "x" * 64])
def test_a_schema_name_that_needs_quoting_is_refused(schema: str) -> None:
    with pytest.raises(InvalidConfig, match="schema="):
        open_schema(schema)


@pytest.mark.parametrize("url", ["postgresql://host:port/x", "nonsense", "host=a unknown=b"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match="address of the database"):
        PostgresDatabase(url)


def test_messages_do_not_contain_the_password() -> None:
    url = f"postgresql://someone:secret@/nowhere?host={shared_server().folder}"
    with pytest.raises(StorageUnavailable, match="nowhere") as caught:
        PostgresDatabase(url)
    assert "secret" not in str(caught.value)


# -- clocks


def test_a_worker_whose_clock_is_ahead_cannot_take_a_thread_over() -> None:
    clocks = [FakeClock(datetime.now(UTC) + offset) for offset in (timedelta(0), HOUR, -HOUR)]
    savers = [PostgresSaver(open_schema("clocks", clock=clock)) for clock in clocks]
    now = clocks[0].now()
    lease = LeaseRequest("first", now, now + timedelta(minutes=1), claims=True)
    resolve(savers[0].commit(commit_after(None, branch_key=BranchKey("t"), hold=lease)))
    for saver, clock in zip(savers[1:], clocks[1:], strict=True):
        claim = LeaseRequest("other", clock.now(), clock.now() + timedelta(minutes=1), claims=True)
        with pytest.raises(ThreadBusy):
            resolve(saver.renew("t", claim))
        seen = resolve(saver.lease("t"))
        assert seen is not None
        left = seen.until - clock.now()
        assert timedelta(0) < left <= timedelta(minutes=1)  # the end of the lease by the clock of the reader
    for saver in savers:
        saver.database.close()


def test_the_clock_of_the_server_can_be_moved_for_tests() -> None:
    with open_schema("moved") as database:
        saver, now = PostgresSaver(database), datetime.now(UTC)
        lease = LeaseRequest("first", now, now + timedelta(minutes=1), claims=True)
        resolve(saver.commit(commit_after(None, branch_key=BranchKey("t"), hold=lease)))
        execute(
            shared_url(),
            "CREATE OR REPLACE FUNCTION moved.current_microseconds() RETURNS BIGINT LANGUAGE sql VOLATILE AS "
            "$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT + 3600000000 $$",
        )
        claim = LeaseRequest("other", now, now + timedelta(minutes=1), claims=True)
        taken = resolve(saver.renew("t", claim))
        assert taken is not None
        assert taken.owner == "other"


# -- lost sessions


def test_a_session_that_has_ended_is_replaced_before_the_next_write_and_read() -> None:
    database = empty_database()
    saver = PostgresSaver(database)
    head = resolve(saver.commit(commit_after(None)))
    end_session(backend_of(database))
    with database.read() as connection:
        reader = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
    end_session(reader)
    resolve(saver.commit(commit_after(head)))
    assert len(resolve(saver.history("thread"))) == 2


def test_a_job_whose_session_ends_within_its_transaction_is_done_again() -> None:
    database = empty_database()
    attempts: list[int] = []

    def job(connection: Any) -> None:
        attempts.append(connection.execute("SELECT pg_backend_pid()").fetchone()[0])
        connection.execute("INSERT INTO events (place, body) VALUES (1, '')")
        if len(attempts) == 1:
            end_session(attempts[0])

    database.write(job)
    assert len(set(attempts)) == 2
    assert database.write(lambda connection: connection.execute("SELECT count(*) FROM events").fetchone()[0]) == 1


def test_a_job_that_ends_each_of_its_sessions_fails_in_the_end() -> None:
    database = empty_database()
    attempts: list[int] = []

    def job(connection: Any) -> None:
        attempts.append(connection.execute("SELECT pg_backend_pid()").fetchone()[0])
        end_session(attempts[-1])
        connection.execute("INSERT INTO events (place, body) VALUES (1, '')")

    with pytest.raises(StorageUnavailable, match="Nothing was written"):
        database.write(job)
    assert len(attempts) == MAX_ATTEMPTS
    assert database.write(lambda connection: connection.execute("SELECT count(*) FROM events").fetchone()[0]) == 0


def test_a_read_whose_session_ends_is_done_again() -> None:
    database = empty_database()
    attempts: list[int] = []

    def read(connection: Any) -> int:
        attempts.append(connection.execute("SELECT pg_backend_pid()").fetchone()[0])
        if len(attempts) == 1:
            end_session(attempts[0])
        return connection.execute("SELECT count(*) FROM events").fetchone()[0]

    assert database.query(read) == 0
    assert len(set(attempts)) == 2


def test_two_processes_never_share_the_row_that_records_commits() -> None:
    url = new_schema_url("failed_over")
    insert = "INSERT INTO events (place, body) SELECT coalesce(max(place), 0) + 1, '' FROM events"
    with PostgresDatabase(url) as database, PostgresDatabase(url) as other:
        database.write(lambda connection: connection.execute(insert))
        # As after a failover to a server that lacks the newest rows and the newest state of the sequence.
        writers = "failed_over.writers"
        execute(shared_url(), f"DELETE FROM {writers}", f"ALTER TABLE {writers} ALTER COLUMN id RESTART")
        for each in (other, database, other, database):
            each.write(lambda connection: connection.execute(insert))
        assert execute(shared_url(), f"SELECT number FROM {writers}") == [(2,), (2,)]
        count = "SELECT count(*) FROM events"
        assert database.query(lambda connection: connection.execute(count).fetchone()[0]) == 5


@pytest.mark.parametrize("number", [6, 7])
def test_a_number_that_a_writer_has_used_records_no_other_transaction(number: int) -> None:
    database = empty_database()

    def record(connection: Any) -> None:
        writer = connection.execute("SELECT add_writer(NULL)").fetchone()[0]
        connection.execute("SELECT record_transaction(?, 7)", (writer,))
        connection.execute("SELECT record_transaction(?, ?)", (writer, number))

    with pytest.raises(StorageUnavailable, match="the writer has ended"):
        database.write(record)


def test_an_idle_session_whose_last_read_had_a_conflict_is_replaced() -> None:
    session = Session(shared_url().encode(), prepare=False, timeout=30)
    session.begin()
    conflict = "DO $$ BEGIN RAISE EXCEPTION 'conflict with recovery' USING ERRCODE = '40001'; END $$"
    session.send(Statement(conflict, ()))
    session.commit_later()
    assert session.has_ended()
    session.close()


def test_prepared_statements_of_different_clients_have_different_names() -> None:
    names: list[str] = []
    for _ in range(2):
        session = Session(shared_url().encode(), prepare=True, timeout=30)
        for _ in range(3):
            rows = session.execute("SELECT name FROM pg_prepared_statements").fetchall()
        names += [name for (name,) in rows]
        session.close()
    assert len(names) == len(set(names)) == 2


def test_an_interrupted_write_leaves_a_usable_database() -> None:
    database = empty_database()

    def job(connection: Any) -> None:
        connection.execute("INSERT INTO events (place, body) VALUES (1, '')")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.write(job)
    assert database.write(lambda connection: connection.execute("SELECT count(*) FROM events").fetchone()[0]) == 0


def test_a_forked_process_opens_sessions_of_its_own() -> None:
    database = empty_database()
    ledger = PostgresLedger(database)
    own = backend_of(database)
    child = os.fork()
    if child == 0:
        os._exit(0 if backend_of(database) != own else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert backend_of(database) == own
    assert list(resolve(ledger.events("r"))) == []


def test_a_closed_database_refuses_reads_and_writes() -> None:
    database = open_schema("closing")
    database.close()
    for call in (lambda: PostgresSaver(database).load("t"), lambda: database.write(lambda connection: None)):
        with pytest.raises(StorageUnavailable, match="it was closed"):
            resolve(call())


# -- statements


@pytest.mark.parametrize(
    ("sql", "expected", "names"),
    [
        ("a = ? AND b = ?", "a = $1 AND b = $2", ()),
        ("a = :x AND b = :y OR c = :x", "a = $1 AND b = $2 OR c = $1", ("x", "y")),
        ("a = '?' AND \":x\" = ? -- why? :z", "a = '?' AND \":x\" = $1 -- why? :z", ()),
        ("?::BIGINT[] || :x::TEXT", "$1::BIGINT[] || $1::TEXT", ("x",)),
        ("a = 'it''s ?' AND b = ?", "a = 'it''s ?' AND b = $1", ()),
    ],
)
def test_placeholders_become_numbers(sql: str, expected: str, names: tuple[str, ...]) -> None:
    assert parse(sql) == (expected.encode(), names)


def test_a_null_character_in_a_name_is_refused() -> None:
    saver = PostgresSaver(empty_database())
    with pytest.raises(SerdeError, match="null character"):
        resolve(saver.load("a\0b"))


# -- errors of the surroundings


def test_the_encoding_in_an_address_does_not_change_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_schema_url("encoded")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    for name, address in (("ü", f"{url}&client_encoding=LATIN1"), ("日本", url)):
        with PostgresStore(address) as store:
            store.put(("names",), name, {})
    keys = execute(shared_url(), "SELECT encode(convert_to(key, 'UTF8'), 'hex') FROM encoded.items ORDER BY id")
    assert [bytes.fromhex(key).decode() for (key,) in keys] == ["ü", "日本"]


def test_an_isolation_level_of_the_user_does_not_weaken_the_guards() -> None:
    database = empty_database()
    url = f"{shared_url()}&options=-c%20default_transaction_isolation%3Dserializable"
    with PostgresDatabase(url, schema=database.schema) as other:
        show = "SELECT current_setting('transaction_isolation')"
        assert other.write(lambda connection: connection.execute(show).fetchone()[0]) == "read committed"
        levels: list[Any] = []
        at_once = Statement(show, (), receive=lambda rows, _: levels.extend(rows))  # sent without BEGIN
        other.write(lambda connection: connection.send(at_once))
        assert levels == [("read committed",)]


def test_an_error_that_comes_with_the_commit_undoes_the_transaction() -> None:
    with open_schema("refused_commits") as database:
        database.write(lambda connection: [connection.execute(statement) for statement in REFUSED_COMMITS])
        saver = PostgresSaver(database)
        with pytest.raises(StorageError):
            resolve(saver.commit(commit_after(None)))
        assert list(resolve(saver.threads())) == []
        database.write(lambda connection: connection.execute("DROP TRIGGER refused ON records"))
        resolve(saver.commit(commit_after(None)))
        assert len(list(resolve(saver.threads()))) == 1


def test_locks_of_one_schema_do_not_block_another() -> None:
    first, second = empty_database(0), empty_database(1)

    def lock(connection: Any) -> None:
        connection.execute("SELECT set_config('lock_timeout', '2000', true)")
        connection.lock("thread", "claims")
        connection.execute("SELECT 1")

    def lock_both(connection: Any) -> None:
        lock(connection)
        second.write(lock)

    first.write(lock_both)


def test_a_process_that_is_slow_in_a_transaction_does_not_keep_others_from_claiming() -> None:
    database = empty_database()
    ledger, is_slow, may_go_on = PostgresLedger(database), threading.Event(), threading.Event()

    def be_slow(connection: Any) -> None:
        connection.execute("SELECT 1")  # sends what the jobs before have queued
        is_slow.set()
        may_go_on.wait(60)

    async def submit_claim() -> Any:
        return ledger.claim("w", NOW, 1)  # a future on an event loop

    with PostgresDatabase(shared_url(), schema=database.schema) as other, ThreadPoolExecutor(1) as pool:
        PostgresLedger(other).write([Insert(run("r", thread_id="r", due_at=NOW))])
        with database.transaction_lock:
            claim = asyncio.run(submit_claim())
            database.submit(be_slow)
        try:
            assert is_slow.wait(60)
            claiming = pool.submit(lambda: resolve(PostgresLedger(other).claim("v", NOW, 1)))
            assert claiming.result(30) == []  # the first claim was committed
        finally:
            may_go_on.set()
        assert [claimed.id for claimed in resolve(claim)] == ["r"]


def test_a_run_that_cannot_be_read_does_not_undo_the_claims_of_others() -> None:
    database = empty_database()
    ledger = PostgresLedger(database)
    ledger.write([Insert(run(name, thread_id=name, due_at=NOW)) for name in ("bad", "good")])
    change = "UPDATE workflow_runs SET settings = '\\x00' WHERE id = 'bad'"
    database.write(lambda connection: connection.execute(change))
    assert [claimed.id for claimed in resolve(ledger.claim("w", NOW, 10))] == ["good"]
    count = "SELECT count(*) FROM workflow_runs WHERE claim IS NOT NULL"
    assert database.query(lambda connection: connection.execute(count).fetchone()[0]) == 2


def test_a_result_that_cannot_be_processed_does_not_repeat_a_committed_transaction() -> None:
    database = empty_database()
    database.write(lambda connection: connection.execute("CREATE TABLE IF NOT EXISTS counted (n BIGINT)"))

    def fail(rows: list[Any], count: int) -> None:
        raise ValueError("no thread can be started")

    database.write(lambda connection: connection.send(Statement("INSERT INTO counted VALUES (1)", (), receive=fail)))
    count = "SELECT count(*) FROM counted"
    assert database.query(lambda connection: connection.execute(count).fetchone()[0]) == 1
    database.write(lambda connection: connection.execute("DROP TABLE counted"))


def test_a_name_that_is_too_long_for_an_index_is_refused_as_such() -> None:
    saver = PostgresSaver(empty_database())
    name = random.Random(1).randbytes(4000).hex()  # cannot be compressed
    with pytest.raises(SerdeError, match="index"):
        resolve(saver.commit(commit_after(None, branch_key=BranchKey(name))))


@pytest.mark.parametrize("option", ["direct_url", "replica_url"])
@pytest.mark.parametrize(
    "address", ["postgresql://u:top/secret@host/db", "password=top secret", "postgresql://u:s%zz@h/d"]
)
def test_other_addresses_show_no_password_in_errors_either(option: str, address: str) -> None:
    options: Any = {option: address}
    with pytest.raises(InvalidConfig) as raised:
        PostgresDatabase(shared_url(), **options)
    assert not any(part in str(raised.value) for part in ("secret", "top", "zz"))


def test_a_database_needs_a_session_for_reading() -> None:
    with pytest.raises(InvalidConfig, match="readers is 0"):
        PostgresDatabase(shared_url(), readers=0)


def test_an_empty_table_of_the_version_is_reported() -> None:
    url = new_schema_url("restoring")
    PostgresDatabase(url).close()
    execute(shared_url(), "DELETE FROM restoring.statewright_schema")
    with pytest.raises(DamagedDatabase, match="statewright_schema is empty"):
        PostgresDatabase(url)


def test_a_bell_that_is_closed_before_its_first_use_is_silent() -> None:
    bell = PostgresBell(shared_url())
    bell.close()
    bell.ring(Ring.DUE)

"""A copy of a database is complete and can be continued, or nothing was copied."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

import pytest
from tests.postgres_server import shared_url
from tests.unit.storage.copy.conftest import (
    HOUR,
    PAIRS,
    Open,
    app_on,
    contents_of,
    fill,
    rows_of,
    saver_of,
)

from statewright import END, START, Command, StateGraph, append, interrupt
from statewright.checkpoint import LeaseRequest, PrunePolicy
from statewright.checkpoint.forms import REPORTED
from statewright.errors import DamagedDatabase, InvalidConfig, SerdeError, StorageError, StorageLocked
from statewright.futures import resolve
from statewright.runs import RECORDS, Advance, Insert, NewEvent, Worker
from statewright.storage.checkpoints import segments
from statewright.storage.checkpoints.history import STORED_REPORTED
from statewright.storage.copy import copy_database, rows
from statewright.storage.copy.tables import TABLES
from statewright.storage.database import Database
from statewright.storage.open import ledger_of, store_of
from statewright.storage.postgres import PostgresDatabase
from statewright.storage.row_ids import RowIds
from statewright.testing.conformance.ledger.samples import NOW, full_record, run, write

all_pairs = pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS, ids=lambda kind: kind)
across = pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS[:2], ids=lambda kind: kind)
targets = pytest.mark.parametrize("kind", ["sqlite", "postgres"])


def is_empty(database: Database) -> bool:
    with database.read() as connection:
        return not any(connection.execute(f"SELECT 1 FROM {table.name} LIMIT 1").fetchone() for table in TABLES)


# -- what is copied


@all_pairs
def test_a_copy_has_the_same_content(opened: Open, source_kind: str, target_kind: str) -> None:
    source, target = opened(source_kind), opened(target_kind)
    fill(source)
    report = copy_database(source, target)
    assert report.rows["threads"] == 4
    assert min(report.rows[name] for name in ("records", "segments", "grown", "jumps", "pending", "events")) > 0
    assert {report.rows[kind.TABLE] for kind in RECORDS} == {2, 3}
    assert contents_of(target) == contents_of(source)


def test_every_table_and_column_is_copied_or_known_not_to_be(opened: Open) -> None:
    """A column that is added to the tables must be added to the copy."""
    left_out = {"threads": {"owner", "until", "wanted"}}
    derived = {
        "lines": {"head", "head_id", "records", "size", "pending"},
        "runs": {"next"},
        "workflow_runs": {"held_by", "graph_version"},
        "vectors": {"embedded"},
    }
    others = {"meta", "ledger", "cache", "statewright_schema", "sqlite_stat1", "writers"}
    copied = {table.name: {column.name for column in table.columns} for table in TABLES}
    for database in (opened("sqlite"), opened("postgres")):
        ledger_of(database)
        store_of(database)
        columns = columns_of(database)
        assert columns.keys() - copied.keys() <= others
        assert copied.keys() <= columns.keys()
        for name, expected in copied.items():
            assert columns[name] - left_out.get(name, set()) - derived.get(name, set()) == expected, name


def columns_of(database: Database) -> dict[str, set[str]]:
    sqlite = "SELECT m.name, p.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS p WHERE m.type = 'table'"
    server = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
    with database.read() as connection:
        columns: dict[str, set[str]] = {}
        for table, column in connection.execute(server if database.has_arrays else sqlite).fetchall():
            columns.setdefault(table, set()).add(column)
        return columns


@targets
def test_a_database_that_was_never_served_is_copied(opened: Open, kind: str) -> None:
    source, target = opened("sqlite"), opened(kind)
    app_on(saver_of(source)).invoke({"n": 0}, {"thread_id": "t"})
    copy_database(source, target)
    assert not source.has_tables("ledger")
    assert resolve(saver_of(target).history("t")) == resolve(saver_of(source).history("t"))


@across
def test_a_copy_can_be_continued(opened: Open, source_kind: str, target_kind: str) -> None:
    source, target = opened(source_kind), opened(target_kind)
    fill(source)
    copy_database(source, target)
    for database in (source, target):
        app = app_on(saver_of(database))
        state = app.invoke(Command(resume="seven"), {"thread_id": "a"})
        assert (state["answer"], len(state["words"])) == ("seven", 8)
        app.invoke({"n": 1}, {"thread_id": "new"})
        write(ledger_of(database), Advance("long", NOW, events=(NewEvent("Z", {}),)))
        store_of(database).put(("users", "3"), "k", {"text": "new"})
    assert [event.seq for event in resolve(saver_of(target).events("a"))] == [
        event.seq for event in resolve(saver_of(source).events("a"))
    ]
    assert [event.seq for event in resolve(ledger_of(target).events("long"))] == list(range(8, 15))
    assert [item.key for item in store_of(target).search(("users", "3"))] == ["k"]


def test_what_a_server_derives_from_rows_equals_what_it_had_written_itself(opened: Open) -> None:
    source, file, back = opened("postgres"), opened("sqlite"), opened("postgres")
    fill(source)
    copy_database(source, file)
    copy_database(file, back)
    for table, columns in (("lines", "id, head, head_id, records, size, pending"), ("runs", "id, name, next")):
        assert rows_of(back, table, columns) == rows_of(source, table, columns)


@pytest.mark.parametrize("keys", [(None, b"t" * 32), (b"s" * 32, None), (b"s" * 32, b"t" * 32), (b"s" * 32, b"s" * 32)])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.sampled(3)
def test_values_are_encrypted_with_the_key_of_the_target(opened: Open, keys: Any, compress: bool) -> None:
    source, target = opened("sqlite", key=keys[0], compress=compress), opened("postgres", key=keys[1])
    fill(source)
    copy_database(source, target)
    assert contents_of(target) == contents_of(source)
    assert rows_of(target, "grown", "body")
    stored = [
        bytes(body) for row in rows_of(target, "grown", "body") + rows_of(target, "items", "value") for body in row
    ]
    assert all(body.startswith(b"\xc1e") == (keys[1] is not None) for body in stored)


def test_values_are_copied_as_they_are_stored_if_the_keys_are_equal(opened: Open) -> None:
    source, target = opened("sqlite", key=bytes(32)), opened("postgres", key=bytes(32))
    fill(source)
    copy_database(source, target)
    assert rows_of(target, "items", "value") == rows_of(source, "items", "value")


def test_private_text_of_earlier_versions_is_copied(opened: Open) -> None:
    source, target = opened("sqlite"), opened("postgres", key=bytes(32))
    fill(source)
    source.write(lambda connection: connection.execute("UPDATE webhooks SET url = 'https://old.example'"))
    copy_database(source, target)
    assert contents_of(target) == contents_of(source)


def test_large_numbers_of_lines_and_runs_are_replaced_in_order(opened: Open) -> None:
    source, target = opened("postgres"), opened("sqlite")
    for table, column in (("lines", "id"), ("runs", "id"), ("workflow_runs", "number")):
        source.write(
            lambda connection, table=table, column=column: connection.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {2**31 + 7})"
            )
        )
    fill(source)
    copy_database(source, target)
    assert contents_of(target) == contents_of(source)
    assert rows_of(target, "workflow_runs", "number, id") == [(1, "full"), (2, "minimal"), (3, "long")]


def test_a_number_without_room_in_the_target_is_refused(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = opened("sqlite"), opened("postgres")
    app_on(saver_of(source)).invoke({"n": 0}, {"thread_id": "t"})
    monkeypatch.setattr(type(target), "row_ids", RowIds(number_bits=2))
    with pytest.raises(StorageError, match=r"the number \d+, and .* has room for 3"):
        copy_database(source, target)
    assert is_empty(target)


@across
def test_pages_of_any_size_give_the_same_copy(
    opened: Open, source_kind: str, target_kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(source_kind)
    fill(source)
    for page_rows, page_bytes in ((1, 1 << 20), (3, 1), (7, 1000)):
        target = opened(target_kind)
        with monkeypatch.context() as patch:
            patch.setattr(rows, "PAGE_ROWS", page_rows)
            patch.setattr(rows, "PAGE_BYTES", page_bytes)
            copy_database(source, target)
        assert contents_of(target) == contents_of(source)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_pages_are_limited_by_rows_and_by_bytes(opened: Open, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = opened(kind)
    store = store_of(database)
    for number in range(20):
        store.put(("a",), f"k{number:02}", {"text": "x" * (3000 if number < 10 else 1)})
    monkeypatch.setattr(rows, "PAGE_ROWS", 4)
    monkeypatch.setattr(rows, "PAGE_BYTES", 5000)
    (items,) = (table for table in TABLES if table.name == "items")
    with database.read() as connection:
        sizes = [len(page) for page in rows.iter_pages(connection, database, items)]
    assert sizes[:5] == [2] * 5
    assert max(sizes) == 4
    assert sum(sizes) == 20


_ROWS_READ = """
SELECT (seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes AS i WHERE i.relid = t.relid))::BIGINT
FROM pg_stat_user_tables AS t WHERE schemaname = current_schema() AND relname = 'workflow_runs'
"""


def rows_read(database: PostgresDatabase) -> int:
    """Return the number of rows of runs that a server has read so far."""
    database.write(lambda session: session.execute("SELECT pg_stat_force_next_flush()"))
    database.write(lambda session: session.execute("SELECT 1"))  # the statistics follow the end of a transaction
    return database.query(lambda session: session.execute(_ROWS_READ).fetchone()[0])


@pytest.mark.parametrize("is_analyzed", [False, True])
def test_a_server_reads_few_rows_for_each_due_run_that_is_copied(opened: Open, is_analyzed: bool) -> None:
    """Triggers look for earlier runs while the statistics of the target say that it is empty."""
    source, target = opened("sqlite"), opened("postgres")
    changes = [Insert(run(f"r{n}", due_at=NOW, thread_id=f"t{n // 2}", workspace_id=f"w{n % 3}")) for n in range(2000)]
    resolve(ledger_of(source).write(changes))
    ledger_of(target)
    if is_analyzed:
        target.write(lambda session: session.execute("ANALYZE workflow_runs"))
    before = rows_read(target)
    copy_database(source, target)
    assert 2000 < rows_read(target) - before < 20_000


# -- files of earlier versions


class Words(TypedDict, total=False):
    words: Annotated[list[str], append]


def asking_app_on(saver: Any) -> Any:
    """A graph that calls another one, which asks for words until it gets the word `end`, and reports them."""

    def ask(state: Words) -> Words:
        return {"words": [interrupt("next word?")]}

    inner: Any = StateGraph(Words).add_node("ask", ask).add_edge(START, "ask")
    inner.add_conditional_edges("ask", lambda state: END if state["words"][-1] == "end" else "ask", ["ask", END])
    outer: Any = StateGraph(Words).add_node("inner", inner.compile()).add_edge(START, "inner").add_edge("inner", END)
    return outer.compile(saver)


def say(database: Database, thread: str, *words: str) -> list[str]:
    """Answer the question of a thread with each of the words, and return all words of its state."""
    app = asking_app_on(saver_of(database))
    states = [app.invoke(Command(resume=word), {"thread_id": thread}) for word in words]
    database.write(lambda connection: None)  # waits for compactions
    return states[-1].get("words", [])


EARLIER = [f"word {number}" for number in range(9)]
LATER = [f"later {number}" for number in range(12)]


def names_in_grown(database: Database) -> set[str]:
    return {name for (name,) in rows_of(database, "grown", "field")}


@pytest.fixture
def earlier_file(opened: Open, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A file in which what a waiting subgraph reports is stored as a growing field, as earlier versions did."""
    database = opened("sqlite")
    with monkeypatch.context() as patch:
        patch.setattr(segments, "_NEVER_GROWING", frozenset())
        asking_app_on(saver_of(database)).invoke({}, {"thread_id": "t"})
        say(database, "t", *EARLIER)
    rename = "UPDATE grown SET field = ? WHERE field = ?"
    database.write(lambda connection: connection.execute(rename, (REPORTED, STORED_REPORTED)))
    assert REPORTED in names_in_grown(database)
    return database


@targets
def test_what_a_subgraph_has_reported_is_copied_from_a_file_of_an_earlier_version(
    opened: Open, earlier_file: Database, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    target = opened(kind)
    copy_database(earlier_file, target)
    assert contents_of(target) == contents_of(earlier_file)
    assert REPORTED not in names_in_grown(target)
    # The call goes on for long enough that more of its checkpoints are compacted.
    for database in (earlier_file, target):
        assert say(database, "t", *LATER, "end") == [*EARLIER, *LATER, "end"]
    assert not [record for record in caplog.records if record.name.startswith("statewright.storage")]


@targets
def test_a_copied_history_of_an_earlier_version_can_be_pruned_and_forked(
    opened: Open, earlier_file: Database, kind: str
) -> None:
    target = opened(kind)
    copy_database(earlier_file, target)
    for database in (earlier_file, target):
        saver = saver_of(database)
        resolve(saver.prune(PrunePolicy(keep_last=3)))
        resolve(saver.copy_thread("t", "copy"))
        assert say(database, "copy", *LATER, "end") == [*EARLIER, *LATER, "end"]


# -- when it is refused


@targets
def test_a_target_that_is_not_empty_is_refused(opened: Open, kind: str) -> None:
    source, target = opened("sqlite"), opened(kind)
    fill(source)
    store_of(target).put(("a",), "b", {"c": 1})
    before = contents_of(target)
    with pytest.raises(StorageError, match="is not empty: its table items has rows"):
        copy_database(source, target)
    assert contents_of(target) == before


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("nul\0", r"table items with id=501, key='nul\\x00'"),
        ("".join(map(chr, range(5000, 15000))), r"table items with id=501, key='.*\.\.\. \(10000 characters\)"),
    ],
    ids=["null", "long"],
)
def test_a_row_that_the_target_cannot_store_is_named(opened: Open, key: str, named: str) -> None:
    source, target = opened("sqlite"), opened("postgres")
    store = store_of(source)
    for n in range(1000):
        store.put(("n",), f"k{n}", {})
    source.write(lambda connection: connection.execute("UPDATE items SET key = ? WHERE key = 'k500'", (key,)))
    with pytest.raises(SerdeError, match=named) as refused:
        copy_database(source, target)
    assert source.location in str(refused.value)
    assert is_empty(target)


def test_a_database_is_not_copied_to_itself(opened: Open) -> None:
    database = opened("postgres")
    with pytest.raises(InvalidConfig, match="to itself"):
        copy_database(database, database)


@targets
def test_a_source_in_use_is_refused_or_copied_without_its_leases(opened: Open, kind: str) -> None:
    source, target = opened(kind), opened("sqlite")
    saver, now = saver_of(source), datetime.now(UTC)
    app_on(saver).invoke({"n": 0}, {"thread_id": "t"})
    resolve(saver.renew("t", LeaseRequest("someone", now, now + HOUR, claims=True)))
    with pytest.raises(StorageLocked, match=r"runs advance threads \('t'\)"):
        copy_database(source, target)
    assert is_empty(target)
    copy_database(source, target, allow_active=True)
    assert resolve(saver_of(target).lease("t")) is None
    assert resolve(saver.lease("t")) is not None


@targets
def test_a_source_that_is_served_is_refused(opened: Open, kind: str) -> None:
    source, target = opened(kind), opened("sqlite")
    worker = full_record(Worker, "worker-1")
    worker.until = datetime.now(UTC) + HOUR
    write(ledger_of(source), Insert(worker))
    with pytest.raises(StorageLocked, match="a server is using it"):
        copy_database(source, target)


# -- when it is interrupted, or wrong


@across
def test_an_interrupted_copy_leaves_the_target_empty(opened: Open, source_kind: str, target_kind: str) -> None:
    source, target = opened(source_kind), opened(target_kind)
    fill(source)
    totals: list[int] = []
    copy_database(source, opened("sqlite"), on_progress=lambda done, total: totals.append(total))

    def interrupt_at(number: int) -> Any:
        def on_progress(done: int, total: int) -> None:
            if done >= number:
                raise KeyboardInterrupt

        return on_progress

    for number in (1, totals[0] // 2, totals[0]):
        with pytest.raises(KeyboardInterrupt):
            copy_database(source, target, on_progress=interrupt_at(number))
        assert is_empty(target)
    copy_database(source, target)
    assert contents_of(target) == contents_of(source)


CHANGE = {
    "sqlite": ["CREATE TRIGGER wrong AFTER INSERT ON items BEGIN UPDATE items SET {}; END"],
    "postgres": [
        "CREATE FUNCTION wrong() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN NEW.{}; RETURN NEW; END $$",
        "CREATE TRIGGER wrong BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION wrong()",
    ],
}
LOSS = {
    "sqlite": ["CREATE TRIGGER wrong AFTER INSERT ON items BEGIN DELETE FROM items WHERE id = NEW.id; END"],
    "postgres": ["CREATE RULE wrong AS ON INSERT TO items DO INSTEAD NOTHING"],
}


@targets
@pytest.mark.parametrize("assignment", ["updated_at = 1", "key = 'z'", "ttl = 5"])
def test_a_target_that_stores_other_values_is_detected(opened: Open, kind: str, assignment: str) -> None:
    source, target = opened("sqlite"), opened(kind)
    store_of(source).put(("a",), "b", {"c": 1})
    store_of(target)
    for sql in CHANGE[kind]:
        target.write(lambda connection, sql=sql: connection.execute(sql.replace("{}", assignment)))
    with pytest.raises(DamagedDatabase, match="table items: the content of 1 rows differs"):
        copy_database(source, target)
    assert is_empty(target)


@targets
def test_a_target_that_loses_rows_is_detected(opened: Open, kind: str) -> None:
    source, target = opened("sqlite"), opened(kind)
    store_of(source).put(("a",), "b", {"c": 1})
    store_of(target)
    for sql in LOSS[kind]:
        target.write(lambda connection, sql=sql: connection.execute(sql))
    with pytest.raises(DamagedDatabase, match="table items: 1 rows were written, and 0 were read back"):
        copy_database(source, target)


@targets
def test_a_copy_shows_one_state_of_a_source_that_is_written_meanwhile(opened: Open, kind: str) -> None:
    source, target = opened(kind), opened("sqlite")
    fill(source)
    before = contents_of(source)
    is_first = iter([True])

    def write_once(done: int, total: int) -> None:
        if next(is_first, False):
            app_on(saver_of(source)).invoke({"n": 0}, {"thread_id": "later"})
            store_of(source).put(("later",), "k", {})
            saver_of(source).delete_thread("a")

    copy_database(source, target, on_progress=write_once)
    assert contents_of(target) == before
    assert contents_of(source) != before


def test_no_other_session_can_write_to_a_server_while_it_is_filled(opened: Open) -> None:
    source, target = opened("sqlite"), opened("postgres")
    fill(source)
    assert isinstance(target, PostgresDatabase)
    other = PostgresDatabase(f"{shared_url()}&options=-c%20lock_timeout%3D50ms", schema=target.schema)
    refused: list[StorageError] = []

    def write_to_target(done: int, total: int) -> None:
        if not refused:
            with pytest.raises(StorageLocked) as caught:
                app_on(saver_of(other)).invoke({"n": 0}, {"thread_id": "intruder"})
            refused.append(caught.value)

    copy_database(source, target, on_progress=write_to_target)
    other.close()
    assert refused
    assert contents_of(target) == contents_of(source)


def test_progress_reaches_its_total(opened: Open) -> None:
    source, target = opened("sqlite"), opened("postgres")
    fill(source)
    reports: list[tuple[int, int]] = []
    report = copy_database(source, target, on_progress=lambda done, total: reports.append((done, total)))
    assert reports == sorted(reports)
    assert reports[-1] == (2 * report.total, 2 * report.total)

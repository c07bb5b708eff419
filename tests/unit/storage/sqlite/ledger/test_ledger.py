"""The ledger in a SQLite file: the same results as in memory, formats of files, encryption, refused values, damage."""

from __future__ import annotations

import asyncio
import gzip
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.errors import (
    DamagedDatabase,
    InvalidConfig,
    NewerFormat,
    RecordConflict,
    SerdeError,
    WrongEncryptionKey,
)
from statewright.futures import is_future
from statewright.runs import (
    Advance,
    Among,
    Announce,
    Approval,
    Change,
    Condition,
    DailySpending,
    Delete,
    Forget,
    InMemoryLedger,
    Insert,
    ModelCall,
    NewEvent,
    Order,
    Plus,
    Record,
    Run,
    RunLabel,
    RunStatus,
    Spend,
    StepRun,
    Update,
    UpdateAll,
    Webhook,
    Worker,
    Workspace,
    where,
)
from statewright.storage.ledger.tables import encrypted_json
from statewright.storage.sqlite import SqliteLedger, SqliteSaver
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.testing.conformance.ledger.samples import NESTED, full_record, label, run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = bytes(range(32))


@pytest.fixture
def ledger(database: SqliteDatabase) -> SqliteLedger:
    return SqliteLedger(database)


def write(ledger: Any, *changes: Change) -> None:
    ledger.write(changes)


def change_file(path: Path, statement: str, *values: Any) -> None:
    """Change the file directly, without the ledger."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


# -- the same as in memory

IDS = [f"r{n}" for n in range(6)]
TIMES = [None, *(NOW + timedelta(seconds=n) for n in range(3))]


class Walk:
    """Random changes and queries, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def changes(self) -> list[Change]:
        return [self._change() for _ in range(self._random.choice([1, 1, 2, 4]))]

    def _change(self) -> Change:
        pick, record_id = self._random.choice, self._random.choice(IDS)
        return pick(
            [
                lambda: Insert(self._run(record_id)),
                lambda: Insert(label(record_id, pick("ab"), run_id=pick(IDS))),
                lambda: Update(Run, record_id, self._values(), self._where() if pick([0, 0, 1]) else ()),
                lambda: UpdateAll(Run, self._where(), self._values()),
                lambda: UpdateAll(RunLabel, where(value=pick("ab")), {"name": pick("xyz")}),
                lambda: Delete(RunLabel, where(value=pick("ab"), name=pick("xyz"))),
                lambda: Advance(record_id, pick(TIMES[1:]), self._values(), self._events()),
                lambda: Advance(
                    record_id, NOW, self._values(), self._events(), self._where() if pick([0, 0, 1]) else ()
                ),
                lambda: Announce(pick(["w1", "w2"]), pick("ab"), {"n": 1}, NOW),
                lambda: Forget(record_id),
                lambda: Spend(replace(DailySpending.of("w1", NOW), requests=pick([0, 1]))),
            ]
        )()

    def _events(self) -> list[NewEvent]:
        return [NewEvent(self._random.choice("AB"), {"n": n}, None) for n in range(self._random.randrange(4))]

    def _run(self, record_id: str) -> Run:
        pick = self._random.choice
        return run(
            record_id,
            workspace_id=pick(["w1", "w2"]),
            idempotency_key=pick([None, None, "k1", "k2"]),
            thread_id=pick("st"),
            concurrency_key=pick([None, "c"]),
            concurrency_limit=pick([None, 1]),
            sequence=pick([None, None, "s"]),
            **self._values(),
        )

    def _values(self) -> dict[str, Any]:
        pick = self._random.choice
        values = {
            "due_at": pick(TIMES),
            "status": pick(list(RunStatus)),
            "claim": pick([None, "mine"]),
            "parent_id": pick([None, *IDS]),
            "metadata": pick([None, {}, NESTED]),
            "total_cost": pick([0.5, 1.0]),
        }
        return {name: value for name, value in values.items() if pick([0, 0, 1])}

    def _where(self) -> list[Condition]:
        pick = self._random.choice
        labelled = Among(RunLabel, pick(["run_id", "value"]), where(value=pick("ab")))
        operators: Any = ["=", "!=", "<", "<=", ">", ">="]
        conditions = [
            Condition("due_at", pick(operators), pick(TIMES)),
            Condition("status", pick(operators), pick(list(RunStatus))),
            Condition("claim", pick(["=", "!="]), pick([None, "mine"])),
            Condition(pick(["id", "parent_id"]), "in", pick([labelled, IDS[:3], [None, "r1"], []])),
            Condition("parent_id", "in", Among(Run, "parent_id", where(workspace_id=pick(["w1", "w2"])))),
            Condition("id", "in", Among(Run, "id", [Condition("due_at", pick(operators), pick(TIMES))])),
        ]
        return self._random.sample(conditions, self._random.randrange(3))

    def query(self) -> Any:
        pick = self._random.choice
        conditions = self._where()
        order = pick([None, Order(pick(["due_at", "status", "parent_id", "id"]), pick([True, False]))])
        limit, offset = pick([None, 0, 2]), pick([0, 0, 1])
        by, after = self._random.sample(["status", "claim", "due_at"], pick([0, 1, 2])), self._random.randrange(4)
        return pick(
            [
                lambda ledger: ledger.find(Run, conditions, order=order, limit=limit, offset=offset),
                lambda ledger: ledger.count(Run, conditions),
                lambda ledger: ledger.groups(Run, by, where=conditions, sums=["total_cost"]),
                lambda ledger: [ledger.events(record_id, after=after, limit=limit) for record_id in IDS],
                lambda ledger: ledger.find(RunLabel),
                lambda ledger: ledger.find(DailySpending),
            ]
        )


def error_of(ledger: Any, changes: list[Change]) -> str | None:
    try:
        ledger.write(changes)
    except RecordConflict as error:
        return type(error).__name__
    return None


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.sampled(3)
def test_random_changes_have_the_same_results_as_in_memory(database: SqliteDatabase, seed: int) -> None:
    walk, ledgers = Walk(seed), (InMemoryLedger(), SqliteLedger(database))
    for ledger in ledgers:
        hook = Webhook(id="h", workspace_id="w1", url="u", events=["a"], created_at=NOW)
        write(ledger, Insert(Workspace(id="w1", slug="w1", max_running=2, created_at=NOW)), Insert(hook))
    for _ in range(60):
        changes = walk.changes()
        assert error_of(ledgers[0], changes) == error_of(ledgers[1], changes), changes
        query = walk.query()
        assert query(ledgers[0]) == query(ledgers[1])
        claimed = [[replace(run, claim="drawn") for run in ledger.claim("w", TIMES[2], 2)] for ledger in ledgers]
        assert claimed[0] == claimed[1]
        for ledger in ledgers:
            write(ledger, UpdateAll(Run, [Condition("claim", "!=", None)], {"claim": "mine"}))


# -- on an event loop


def test_methods_return_futures_on_an_event_loop(ledger: SqliteLedger) -> None:
    async def use() -> None:
        futures = [
            ledger.write([Insert(run(due_at=NOW))]),
            ledger.get(Run, "r1"),
            ledger.find(Run),
            ledger.count(Run),
            ledger.groups(Run, ["status"]),
            ledger.events("r1"),
            ledger.claim("w", NOW, 1),
        ]
        assert all(is_future(future) for future in futures)
        assert len(await aresolve(futures[-1])) == 1
        with pytest.raises(RecordConflict):
            await aresolve(ledger.write([Insert(run())]))
        runs = await aresolve(ledger.find(Run))
        assert [record.worker_id for record in runs] == ["w"]

    asyncio.run(use())


# -- files


def test_records_and_events_are_kept_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteLedger(path) as ledger:
        write(ledger, Insert(run(metadata=NESTED)), Advance("r1", NOW, {}, [NewEvent("A", NESTED)]))
    with SqliteLedger(path) as ledger:
        record = ledger.get(Run, "r1")
        assert isinstance(record, Run)
        assert record.metadata == NESTED
        write(ledger, Advance("r1", NOW, {}, [NewEvent("B", {})]))
        events: Any = ledger.events("r1")
        assert [(event.seq, event.type) for event in events] == [(1, "A"), (2, "B")]


def test_a_file_of_a_saver_can_be_opened_as_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    SqliteSaver(path).close()
    SqliteLedger(path).close()
    with SqliteLedger(path) as ledger, SqliteSaver(path):
        assert ledger.count(Run) == 0


def test_tables_of_a_newer_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    SqliteLedger(path).close()
    change_file(path, "INSERT INTO ledger (format) VALUES (9)")
    with pytest.raises(NewerFormat, match="has format 9, and this version of Statewright reads up to 8"):
        SqliteLedger(path)


RECORDED = Path(__file__).parents[4] / "durability" / "recorded" / "ledger_format4.db.gz"


def downgrade_to_format_4(path: Path) -> None:
    """Undo the last migrations."""
    with closing(sqlite3.connect(path)) as connection:
        for kind, name in connection.execute("SELECT type, name FROM sqlite_schema").fetchall():
            is_new = kind == "trigger" or re.match("runs_(due|held|pending|begun|claimed|waiting)", name)
            if is_new:
                connection.execute(f"DROP {kind} {name}")
        for table, columns in {
            "workflow_runs": ("graph_version", "held_by", "losses", "priority", "queue", "progress"),
            "workers": ("host", "draining", "queues", "versions"),
            "signals": ("sent_by_key",),
        }.items():
            for column in columns:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("ALTER TABLE workflow_runs RENAME COLUMN sequence TO queue")
        connection.execute("DROP TABLE queues")
        connection.execute("DROP TABLE sessions")
        for name in ("runs_by_queue", "runs_due", "runs_at_work", "runs_at_work_by_key"):
            connection.execute(f"CREATE INDEX {name} ON workflow_runs (workspace_id, claim)")
        connection.execute("UPDATE ledger SET format = 4")
        connection.commit()


def test_a_recorded_file_of_format_4_is_migrated(tmp_path: Path) -> None:
    """Runs of what was called a queue keep their order, and are claimed from the default queue."""
    path = tmp_path / "runs.db"
    path.write_bytes(gzip.decompress(RECORDED.read_bytes()))
    for _ in range(2):
        with SqliteLedger(path) as ledger:
            records: dict[str, Any] = {run.id: run for run in ledger.find(Run)}
            assert len(records) == 5
            assert {(run.queue, run.priority) for run in records.values()} == {("default", 0)}
            assert {run.id: run.sequence for run in records.values()} == {
                "q1": "nightly",
                "q2": "nightly",
                "t1": None,
                "t2": None,
                "old": "nightly",
            }
            assert ledger.count(Worker) == 1
    with SqliteLedger(path) as ledger:
        assert [run.id for run in ledger.claim("w", NOW, 9)] == ["q1", "t1"]
        write(ledger, Update(Run, "q1", {"status": RunStatus.COMPLETED, "claim": None}))
        assert [run.id for run in ledger.claim("w", NOW, 9)] == ["q2"]


def test_tables_of_format_1_are_migrated_and_keep_their_records(tmp_path: Path) -> None:
    path, at = tmp_path / "runs.db", datetime(2026, 1, 2, tzinfo=UTC)
    approval = Approval(id="old", run_id="r", workspace_id="w", step_id="s", step_name="agree", created_at=at)
    with SqliteLedger(path) as ledger:
        write(ledger, Insert(approval))
    change_file(path, "ALTER TABLE approval_requests DROP COLUMN decided_by_key")
    change_file(path, "DROP TABLE daily_spending")
    downgrade_to_format_4(path)
    change_file(path, "UPDATE ledger SET format = 1")
    for _ in range(2):
        with SqliteLedger(path) as ledger:
            assert ledger.get(Approval, "old") == approval
            write(ledger, Update(Approval, "old", {"decided_by_key": None}))


def test_migrating_format_2_computes_the_daily_spending(tmp_path: Path) -> None:
    path, late = tmp_path / "runs.db", datetime(2026, 1, 2, 23, 59, 59, 999999, tzinfo=UTC)
    usage: dict[str, Any] = {"run_id": "r", "input_tokens": 10, "output_tokens": 5, "cost": 0.25}
    calls = [
        ModelCall(id="1", workspace_id="w", created_at=late, **usage),
        ModelCall(id="2", workspace_id="w", created_at=late - timedelta(hours=5), **usage),
        ModelCall(id="3", workspace_id="w", created_at=late + timedelta(microseconds=1), **usage),
        ModelCall(id="4", workspace_id="v", created_at=late, **usage),
    ]
    with SqliteLedger(path) as ledger:
        write(ledger, *map(Insert, calls))
    change_file(path, "DROP TABLE daily_spending")
    downgrade_to_format_4(path)
    change_file(path, "UPDATE ledger SET format = 2")
    for _ in range(2):
        with SqliteLedger(path) as ledger:
            spending = [
                (record.id, record.requests, record.tokens, record.cost) for record in ledger.find(DailySpending)
            ]
            assert spending == [
                ("v/2026-01-02", 1, 15, 0.25),
                ("w/2026-01-02", 2, 30, 0.5),
                ("w/2026-01-03", 1, 15, 0.25),
            ]
            assert [day.id for day in ledger.find(DailySpending)] == [
                DailySpending.of(call.workspace_id, call.created_at).id for call in (calls[3], calls[0], calls[2])
            ]
    no_spending = Spend(DailySpending.of("w", late))
    with SqliteLedger(path) as ledger:
        write(ledger, no_spending)
    assert no_spending.after is not None
    assert no_spending.after.requests == 2


@pytest.mark.parametrize("key", [None, bytes(32)], ids=["plain", "encrypted"])
def test_webhooks_of_format_3_keep_their_types_of_events(tmp_path: Path, key: bytes | None) -> None:
    path = tmp_path / "runs.db"
    webhooks = [
        Webhook(id="all", workspace_id="w1", url="u", created_at=NOW),
        Webhook(id="none", workspace_id="w1", url="u", events=["b"], created_at=NOW),
        Webhook(id="some", workspace_id="w1", url="u", events=["a", "b"], created_at=NOW),
    ]
    with SqliteLedger(path, key=key) as ledger:
        write(ledger, *map(Insert, webhooks))
        for webhook in webhooks:
            change_file(
                path,
                "UPDATE webhooks SET events = ? WHERE id = ?",
                encrypted_json(ledger.database.encryptor, webhook.events),
                webhook.id,
            )
    downgrade_to_format_4(path)
    change_file(path, "UPDATE ledger SET format = 3")
    for _ in range(2):
        with SqliteLedger(path, key=key) as ledger:
            assert list(ledger.find(Webhook)) == webhooks
            write(ledger, announcement := Announce("w1", "a", {}, NOW))
            assert announcement.delivery_count == 2


def test_importing_the_package_does_not_load_the_ledger() -> None:
    program = """
import sys
import statewright.storage.sqlite as sqlite
assert "statewright.runs" not in sys.modules and "pydantic_core" not in sys.modules
from statewright.storage.ledger.tables import encrypted_json
from statewright.storage.sqlite import SqliteLedger
assert sqlite.SqliteLedger is SqliteLedger
try:
    sqlite.SqliteLeger
except AttributeError as error:
    print(error)
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "module 'statewright.storage.sqlite' has no attribute 'SqliteLeger'\n"


# -- secrets


def test_data_of_users_is_encrypted(tmp_path: Path) -> None:
    path, secret = tmp_path / "runs.db", "a secret of 24 letters!!"
    with SqliteLedger(path, key=KEY) as ledger:
        content = {"given": [secret]}
        write(
            ledger, Insert(run(**dict.fromkeys(("input", "output", "error", "settings", "metadata", "tags"), content)))
        )
        write(ledger, Insert(replace(full_record(StepRun, "s"), output=content, error=content)))
        texts = dict.fromkeys(("url", "description", "disabled_reason", "secret"), secret)
        hook = Webhook(id="h", workspace_id="w1", events=["a"], created_at=NOW, **texts)
        write(
            ledger, Insert(replace(full_record(Approval, "a"), prompt=secret, content=content, edited_content=content))
        )
        write(ledger, Update(Approval, "a", {"decided_by": secret}))
        write(ledger, Insert(hook), Announce("w1", "a", content, NOW), Announce("w1", "b", content, NOW))
        write(ledger, Advance("r1", NOW, {"output": content}, [NewEvent("A", content)]))
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"workflow_runs" in stored
        assert secret.encode() not in stored
        events: Any = ledger.events("r1")
        assert events[0].payload == content
        decided: Any = ledger.get(Approval, "a")
        assert (decided.prompt, decided.decided_by) == (secret, secret)
    with pytest.raises(WrongEncryptionKey):
        SqliteLedger(path, key=KEY[::-1])


# -- values that cannot be stored


@pytest.mark.parametrize(
    ("value", "reason"),
    [("\ud800", "surrogates"), (object(), "unknown type"), (b"\xff", "utf-8")],
    ids=["surrogate", "object", "bytes"],
)
def test_values_that_are_not_json_are_refused(ledger: SqliteLedger, value: Any, reason: str) -> None:
    write(ledger, Insert(run()))
    for change in (
        Insert(run("r2", output=[value])),
        Update(Run, "r1", {"output": [value]}),
        Advance("r1", NOW, {"output": [value]}),
    ):
        with pytest.raises(SerdeError, match=rf"workflow_runs\.output cannot be stored or read: .*{reason}"):
            write(ledger, change)
    with pytest.raises(SerdeError, match=f"an event of run 'r1' cannot be stored or read: .*{reason}"):
        write(ledger, Advance("r1", NOW, {}, [NewEvent("A", {"x": value})]))
    with pytest.raises(SerdeError, match=f"webhook_deliveries.body cannot be stored or read: .*{reason}"):
        write(ledger, Announce("w1", "a", {"x": value}, NOW))
    assert ledger.find(Run) == [run()]


def test_a_value_that_contains_itself_is_refused(ledger: SqliteLedger) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(SerdeError, match=r"workflow_runs\.input cannot be stored or read"):
        write(ledger, Insert(run(input=endless)))


def test_deeply_nested_values_are_stored_unchanged_or_refused(ledger: SqliteLedger) -> None:
    stored = 0
    for depth in (150, 199, 200, 201, 202, 230, 250, 253, 254, 255, 256, 400, 3000):
        value: Any = "bottom"
        for _ in range(depth):
            value = {"k": value} if depth % 2 else [value]
        try:
            write(ledger, Insert(run(f"r{depth}", input=value)))
        except SerdeError:
            continue
        record = ledger.get(Run, f"r{depth}")
        assert isinstance(record, Run)
        assert record.input == value
        stored += 1
    assert stored >= 8


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"graph": "\ud800"}, "surrogates"),
        ({"version": 2**63}, "too large"),
        ({"graph": None}, r"workflow_runs\.graph .* must not be None"),
        ({"due_at": datetime(2026, 1, 1)}, "workflow_runs.due_at"),
    ],
    ids=["text", "number", "none", "time"],
)
def test_values_that_do_not_fit_their_column_are_refused(
    ledger: SqliteLedger, values: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SerdeError, match=reason):
        write(ledger, Insert(label("1")), Insert(run(**values)))
    assert ledger.count(RunLabel) == 0


def test_conditions_with_values_that_cannot_be_stored_are_refused(ledger: SqliteLedger) -> None:
    write(ledger, Insert(run()))
    with pytest.raises(SerdeError, match="surrogates"):
        ledger.get(Run, "\ud800")
    with pytest.raises(SerdeError, match="too large"):
        ledger.count(Run, where(version=2**64))
    assert ledger.count(Run) == 1


# -- invalid queries


def test_an_unknown_column_is_refused_with_a_suggestion(ledger: SqliteLedger) -> None:
    for query in (
        lambda: ledger.count(Run, where(statsu="pending")),
        lambda: ledger.find(Run, order=Order("statsu")),
        lambda: ledger.groups(Run, ["statsu"]),
        lambda: ledger.groups(Run, [], sums=["statsu"]),
        lambda: write(ledger, Update(Run, "r1", {"statsu": "x"})),
        lambda: write(ledger, Update(Run, "r1", {"statsu": Plus(1)})),
        lambda: ledger.count(RunLabel, [Condition("run_id", "in", Among(Run, "statsu", ()))]),
    ):
        with pytest.raises(InvalidConfig, match=r"workflow_runs has no column 'statsu'\. Did you mean 'status'\?"):
            query()


def test_columns_with_json_cannot_be_searched(ledger: SqliteLedger) -> None:
    for query in (
        lambda: ledger.count(Run, where(metadata={})),
        lambda: ledger.find(Run, order=Order("metadata")),
        lambda: ledger.groups(Run, ["metadata"]),
    ):
        with pytest.raises(InvalidConfig, match=r"workflow_runs\.metadata holds JSON, which cannot be searched"):
            query()


def test_an_unknown_operator_is_refused(ledger: SqliteLedger) -> None:
    unknown: Any = "like"
    with pytest.raises(InvalidConfig, match=r"Unknown operator 'like' on workflow_runs\.graph\."):
        ledger.count(Run, [Condition("graph", unknown, "g")])


def test_a_column_name_cannot_inject_sql(ledger: SqliteLedger) -> None:
    with pytest.raises(InvalidConfig, match="has no column"):
        ledger.find(Run, order=Order('id" DESC; DROP TABLE workflow_runs; --'))


# -- damage


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("metadata", b"{cut sho"),
        ("metadata", b"\xc1z not compressed"),
        ("metadata", 5),
        ("status", "lost"),
        ("created_at", "monday"),
        ("created_at", 2**62),
    ],
)
def test_a_corrupted_record_raises_damaged_database(ledger: SqliteLedger, column: str, value: Any) -> None:
    write(ledger, Insert(run(due_at=NOW)))
    change_file(ledger.database.path, f"UPDATE workflow_runs SET {column} = ?", value)
    for query in (lambda: ledger.get(Run, "r1"), lambda: ledger.find(Run), lambda: ledger.claim("w", NOW, 1)):
        with pytest.raises(DamagedDatabase):
            query()
    if column == "status":
        with pytest.raises(DamagedDatabase, match="a record of workflow_runs cannot be decoded"):
            ledger.groups(Run, ["status"])


@pytest.mark.parametrize("body", [b"[[", b"5", b"[[1]]", b"{}x", 7, b'[["A", {}]]'])
def test_a_corrupted_log_raises_damaged_database(ledger: SqliteLedger, body: Any) -> None:
    write(ledger, Insert(run()), Advance("r1", NOW, {}, [NewEvent("A", {})]))
    change_file(ledger.database.path, "UPDATE run_events SET body = ?", body)
    with pytest.raises(DamagedDatabase, match="run_events"):
        ledger.events("r1")


def test_a_corrupted_webhook_raises_damaged_database(ledger: SqliteLedger) -> None:
    write(ledger, Insert(Webhook(id="h", workspace_id="w1", url="u", created_at=NOW)))
    change_file(ledger.database.path, "UPDATE webhooks SET events = ?", "[")
    with pytest.raises(DamagedDatabase, match="malformed JSON"):
        write(ledger, Announce("w1", "a", {}, NOW))


# -- deleted runs


@pytest.mark.parametrize("deletion", [Forget("r2"), Delete(Run, where(id="r2"))], ids=["forgotten", "deleted"])
def test_a_new_run_does_not_inherit_the_log_of_a_deleted_run(ledger: SqliteLedger, deletion: Change) -> None:
    write(ledger, *(Insert(run(run_id)) for run_id in ("r1", "r2")))
    write(ledger, *(Advance(run_id, NOW, {}, [NewEvent(run_id, {})]) for run_id in ("r1", "r2")))
    write(ledger, deletion, Insert(run("r3")))
    assert [ledger.events(run_id) for run_id in ("r2", "r3")] == [[], []]
    write(ledger, Advance("r3", NOW, {}, [NewEvent("A", {})]))
    logs: Any = [ledger.events(run_id) for run_id in ("r1", "r3")]
    assert [[(event.seq, event.type) for event in events] for events in logs] == [[(1, "r1")], [(1, "A")]]


def count_rows(database: SqliteDatabase) -> Iterator[tuple[str, int]]:
    with database.read() as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            yield name, connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]


def test_a_forgotten_run_leaves_no_rows(ledger: SqliteLedger) -> None:
    before = dict(count_rows(ledger.database))
    records: list[Record] = [run(), label("1"), replace(full_record(StepRun, "s"), run_id="r1")]
    write(ledger, *map(Insert, records), Advance("r1", NOW, {}, [NewEvent("A", {})]))
    assert dict(count_rows(ledger.database)) != before
    write(ledger, Forget("r1"))
    assert dict(count_rows(ledger.database)) == before

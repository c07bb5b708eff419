"""The ledger in a SQLite file: it does what the ledger in memory does, and what it was told is there tomorrow."""

from __future__ import annotations

import asyncio
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
    """Write to the file past everybody who knows what it means."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


# -- the same as in memory

IDS = [f"r{n}" for n in range(6)]
TIMES = [None, *(NOW + timedelta(seconds=n) for n in range(3))]


class Walk:
    """The same changes and questions, drawn by a seed, for both ledgers."""

    def __init__(self, seed: int) -> None:
        self._drawn = Random(seed)

    def changes(self) -> list[Change]:
        return [self._change() for _ in range(self._drawn.choice([1, 1, 2, 4]))]

    def _change(self) -> Change:
        pick, one = self._drawn.choice, self._drawn.choice(IDS)
        return pick(
            [
                lambda: Insert(self._run(one)),
                lambda: Insert(label(one, pick("ab"), run_id=pick(IDS))),
                lambda: Update(Run, one, self._values(), self._where() if pick([0, 0, 1]) else ()),
                lambda: UpdateAll(Run, self._where(), self._values()),
                lambda: UpdateAll(RunLabel, where(value=pick("ab")), {"name": pick("xyz")}),
                lambda: Delete(RunLabel, where(value=pick("ab"), name=pick("xyz"))),
                lambda: Advance(one, pick(TIMES[1:]), self._values(), self._events()),
                lambda: Advance(one, NOW, self._values(), self._events(), self._where() if pick([0, 0, 1]) else ()),
                lambda: Announce(pick(["w1", "w2"]), pick("ab"), {"n": 1}, NOW),
                lambda: Forget(one),
                lambda: Spend(replace(DailySpending.of("w1", NOW), requests=pick([0, 1]))),
            ]
        )()

    def _events(self) -> list[NewEvent]:
        return [NewEvent(self._drawn.choice("AB"), {"n": n}, None) for n in range(self._drawn.randrange(4))]

    def _run(self, identity: str) -> Run:
        pick = self._drawn.choice
        return run(
            identity,
            workspace_id=pick(["w1", "w2"]),
            idempotency_key=pick([None, None, "k1", "k2"]),
            thread_id=pick("st"),
            concurrency_key=pick([None, "c"]),
            concurrency_limit=pick([None, 1]),
            queue=pick([None, None, "q"]),
            **self._values(),
        )

    def _values(self) -> dict[str, Any]:
        pick = self._drawn.choice
        drawn = {
            "due_at": pick(TIMES),
            "status": pick(list(RunStatus)),
            "claim": pick([None, "mine"]),
            "parent_id": pick([None, *IDS]),
            "metadata": pick([None, {}, NESTED]),
            "total_cost": pick([0.5, 1.0]),
        }
        return {name: value for name, value in drawn.items() if pick([0, 0, 1])}

    def _where(self) -> list[Condition]:
        pick = self._drawn.choice
        labelled = Among(RunLabel, pick(["run_id", "value"]), where(value=pick("ab")))
        operators: Any = ["=", "!=", "<", "<=", ">", ">="]
        drawn = [
            Condition("due_at", pick(operators), pick(TIMES)),
            Condition("status", pick(operators), pick(list(RunStatus))),
            Condition("claim", pick(["=", "!="]), pick([None, "mine"])),
            Condition(pick(["id", "parent_id"]), "in", pick([labelled, IDS[:3], [None, "r1"], []])),
            Condition("parent_id", "in", Among(Run, "parent_id", where(workspace_id=pick(["w1", "w2"])))),
            Condition("id", "in", Among(Run, "id", [Condition("due_at", pick(operators), pick(TIMES))])),
        ]
        return self._drawn.sample(drawn, self._drawn.randrange(3))

    def question(self) -> Any:
        pick = self._drawn.choice
        fitting = self._where()
        order = pick([None, Order(pick(["due_at", "status", "parent_id", "id"]), pick([True, False]))])
        limit, offset = pick([None, 0, 2]), pick([0, 0, 1])
        by, after = self._drawn.sample(["status", "claim", "due_at"], pick([0, 1, 2])), self._drawn.randrange(4)
        return pick(
            [
                lambda one: one.find(Run, fitting, order=order, limit=limit, offset=offset),
                lambda one: one.count(Run, fitting),
                lambda one: one.groups(Run, by, where=fitting, sums=["total_cost"]),
                lambda one: [one.events(identity, after=after, limit=limit) for identity in IDS],
                lambda one: one.find(RunLabel),
                lambda one: one.find(DailySpending),
            ]
        )


def outcome(ledger: Any, changes: list[Change]) -> str | None:
    try:
        ledger.write(changes)
    except RecordConflict as error:
        return type(error).__name__
    return None


@pytest.mark.parametrize("seed", range(30))
def test_it_does_what_the_ledger_in_memory_does(database: SqliteDatabase, seed: int) -> None:
    walk, ledgers = Walk(seed), (InMemoryLedger(), SqliteLedger(database))
    for one in ledgers:
        hook = Webhook(id="h", workspace_id="w1", url="u", events=["a"], created_at=NOW)
        write(one, Insert(Workspace(id="w1", slug="w1", max_running=2, created_at=NOW)), Insert(hook))
    for _ in range(60):
        changes = walk.changes()
        assert outcome(ledgers[0], changes) == outcome(ledgers[1], changes), changes
        question = walk.question()
        assert question(ledgers[0]) == question(ledgers[1])
        taken = [[replace(run, claim="drawn") for run in one.claim("w", TIMES[2], 2)] for one in ledgers]
        assert taken[0] == taken[1]
        for one in ledgers:
            write(one, UpdateAll(Run, [Condition("claim", "!=", None)], {"claim": "mine"}))


# -- on an event loop


def test_an_event_loop_does_not_wait_here(ledger: SqliteLedger) -> None:
    async def use() -> None:
        later = [
            ledger.write([Insert(run(due_at=NOW))]),
            ledger.get(Run, "r1"),
            ledger.find(Run),
            ledger.count(Run),
            ledger.groups(Run, ["status"]),
            ledger.events("r1"),
            ledger.claim("w", NOW, 1),
        ]
        assert all(is_future(one) for one in later)
        assert len(await aresolve(later[-1])) == 1
        with pytest.raises(RecordConflict):
            await aresolve(ledger.write([Insert(run())]))
        found = await aresolve(ledger.find(Run))
        assert [one.worker_id for one in found] == ["w"]

    asyncio.run(use())


# -- files


def test_what_was_written_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteLedger(path) as ledger:
        write(ledger, Insert(run(metadata=NESTED)), Advance("r1", NOW, {}, [NewEvent("A", NESTED)]))
    with SqliteLedger(path) as ledger:
        found = ledger.get(Run, "r1")
        assert isinstance(found, Run)
        assert found.metadata == NESTED
        write(ledger, Advance("r1", NOW, {}, [NewEvent("B", {})]))
        events: Any = ledger.events("r1")
        assert [(one.seq, one.type) for one in events] == [(1, "A"), (2, "B")]


def test_a_file_of_threads_becomes_one_of_runs_too(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    SqliteSaver(path).close()
    SqliteLedger(path).close()
    with SqliteLedger(path) as ledger, SqliteSaver(path):
        assert ledger.count(Run) == 0


def test_a_file_with_tables_of_a_newer_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    SqliteLedger(path).close()
    change_file(path, "INSERT INTO ledger (format) VALUES (5)")
    with pytest.raises(NewerFormat, match="has format 5, and this version of Statewright reads up to 4"):
        SqliteLedger(path)


def test_tables_of_form_1_become_those_of_today_and_keep_what_they_hold(tmp_path: Path) -> None:
    path, at = tmp_path / "runs.db", datetime(2026, 1, 2, tzinfo=UTC)
    kept = Approval(id="old", run_id="r", workspace_id="w", step_id="s", step_name="agree", created_at=at)
    with SqliteLedger(path) as ledger:
        write(ledger, Insert(kept))
    change_file(path, "ALTER TABLE approval_requests DROP COLUMN decided_by_key")
    change_file(path, "DROP TABLE daily_spending")
    change_file(path, "UPDATE ledger SET format = 1")
    for _ in range(2):
        with SqliteLedger(path) as ledger:
            assert ledger.get(Approval, "old") == kept
            write(ledger, Update(Approval, "old", {"decided_by_key": None}))


def test_tables_of_form_2_tell_what_their_runs_have_spent_on_each_day(tmp_path: Path) -> None:
    path, late = tmp_path / "runs.db", datetime(2026, 1, 2, 23, 59, 59, 999999, tzinfo=UTC)
    used: dict[str, Any] = {"run_id": "r", "input_tokens": 10, "output_tokens": 5, "cost": 0.25}
    calls = [
        ModelCall(id="1", workspace_id="w", created_at=late, **used),
        ModelCall(id="2", workspace_id="w", created_at=late - timedelta(hours=5), **used),
        ModelCall(id="3", workspace_id="w", created_at=late + timedelta(microseconds=1), **used),
        ModelCall(id="4", workspace_id="v", created_at=late, **used),
    ]
    with SqliteLedger(path) as ledger:
        write(ledger, *map(Insert, calls))
    change_file(path, "DROP TABLE daily_spending")
    change_file(path, "UPDATE ledger SET format = 2")
    for _ in range(2):
        with SqliteLedger(path) as ledger:
            found = [(one.id, one.requests, one.tokens, one.cost) for one in ledger.find(DailySpending)]
            assert found == [("v/2026-01-02", 1, 15, 0.25), ("w/2026-01-02", 2, 30, 0.5), ("w/2026-01-03", 1, 15, 0.25)]
            assert [one.id for one in ledger.find(DailySpending)] == [
                DailySpending.of(one.workspace_id, one.created_at).id for one in (calls[3], calls[0], calls[2])
            ]
    nothing_more = Spend(DailySpending.of("w", late))
    with SqliteLedger(path) as ledger:
        write(ledger, nothing_more)
    assert nothing_more.after is not None
    assert nothing_more.after.requests == 2


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
    change_file(path, "UPDATE ledger SET format = 3")
    for _ in range(2):
        with SqliteLedger(path, key=key) as ledger:
            assert list(ledger.find(Webhook)) == webhooks
            write(ledger, announcement := Announce("w1", "a", {}, NOW))
            assert announcement.delivery_count == 2


def test_the_ledger_is_loaded_when_it_is_met() -> None:
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
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == "module 'statewright.storage.sqlite' has no attribute 'SqliteLeger'\n"


# -- secrets


def test_what_users_put_in_is_encrypted(tmp_path: Path) -> None:
    path, secret = tmp_path / "runs.db", "a secret of 24 letters!!"
    with SqliteLedger(path, key=KEY) as ledger:
        given = {"given": [secret]}
        write(ledger, Insert(run(**dict.fromkeys(("input", "output", "error", "settings", "metadata", "tags"), given))))
        write(ledger, Insert(replace(full_record(StepRun, "s"), output=given, error=given)))
        told = dict.fromkeys(("url", "description", "disabled_reason", "secret"), secret)
        hook = Webhook(id="h", workspace_id="w1", events=["a"], created_at=NOW, **told)
        write(ledger, Insert(replace(full_record(Approval, "a"), prompt=secret, content=given, edited_content=given)))
        write(ledger, Update(Approval, "a", {"decided_by": secret}))
        write(ledger, Insert(hook), Announce("w1", "a", given, NOW), Announce("w1", "b", given, NOW))
        write(ledger, Advance("r1", NOW, {"output": given}, [NewEvent("A", given)]))
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"workflow_runs" in stored
        assert secret.encode() not in stored
        events: Any = ledger.events("r1")
        assert events[0].payload == given
        decided: Any = ledger.get(Approval, "a")
        assert (decided.prompt, decided.decided_by) == (secret, secret)
    with pytest.raises(WrongEncryptionKey):
        SqliteLedger(path, key=KEY[::-1])


# -- what cannot be kept


@pytest.mark.parametrize(
    ("value", "why"),
    [("\ud800", "surrogates"), (object(), "unknown type"), (b"\xff", "utf-8")],
    ids=["half a sign", "object", "bytes"],
)
def test_what_is_no_json_is_refused(ledger: SqliteLedger, value: Any, why: str) -> None:
    write(ledger, Insert(run()))
    for change in (
        Insert(run("r2", output=[value])),
        Update(Run, "r1", {"output": [value]}),
        Advance("r1", NOW, {"output": [value]}),
    ):
        with pytest.raises(SerdeError, match=rf"workflow_runs\.output cannot be stored or read: .*{why}"):
            write(ledger, change)
    with pytest.raises(SerdeError, match=f"an event of run 'r1' cannot be stored or read: .*{why}"):
        write(ledger, Advance("r1", NOW, {}, [NewEvent("A", {"x": value})]))
    with pytest.raises(SerdeError, match=f"webhook_deliveries.body cannot be stored or read: .*{why}"):
        write(ledger, Announce("w1", "a", {"x": value}, NOW))
    assert ledger.find(Run) == [run()]


def test_what_contains_itself_is_refused(ledger: SqliteLedger) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(SerdeError, match=r"workflow_runs\.input cannot be stored or read"):
        write(ledger, Insert(run(input=endless)))


def test_what_lies_deep_is_read_or_refused(ledger: SqliteLedger) -> None:
    kept = 0
    for depth in (150, 199, 200, 201, 202, 230, 250, 253, 254, 255, 256, 400, 3000):
        value: Any = "bottom"
        for _ in range(depth):
            value = {"k": value} if depth % 2 else [value]
        try:
            write(ledger, Insert(run(f"r{depth}", input=value)))
        except SerdeError:
            continue
        found = ledger.get(Run, f"r{depth}")
        assert isinstance(found, Run)
        assert found.input == value
        kept += 1
    assert kept >= 8


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"graph": "\ud800"}, "surrogates"),
        ({"version": 2**63}, "too large"),
        ({"graph": None}, r"workflow_runs\.graph .* must not be None"),
        ({"due_at": datetime(2026, 1, 1)}, "workflow_runs.due_at"),
    ],
    ids=["text", "number", "none", "time"],
)
def test_what_a_column_cannot_hold_is_refused(ledger: SqliteLedger, values: dict[str, Any], why: str) -> None:
    with pytest.raises(SerdeError, match=why):
        write(ledger, Insert(label("1")), Insert(run(**values)))
    assert ledger.count(RunLabel) == 0


def test_what_cannot_be_there_cannot_be_looked_for(ledger: SqliteLedger) -> None:
    write(ledger, Insert(run()))
    with pytest.raises(SerdeError, match="surrogates"):
        ledger.get(Run, "\ud800")
    with pytest.raises(SerdeError, match="too large"):
        ledger.count(Run, where(version=2**64))
    assert ledger.count(Run) == 1


# -- mistakes of those who ask


def test_an_unknown_column_is_named_with_those_that_there_are(ledger: SqliteLedger) -> None:
    for ask in (
        lambda: ledger.count(Run, where(statsu="pending")),
        lambda: ledger.find(Run, order=Order("statsu")),
        lambda: ledger.groups(Run, ["statsu"]),
        lambda: ledger.groups(Run, [], sums=["statsu"]),
        lambda: write(ledger, Update(Run, "r1", {"statsu": "x"})),
        lambda: write(ledger, Update(Run, "r1", {"statsu": Plus(1)})),
        lambda: ledger.count(RunLabel, [Condition("run_id", "in", Among(Run, "statsu", ()))]),
    ):
        with pytest.raises(InvalidConfig, match=r"workflow_runs has no column 'statsu'\. Did you mean 'status'\?"):
            ask()


def test_nothing_can_be_looked_for_in_json(ledger: SqliteLedger) -> None:
    for ask in (
        lambda: ledger.count(Run, where(metadata={})),
        lambda: ledger.find(Run, order=Order("metadata")),
        lambda: ledger.groups(Run, ["metadata"]),
    ):
        with pytest.raises(InvalidConfig, match=r"workflow_runs\.metadata holds JSON, which cannot be searched"):
            ask()


def test_an_unknown_operator_is_named(ledger: SqliteLedger) -> None:
    unknown: Any = "like"
    with pytest.raises(InvalidConfig, match=r"Unknown operator 'like' on workflow_runs\.graph\."):
        ledger.count(Run, [Condition("graph", unknown, "g")])


def test_names_of_columns_are_no_statements(ledger: SqliteLedger) -> None:
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
def test_a_record_that_was_changed_outside_is_damaged(ledger: SqliteLedger, column: str, value: Any) -> None:
    write(ledger, Insert(run(due_at=NOW)))
    change_file(ledger.database.path, f"UPDATE workflow_runs SET {column} = ?", value)
    for ask in (lambda: ledger.get(Run, "r1"), lambda: ledger.find(Run), lambda: ledger.claim("w", NOW, 1)):
        with pytest.raises(DamagedDatabase):
            ask()
    if column == "status":
        with pytest.raises(DamagedDatabase, match="a record of workflow_runs cannot be decoded"):
            ledger.groups(Run, ["status"])


@pytest.mark.parametrize("body", [b"[[", b"5", b"[[1]]", b"{}x", 7, b'[["A", {}]]'])
def test_a_log_that_was_changed_outside_is_damaged(ledger: SqliteLedger, body: Any) -> None:
    write(ledger, Insert(run()), Advance("r1", NOW, {}, [NewEvent("A", {})]))
    change_file(ledger.database.path, "UPDATE run_events SET body = ?", body)
    with pytest.raises(DamagedDatabase, match="run_events"):
        ledger.events("r1")


def test_webhooks_that_were_changed_outside_are_damaged(ledger: SqliteLedger) -> None:
    write(ledger, Insert(Webhook(id="h", workspace_id="w1", url="u", created_at=NOW)))
    change_file(ledger.database.path, "UPDATE webhooks SET events = ?", "[")
    with pytest.raises(DamagedDatabase, match="malformed JSON"):
        write(ledger, Announce("w1", "a", {}, NOW))


# -- numbers of runs


@pytest.mark.parametrize("gone", [Forget("r2"), Delete(Run, where(id="r2"))], ids=["forgotten", "deleted"])
def test_a_run_that_gets_the_number_of_one_that_is_gone_has_its_own_log(ledger: SqliteLedger, gone: Change) -> None:
    write(ledger, *(Insert(run(one)) for one in ("r1", "r2")))
    write(ledger, *(Advance(one, NOW, {}, [NewEvent(one, {})]) for one in ("r1", "r2")))
    write(ledger, gone, Insert(run("r3")))
    assert [ledger.events(one) for one in ("r2", "r3")] == [[], []]
    write(ledger, Advance("r3", NOW, {}, [NewEvent("A", {})]))
    found: Any = [ledger.events(one) for one in ("r1", "r3")]
    assert [[(one.seq, one.type) for one in events] for events in found] == [[(1, "r1")], [(1, "A")]]


def records_in(database: SqliteDatabase) -> Iterator[tuple[str, int]]:
    with database.read() as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            yield name, connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]


def test_a_run_that_was_forgotten_leaves_nothing(ledger: SqliteLedger) -> None:
    before = dict(records_in(ledger.database))
    own: list[Record] = [run(), label("1"), replace(full_record(StepRun, "s"), run_id="r1")]
    write(ledger, *map(Insert, own), Advance("r1", NOW, {}, [NewEvent("A", {})]))
    assert dict(records_in(ledger.database)) != before
    write(ledger, Forget("r1"))
    assert dict(records_in(ledger.database)) == before

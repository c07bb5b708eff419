"""Whatever is changed in a file is read rightly, or is DamagedDatabase: never another error, nor a large memory."""

from __future__ import annotations

import operator
import os
import random
import sqlite3
import zlib
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import StateGraph, interrupt
from statewright.cache import CacheKey
from statewright.errors import DamagedDatabase, StorageError
from statewright.runs import Run
from statewright.storage.encryption import LARGEST, Encryptor
from statewright.storage.sqlite import SqliteCache, SqliteDatabase, SqliteLedger, SqliteSaver, SqliteStore

TRIES = 6000 if os.environ.get("STATEWRIGHT_FULL") == "1" else 60
ODD_VALUES = (None, -1, 0, 1, 2**31, 2**62, 2**63 - 1, -(2**63), 1.5, 1e300, "", "x", b"", b"\xc1z", b"\xc1e", b"\x80")


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    count: int
    made_at: datetime


def fill(path: Path) -> None:
    """A thread with segments, a fork, a question and a log; items, results and records."""
    graph = StateGraph(State)
    graph.add_node(
        "work", lambda s: {"log": ["x"], "count": s["count"] + 1, "made_at": datetime(2026, 1, 1, tzinfo=UTC)}
    )
    graph.add_node("ask", lambda s: {"log": [interrupt("how?")]})
    graph.set_entry_point("work")
    graph.add_conditional_edges("work", lambda s: "work" if s["count"] < 200 else "ask", ["work", "ask"])
    with SqliteDatabase(path, compress=True) as database:
        app = graph.compile(SqliteSaver(database))
        app.invoke({"count": 0}, thread_id="a")
        app.fork(app.get_state(thread_id="a").config, branch="other")
        SqliteStore(database).put(("a",), "key", {"value": 1})
        SqliteCache(database).put(CacheKey("node", "input"), [1, 2]).result()
        SqliteLedger(database)


def read_all(path: Path) -> None:
    with SqliteDatabase(path, compress=True) as database:
        saver = SqliteSaver(database)
        for branch in saver.branches("a"):
            saver.load("a", branch=branch)
        saver.history("a", limit=150)
        saver.events("a")
        saver.threads()
        saver.lease("a")
        store = SqliteStore(database)
        store.search(("a",))
        store.list_namespaces()
        SqliteCache(database).get(CacheKey("node", "input"))
        SqliteLedger(database).find(Run)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "a.db"
    fill(path)
    read_all(path)
    return path


def tamper(connection: sqlite3.Connection, chance: random.Random) -> str:
    """Change one column of one row."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    table = chance.choice([one for one in tables if not one.startswith("sqlite_")])
    rows = connection.execute(f'SELECT * FROM "{table}"')
    names, found = [one[0] for one in rows.description], rows.fetchall()
    if not found:
        return f"{table} is empty"
    values = chance.choice(found)
    place = chance.randrange(len(names))
    value = _changed(values[place], chance)
    where = " AND ".join(f'"{name}" IS ?' for name in names)
    try:
        connection.execute(f'UPDATE "{table}" SET "{names[place]}" = ? WHERE {where}', (value, *values))
    except sqlite3.IntegrityError:
        return f"{table}.{names[place]} is guarded"
    return f"{table}.{names[place]}: {values[place]!r:.80} -> {value!r:.80}"


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bytes) and value and chance.random() < 0.7:
        changed = bytearray(value)
        for _ in range(chance.choice((1, 1, 2, 8))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed) if chance.random() < 0.8 else bytes(changed[: chance.randrange(len(changed))])
    return chance.choice(ODD_VALUES)


def test_a_changed_row_is_read_rightly_or_is_damage(whole: Path, tmp_path: Path) -> None:
    chance, path, content = random.Random(15), tmp_path / "a.db", whole.read_bytes()
    for number in range(TRIES):
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as connection:
            what = tamper(connection, chance)
            connection.commit()
        try:
            read_all(path)
        except StorageError:  # DamagedDatabase, or what the row is said to be: encrypted, of a newer format or type
            pass
        except Exception as error:
            error.add_note(f"number {number}: {what}")
            raise


@pytest.mark.parametrize("size", [LARGEST + 1, 4 * LARGEST])
def test_what_expands_to_more_than_was_ever_written_is_damage(size: int) -> None:
    compressor = zlib.compressobj(1)
    piece = bytes(1 << 20)
    bomb = b"".join(compressor.compress(piece) for _ in range(size // len(piece) + 1)) + compressor.flush()
    with pytest.raises(DamagedDatabase, match="more than"):
        Encryptor().decrypt(b"\xc1z" + bomb)


def test_compressed_bytes_that_are_cut_off_are_damage() -> None:
    stored = Encryptor(compress=True).encrypt(bytes(1000), compress=True)
    with pytest.raises(DamagedDatabase):
        Encryptor().decrypt(stored[:-5])

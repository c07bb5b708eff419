"""Files with random changes: reads succeed or raise StorageError, and need no large amounts of memory."""

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
    """Write a thread with segments, a fork, an interrupt and a log, and an item, a cached result and the ledger."""
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
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "a.db"
    fill(path)
    read_all(path)
    return path


def tamper(connection: sqlite3.Connection, random_source: random.Random) -> str:
    """Change one column of one row."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    table = random_source.choice([table for table in tables if not table.startswith("sqlite_")])
    cursor = connection.execute(f'SELECT * FROM "{table}"')
    names, rows = [column[0] for column in cursor.description], cursor.fetchall()
    if not rows:
        return f"{table} is empty"
    values = random_source.choice(rows)
    index = random_source.randrange(len(names))
    value = _changed(values[index], random_source)
    where = " AND ".join(f'"{name}" IS ?' for name in names)
    try:
        connection.execute(f'UPDATE "{table}" SET "{names[index]}" = ? WHERE {where}', (value, *values))
    except sqlite3.IntegrityError:
        return f"{table}.{names[index]} is guarded"
    return f"{table}.{names[index]}: {values[index]!r:.80} -> {value!r:.80}"


def _changed(value: Any, random_source: random.Random) -> Any:
    if isinstance(value, bytes) and value and random_source.random() < 0.7:
        changed = bytearray(value)
        for _ in range(random_source.choice((1, 1, 2, 8))):
            changed[random_source.randrange(len(changed))] = random_source.randrange(256)
        return (
            bytes(changed) if random_source.random() < 0.8 else bytes(changed[: random_source.randrange(len(changed))])
        )
    return random_source.choice(ODD_VALUES)


def test_a_tampered_row_is_read_or_raises_storage_error(original: Path, tmp_path: Path) -> None:
    random_source, path, content = random.Random(15), tmp_path / "a.db", original.read_bytes()
    for number in range(TRIES):
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as connection:
            change = tamper(connection, random_source)
            connection.commit()
        try:
            read_all(path)
        except StorageError:  # DamagedDatabase, or a changed marker: encrypted, a newer format, an unknown type
            pass
        except Exception as error:
            error.add_note(f"number {number}: {change}")
            raise


@pytest.mark.parametrize("size", [LARGEST + 1, 4 * LARGEST])
def test_a_decompression_bomb_raises_damaged_database(size: int) -> None:
    compressor = zlib.compressobj(1)
    piece = bytes(1 << 20)
    bomb = b"".join(compressor.compress(piece) for _ in range(size // len(piece) + 1)) + compressor.flush()
    with pytest.raises(DamagedDatabase, match="more than"):
        Encryptor().decrypt(b"\xc1z" + bomb)


def test_truncated_compressed_bytes_raise_damaged_database() -> None:
    stored = Encryptor(compress=True).encrypt(bytes(1000), compress=True)
    with pytest.raises(DamagedDatabase):
        Encryptor().decrypt(stored[:-5])

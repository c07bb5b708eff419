"""Fixtures of the tests of checkpoints in SQLite: commits that are written directly, and their expected contents."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from statewright import Message
from statewright.channels import MISSING, Added, Merged, apply_change
from statewright.checkpoint import (
    NO_ARG,
    BranchKey,
    Checkpoint,
    Commit,
    LeaseRequest,
    Pending,
    PrunePolicy,
    SavedCheckpoint,
    Task,
)
from statewright.checkpoint.forms import restore_log
from statewright.events import Event, Log
from statewright.ids import CheckpointId
from statewright.storage.checkpoints import commits, segments
from statewright.storage.checkpoints.commits import Writer
from statewright.storage.checkpoints.history import HistoryReader
from statewright.storage.checkpoints.removal import Pruner
from statewright.storage.checkpoints.segments import SegmentWriter
from statewright.storage.sqlite.database import SqliteDatabase

T = TypeVar("T")
LINE = BranchKey("thread")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = ("threads", "lines", "runs", "records", "segments", "grown", "jumps", "pending", "events")


class Scribe:
    """Writes commits directly to threads, and records the expected checkpoints."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database
        self.writer = Writer(database, "default")
        self.written: dict[CheckpointId, SavedCheckpoint] = {}
        self.heads: dict[BranchKey, CheckpointId] = {}
        self._numbers = itertools.count(1)

    # -- writing

    def commit(
        self,
        deltas: Mapping[str, Any] | None,
        *,
        line: BranchKey = LINE,
        after: Any = ...,
        source: Any = "loop",
        **more: Any,
    ) -> Commit:
        """Return a commit after the head of its line, or after another checkpoint, one second later than the last one.

        Its id is its number in hexadecimal digits, or `name`; its log has `logs` entries.
        """
        number = next(self._numbers)
        checkpoint_id = more.pop("name", f"{number:032x}")
        logs = more.pop("logs", 0)
        expected = self.heads.get(line)
        parent = expected if after is ... else after
        values = dict(self.written[parent].checkpoint.values) if parent is not None and deltas is not None else {}
        for name, change in (deltas or {}).items():
            values[name] = apply_change(values.get(name, MISSING), change)
        values = {name: value for name, value in values.items() if value is not MISSING}
        step, run = number, more.pop("run_id", "run")
        at = BEGIN + timedelta(seconds=number)
        return Commit(
            branch_key=line,
            expected=expected,
            parent_id=parent,
            checkpoint=Checkpoint(checkpoint_id, step, values, (Task("node", NO_ARG, checkpoint_id, 0),)),
            deltas=deltas,
            source=source,
            run_id=run,
            created_at=at,
            metadata={"nodes": ["node"]},
            log=self.log(run, logs, step=step, at=at) if logs else None,
            **more,
        )

    def log(self, run: str, count: int, *, step: int = 0, at: datetime = BEGIN) -> Log:
        return Log(run, at, tuple(("task_finished", step, "node", None, index) for index in range(count)))

    def save(self, commit: Commit, *also: Any) -> CheckpointId:
        checkpoint_id: CheckpointId = self.database.write(self.writer.commit_job(commit, also))
        self.heads[commit.branch_key] = checkpoint_id
        self.written[checkpoint_id] = SavedCheckpoint(
            branch_key=commit.branch_key,
            parent_id=commit.parent_id,
            checkpoint=commit.checkpoint,
            source=commit.source,
            run_id=commit.run_id,
            created_at=commit.created_at,
            metadata=commit.metadata,
            pending=commit.pending or Pending(),
        )
        return checkpoint_id

    def add(self, deltas: Mapping[str, Any] | None, **more: Any) -> CheckpointId:
        return self.save(self.commit(deltas, **more))

    def count(self, count: int, line: BranchKey = LINE, **more: Any) -> list[CheckpointId]:
        """Add checkpoints whose value `n` is the number of checkpoints before them."""
        return [self.add({"n": len(self.written)}, line=line, **more) for _ in range(count)]

    def note(
        self,
        checkpoint_id: str,
        pending: Pending,
        *,
        line: BranchKey = LINE,
        hold: LeaseRequest | None = None,
        log: Log | None = None,
    ) -> None:
        self.database.write(self.writer.results_job(line, CheckpointId(checkpoint_id), pending, hold, log))
        if checkpoint_id in self.written:
            saved = self.written[CheckpointId(checkpoint_id)]
            self.written[saved.id] = replace(saved, pending=saved.pending.merged(pending))

    def compact(self, line: BranchKey = LINE) -> int:
        """Compact the oldest records of a line, and return their number."""

        def job(connection: sqlite3.Connection) -> int:
            number = HistoryReader(connection, self.database).find_line("default", line)
            assert number is not None
            self.database.head_cache.forget()
            return SegmentWriter(connection, self.database).compact(number)

        return self.database.write(job)

    def compact_all(self, line: BranchKey = LINE) -> None:
        while self.compact(line):
            pass

    def prune(self, thread: int = 1, *, dry_run: bool = False, **policy: Any) -> int:
        """Prune a thread, and return the number of checkpoints that were, or would be, deleted."""

        def job(connection: sqlite3.Connection) -> int:
            self.database.head_cache.forget()
            pruner = Pruner(connection, self.database)
            return pruner.prune(thread, PrunePolicy(**policy), dry_run=dry_run)

        return self.database.write(job)

    def change(self, statement: str, *values: Any) -> None:
        """Change the file directly, without the classes under test."""
        with closing(sqlite3.connect(self.database.path)) as connection, connection:
            connection.execute(statement, values)

    def random_walk(
        self, seed: int, length: int, lines: tuple[BranchKey, ...] = (LINE, BranchKey("thread", "", "b"))
    ) -> None:
        """Write commits of every kind, with forks and jumps; the same ones for the same seed."""
        draw = Random(seed)
        for number in range(length):
            line = draw.choice(lines)
            after: Any = ...
            if self.written and (line not in self.heads or draw.random() < 0.1):
                after = draw.choice(list(self.written))
            deltas = {name: change for name, change in _changes(draw, number) if draw.random() < 0.4}
            before = self.written[after if after is not ... else self.heads[line]] if self.written else None
            old_values = before.checkpoint.values if before is not None else {}
            # A list that was replaced by another value cannot be appended to.
            deltas = {
                name: [number] if type(change) is Added and not isinstance(old_values.get(name, []), list) else change
                for name, change in deltas.items()
            }
            self.add(deltas, line=line, after=after, logs=draw.randrange(3), run_id=draw.choice(["r", "s"]))

    # -- reading

    def read(self, function: Callable[[HistoryReader], T]) -> T:
        with self.database.read() as connection:
            return function(HistoryReader(connection, self.database))

    def row_id(self, checkpoint_id: str) -> int | None:
        """Return the row id of a checkpoint in any line; None if it does not exist."""
        with self.database.read() as connection:
            lines = [number for (number,) in connection.execute("SELECT id FROM lines")]
            reader = HistoryReader(connection, self.database)
            row_ids = [reader.find_checkpoint(number, checkpoint_id) for number in lines]
        matches = [row_id for row_id in row_ids if row_id is not None]
        assert len(matches) <= 1
        return matches[0] if matches else None

    def loaded(self, checkpoint_id: str) -> SavedCheckpoint:
        row_id = self.row_id(checkpoint_id)
        assert row_id is not None
        branch = self.written[CheckpointId(checkpoint_id)].branch_key
        return self.read(lambda reader: reader.checkpoint_at(row_id, branch))

    def check(self) -> None:
        """Check that each written checkpoint is read as it was written."""
        for checkpoint_id, written in self.written.items():
            assert self.loaded(checkpoint_id) == written

    def events(self, run: str = "run", thread: int = 1, after: int = 0) -> list[tuple[int, Log]]:
        """Return the entries that were written to the log of a run, with the number of the first event of each."""
        number = self.number_of_run(run, thread)
        stored = self.read(lambda reader: reader.log(thread, number, after))
        return [(first, restore_log(plain, run)[1]) for first, plain in stored]

    def numbered_events(self, run: str = "run", thread: int = 1) -> list[Event]:
        return [event for first, log in self.events(run, thread) for event in log.events("thread", "", first)]

    def number_of_run(self, run: str, thread: int = 1) -> int:
        return self.one("SELECT id FROM runs WHERE thread = ? AND name = ?", thread, run)

    def one(self, query: str, *values: Any) -> Any:
        """Return the first value of the first row."""
        with self.database.read() as connection:
            return connection.execute(query, values).fetchone()[0]

    def rows(self) -> dict[str, list[Any]]:
        """Return all rows of the tables of threads."""
        with self.database.read() as connection:
            return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}

    def counts(self, *tables: str) -> tuple[int, ...]:
        rows = self.rows()
        return tuple(len(rows[table]) for table in tables)

    def sizes(self) -> list[tuple[int, int]]:
        """Return the first number of each segment, and the number of its checkpoints."""
        return [(first, len(ids) // 16) for _, first, ids, *_ in self.rows()["segments"]]

    def has_base(self) -> list[bool]:
        """Return for each segment whether it has a base."""
        return [row[4] is not None for row in self.rows()["segments"]]


def _changes(draw: Random, number: int) -> list[tuple[str, Any]]:
    """Return a random change of each field."""
    words: list[Any] = [Added([f"word {number}"]), Added([number, -number]), ["anew", number], MISSING, Added([])]
    message = Message(f"text {number}", id=str(draw.randrange(6)))
    return [
        ("plain", draw.choice([number, "x" * number, {"a": [number], 1: None}, (1, {number}), MISSING])),
        ("words", draw.choices(words, [8, 4, 1, 1, 1])[0]),
        ("messages", draw.choices([Merged([message]), MISSING, [message]], [9, 1, 1])[0]),
        ("late", number if number < 20 else Added([number])),
    ]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with SqliteDatabase(tmp_path / "runs.db") as database:
        yield database


@pytest.fixture
def scribe(database: SqliteDatabase) -> Scribe:
    return Scribe(database)


@pytest.fixture
def scribe_of() -> type[Scribe]:
    """Return the class, for databases that a test opens itself."""
    return Scribe


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the limits of compaction."""

    def set_limits(**limits: int) -> None:
        for name, value in limits.items():
            for module in (commits, segments):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, value)

    return set_limits

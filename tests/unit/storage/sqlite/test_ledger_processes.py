"""Several processes with one ledger: each transaction is there whole, whoever is killed and whenever."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from statewright.errors import RecordConflict
from statewright.runs import Advance, Insert, NewEvent, Plus, Run, RunLabel, Update, where
from statewright.storage.sqlite import SqliteLedger, SqliteSaver
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.testing.conformance.checkpointer.samples import commit_after
from statewright.testing.conformance.ledger.samples import label, run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PROCESSES = 3
WRITES = 40
PATIENCE = 600.0
"""Seconds after which a process hangs."""
SPAWN = multiprocessing.get_context("spawn")


def started(function: Callable[..., None], *given: Any) -> Any:
    process = SPAWN.Process(target=function, args=given, daemon=True)
    process.start()
    return process


def ended(processes: list[Any]) -> list[int | None]:
    """The exit codes of processes, each of which ends in time."""
    for one in processes:
        one.join(PATIENCE)
    return [one.exitcode for one in processes]


# -- at once


def write_on(path: Path, name: int) -> None:
    """Add to the log of one run, and win or lose the races for others."""
    with SqliteLedger(path) as ledger:
        for n in range(WRITES):
            events = [NewEvent("A", {"by": name, "n": n})] * 2
            ledger.write([Advance("shared", NOW, {"total_cost": Plus(1)}, events), Insert(label(f"{name} {n}"))])
            with suppress(RecordConflict):
                ledger.write(
                    [Insert(label(f"won {n}", str(name))), Update(Run, f"r{n}", {"graph": "won"}, where(graph="g"))]
                )


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteLedger(path) as ledger:
        ledger.write([Insert(run("shared")), *(Insert(run(f"r{n}")) for n in range(WRITES))])
        assert ended([started(write_on, path, name) for name in range(PROCESSES)]) == [0] * PROCESSES
        found: Any = ledger.get(Run, "shared")
        assert (found.total_cost, found.version) == (PROCESSES * WRITES, PROCESSES * WRITES + 1)
        events: Any = ledger.events("shared")
        assert [one.seq for one in events] == list(range(1, 2 * PROCESSES * WRITES + 1))
        for name in range(PROCESSES):
            own = [one.payload["n"] for one in events if one.payload["by"] == name]
            assert own == sorted([*range(WRITES), *range(WRITES)])
        assert ledger.count(RunLabel, where(value="v")) == PROCESSES * WRITES
        assert ledger.count(RunLabel) == PROCESSES * WRITES + WRITES
        assert ledger.count(Run, where(graph="won", version=2)) == WRITES


def claim_on(path: Path, name: int) -> None:
    with SqliteLedger(path) as ledger:
        while True:
            taken: Any = ledger.claim(f"worker {name}", NOW, 3)
            if not taken:
                return
            ledger.write([Advance(one.id, NOW, {}, [NewEvent("TAKEN", {})], where(claim=one.claim)) for one in taken])


def test_processes_that_claim_at_once_share_the_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteLedger(path) as ledger:
        ledger.write([Insert(run(f"r{n}", due_at=NOW)) for n in range(120)])
        assert ended([started(claim_on, path, name) for name in range(PROCESSES)]) == [0] * PROCESSES
        found: Any = ledger.find(Run)
        assert [(one.last_event, one.version, one.due_at) for one in found] == [(1, 3, None)] * 120
        assert None not in {one.worker_id for one in found}


# -- killed


def commit_on(path: Path, begin: int) -> None:
    """Commit supersteps, each with what belongs to it in the ledger, until somebody ends this."""
    with SqliteDatabase(path) as database:
        ledger, saver = SqliteLedger(database), SqliteSaver(database)
        head: Any = saver.load("thread")
        parent = head.id if head is not None else None
        for n in range(begin, 10**9):
            changes = [
                Insert(label(f"before {n:09}")),
                Advance("r1", NOW, {"total_cost": Plus(1)}, [NewEvent("A", {"n": n}), NewEvent("B", {"n": n})]),
                Insert(label(f"with {n:09}")),
            ]
            parent = saver.commit(commit_after(parent, n=n), also=[ledger.job(changes)])


def test_a_process_that_is_killed_leaves_whole_transactions(tmp_path: Path) -> None:
    path, drawn, written = tmp_path / "runs.db", Random(7), 0
    with SqliteLedger(path) as ledger:
        ledger.write([Insert(run("r1"))])
    for _ in range(4):
        process = started(commit_on, path, written)
        with SqliteDatabase(path) as database:
            wait_until(lambda: count_of(SqliteLedger(database)) > 2 * written + 2)  # noqa: B023
        time.sleep(drawn.random() * 0.05)
        process.kill()
        process.join(PATIENCE)
        before, written = written, check_whole(path)
        assert written > before


def check_whole(path: Path) -> int:
    """How many supersteps were committed; fails unless each is there with all that belongs to it."""
    with SqliteDatabase(path) as database:
        ledger, history = SqliteLedger(database), SqliteSaver(database).history("thread")
        numbers = [one.checkpoint.values["n"] for one in history]  # type: ignore[union-attr]
        assert numbers == list(range(len(numbers)))[::-1]
        labels: Any = ledger.find(RunLabel)
        expected = [f"{place} {n:09}" for place in ("before", "with") for n in reversed(numbers)]
        assert [one.id for one in labels] == expected
        events: Any = ledger.events("r1")
        assert [(one.seq, one.payload["n"]) for one in events] == [(n + 1, n // 2) for n in range(2 * len(numbers))]
        found: Any = ledger.get(Run, "r1")
        assert (found.total_cost, found.last_event, found.version) == (len(numbers), 2 * len(numbers), len(numbers) + 1)
        return len(numbers)


def count_of(ledger: SqliteLedger) -> int:
    found: Any = ledger.count(RunLabel)
    return found


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)

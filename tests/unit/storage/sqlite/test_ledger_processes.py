"""Processes that share a ledger, and processes that are killed: transactions are stored whole or not at all."""

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
"""Seconds after which a process counts as hanging."""
SPAWN = multiprocessing.get_context("spawn")


def start(function: Callable[..., None], *args: Any) -> Any:
    process = SPAWN.Process(target=function, args=args, daemon=True)
    process.start()
    return process


def exit_codes(processes: list[Any]) -> list[int | None]:
    """Wait for processes, and return their exit codes."""
    for process in processes:
        process.join(PATIENCE)
    return [process.exitcode for process in processes]


# -- at the same time


def write_to(path: Path, name: int) -> None:
    """Append events to one run, and compete with other processes for updates of others."""
    with SqliteLedger(path) as ledger:
        for n in range(WRITES):
            events = [NewEvent("A", {"by": name, "n": n})] * 2
            ledger.write([Advance("shared", NOW, {"total_cost": Plus(1)}, events), Insert(label(f"{name} {n}"))])
            with suppress(RecordConflict):
                ledger.write(
                    [Insert(label(f"won {n}", str(name))), Update(Run, f"r{n}", {"graph": "won"}, where(graph="g"))]
                )


def test_concurrent_writes_of_processes_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteLedger(path) as ledger:
        ledger.write([Insert(run("shared")), *(Insert(run(f"r{n}")) for n in range(WRITES))])
        assert exit_codes([start(write_to, path, name) for name in range(PROCESSES)]) == [0] * PROCESSES
        shared: Any = ledger.get(Run, "shared")
        assert (shared.total_cost, shared.version) == (PROCESSES * WRITES, PROCESSES * WRITES + 1)
        events: Any = ledger.events("shared")
        assert [event.seq for event in events] == list(range(1, 2 * PROCESSES * WRITES + 1))
        for name in range(PROCESSES):
            own = [event.payload["n"] for event in events if event.payload["by"] == name]
            assert own == sorted([*range(WRITES), *range(WRITES)])
        assert ledger.count(RunLabel, where(value="v")) == PROCESSES * WRITES
        assert ledger.count(RunLabel) == PROCESSES * WRITES + WRITES
        assert ledger.count(Run, where(graph="won", version=2)) == WRITES


def claim_from(path: Path, name: int) -> None:
    with SqliteLedger(path) as ledger:
        while True:
            claimed: Any = ledger.claim(f"worker {name}", NOW, 3)
            if not claimed:
                return
            ledger.write([Advance(run.id, NOW, {}, [NewEvent("TAKEN", {})], where(claim=run.claim)) for run in claimed])


def test_each_run_is_claimed_by_one_of_several_processes(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteLedger(path) as ledger:
        ledger.write([Insert(run(f"r{n}", due_at=NOW)) for n in range(120)])
        assert exit_codes([start(claim_from, path, name) for name in range(PROCESSES)]) == [0] * PROCESSES
        runs: Any = ledger.find(Run)
        assert [(record.last_event, record.version, record.due_at) for record in runs] == [(1, 3, None)] * 120
        assert None not in {run.worker_id for run in runs}


# -- killed


def commit_to(path: Path, begin: int) -> None:
    """Commit supersteps with their changes of the ledger until the process is killed."""
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


def test_a_killed_process_leaves_only_complete_transactions(tmp_path: Path) -> None:
    path, random, written = tmp_path / "runs.db", Random(7), 0
    with SqliteLedger(path) as ledger:
        ledger.write([Insert(run("r1"))])
    for _ in range(4):
        process = start(commit_to, path, written)
        with SqliteDatabase(path) as database:
            wait_until(lambda: count_labels(SqliteLedger(database)) > 2 * written + 2)  # noqa: B023
        time.sleep(random.random() * 0.05)
        process.kill()
        process.join(PATIENCE)
        before, written = written, check_commits(path)
        assert written > before


def check_commits(path: Path) -> int:
    """Return the number of committed supersteps; fail unless each is stored with all its changes of the ledger."""
    with SqliteDatabase(path) as database:
        ledger, history = SqliteLedger(database), SqliteSaver(database).history("thread")
        numbers = [snapshot.checkpoint.values["n"] for snapshot in history]  # type: ignore[union-attr]
        assert numbers == list(range(len(numbers)))[::-1]
        labels: Any = ledger.find(RunLabel)
        expected = [f"{prefix} {n:09}" for prefix in ("before", "with") for n in reversed(numbers)]
        assert [label.id for label in labels] == expected
        events: Any = ledger.events("r1")
        assert [(event.seq, event.payload["n"]) for event in events] == [
            (n + 1, n // 2) for n in range(2 * len(numbers))
        ]
        record: Any = ledger.get(Run, "r1")
        assert (record.total_cost, record.last_event, record.version) == (
            len(numbers),
            2 * len(numbers),
            len(numbers) + 1,
        )
        return len(numbers)


def count_labels(ledger: SqliteLedger) -> int:
    count: Any = ledger.count(RunLabel)
    return count


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)

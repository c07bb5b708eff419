"""`statewright workers` and `statewright queues`, with a database."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import Command

from statewright.cli.workers import manage
from statewright.futures import resolve
from statewright.runs import Delete, Insert, Run, RunStatus, StoredDefinition, Worker, where
from statewright.service.catalog.catalog import PROJECT
from statewright.storage.sqlite import SqliteLedger

NOW = datetime.now(UTC)


def worker(name: str, seconds: float = 86_400, **values: Any) -> Worker:
    defaults: dict[str, Any] = {"place": "here", "pid": 7, "process_started": "", "capacity": 3, "host": "pod-1"}
    return Worker(id=name, until=NOW + timedelta(seconds=seconds), started_at=NOW, **{**defaults, **values})


def run(name: str, **values: Any) -> Run:
    defaults: dict[str, Any] = {"workspace_id": "default", "graph": "g", "thread_id": name, "due_at": NOW}
    return Run(id=name, created_at=NOW, updated_at=NOW, **{**defaults, **values})


@pytest.fixture
def database(folder: Path, statewright: Command) -> Path:
    """The database of the folder, with workers and runs."""
    statewright("workspaces", "create", "sales")
    file = folder / ".statewright" / "runs.db"
    with SqliteLedger(file) as ledger:
        workers = [worker("wrk_a", queues=["gpu"]), worker("wrk_b"), worker("wrk_c", -1)]
        runs = [
            run("run_1", queue="gpu"),
            run("run_2", queue="gpu", claim="c", worker_id="wrk_a", due_at=None),
            run("run_3", status=RunStatus.FAILED, losses=10, due_at=None),
            run("run_4", status=RunStatus.FAILED, due_at=None),
        ]
        resolve(ledger.write([Insert(record) for record in [*workers, *runs]]))
    return file


def statuses(statewright: Command) -> dict[str, str]:
    return {entry["id"]: entry["status"] for entry in json.loads(statewright("workers", "ls", "--json").out)}


def test_workers_are_listed_with_their_runs(database: Path, statewright: Command) -> None:
    first, *_ = json.loads(statewright("workers", "ls", "--json").out)
    assert (first["id"], first["claimed"], first["queues"], first["host"]) == ("wrk_a", 1, ["gpu"], "pod-1")
    lines = statewright("workers", "ls").out.splitlines()
    assert lines[0].split() == ["WORKER", "HOST", "PID", "STATUS", "RUNS", "QUEUES", "GRAPHS", "STARTED"]
    assert [line.split()[:6] for line in lines[1:]] == [
        ["wrk_a", "pod-1", "7", "live", "1/3", "gpu"],
        ["wrk_b", "pod-1", "7", "live", "0/3", "all"],
        ["wrk_c", "pod-1", "7", "lost", "0/3", "all"],
    ]


def test_the_graphs_of_workers_are_named_and_old_versions_marked(database: Path, statewright: Command) -> None:
    def version(name: str, number: int) -> StoredDefinition:
        values: dict[str, Any] = {"workspace_id": PROJECT, "kind": "graph", "digest": str(number)}
        created_at = NOW + timedelta(hours=number)
        return StoredDefinition(
            id=f"def_{name}_{number}", name=name, version=str(number), created_at=created_at, **values
        )

    with SqliteLedger(database) as ledger:
        records = [
            *(version("order", number) for number in (1, 2)),
            version("mail", 1),
            worker("wrk_d", versions=["def_order_1", "def_mail_1"]),
            worker("wrk_e", versions=["def_order_2"]),
        ]
        resolve(ledger.write([Insert(record) for record in records]))
    listed = {entry["id"]: entry["graphs"] for entry in json.loads(statewright("workers", "ls", "--json").out)}
    assert listed["wrk_d"] == {"order": "def_order_1", "mail": "def_mail_1"}
    table = {line.split()[0]: line for line in statewright("workers", "ls").out.splitlines()}
    assert "  mail, order (old)  " in table["wrk_d"]
    assert ("  order  " in table["wrk_e"], "(old)" in table["wrk_e"]) == (True, False)


def test_one_worker_is_drained(database: Path, statewright: Command) -> None:
    assert statewright("workers", "drain", "wrk_b").out == "wrk_b: asked to drain.\n"
    assert statuses(statewright) == {"wrk_a": "live", "wrk_b": "draining", "wrk_c": "lost"}
    unknown = statewright("workers", "drain", "wrk_bb")
    assert (unknown.code, "Did you mean 'wrk_b'?" in unknown.err) == (2, True)


def test_all_live_workers_are_drained(database: Path, statewright: Command) -> None:
    assert statewright("workers", "drain", "--all").out == "wrk_a, wrk_b: asked to drain.\n"
    assert statuses(statewright) == {"wrk_a": "draining", "wrk_b": "draining", "wrk_c": "lost"}
    assert statewright("workers", "drain", "--all").out == "No worker is running.\n"


@pytest.mark.parametrize("words", [(), ("wrk_a", "--all")])
def test_either_a_worker_or_all_must_be_named(database: Path, statewright: Command, words: tuple[str, ...]) -> None:
    refused = statewright("workers", "drain", *words)
    assert (refused.code, "statewright workers ls" in refused.err) == (2, True)
    assert set(statuses(statewright).values()) == {"live", "lost"}


def test_queues_are_listed_with_their_runs_and_limits(database: Path, statewright: Command) -> None:
    statewright("queues", "set", "mail", "--starts-per-minute", 60)
    default, gpu, mail = json.loads(statewright("queues", "ls", "--json").out)
    assert (default["name"], default["depth"], default["dead"]) == ("default", 0, 1)
    assert (gpu["name"], gpu["depth"], gpu["claimed"], gpu["dead"]) == ("gpu", 1, 1, 0)
    assert (mail["name"], mail["depth"], mail["starts_per_minute"]) == ("mail", 0, 60)
    head, *lines = statewright("queues", "ls").out.splitlines()
    assert head.split() == ["QUEUE", "DUE", "OLDEST", "CLAIMED", "DEAD", "WORKERS", "MAX", "RUNNING", "STARTS/MIN"]
    assert [line.split()[0] for line in lines] == ["default", "gpu", "mail"]


def test_queues_of_live_workers_and_of_unfinished_runs_are_listed(database: Path, statewright: Command) -> None:
    with SqliteLedger(database) as ledger:
        records = [
            worker("wrk_d", queues=["served", "gpu"]),
            worker("wrk_e", -1, queues=["of a lost worker"]),
            worker("wrk_f", queues=["of a draining worker"], draining=True),
            run("run_5", queue="served", status=RunStatus.WAITING, due_at=None),
            run("run_6", queue="waits", status=RunStatus.WAITING, due_at=None),
            run("run_7", queue="ended", status=RunStatus.COMPLETED, due_at=None),
        ]
        resolve(ledger.write([Insert(record) for record in records]))
    listed = json.loads(statewright("queues", "ls", "--json").out)
    assert {entry["name"]: entry["workers"] for entry in listed} == {
        "default": 1,
        "gpu": 3,
        "served": 2,
        "waits": 1,
    }


def test_limits_are_set_one_by_one_and_removed_together(folder: Path, statewright: Command) -> None:
    assert statewright("queues", "set", "gpu", "--max-running", 1).out == "Queue gpu: at most 1 run at once.\n"
    both = statewright("queues", "set", "gpu", "--starts-per-minute", 30)
    assert both.out == "Queue gpu: at most 1 run at once and 30 starts per minute.\n"
    assert statewright("queues", "rm", "gpu").out == "Queue gpu has no limits any more.\n"
    assert [entry["name"] for entry in json.loads(statewright("queues", "ls", "--json").out)] == ["default"]
    again = statewright("queues", "rm", "gpu")
    assert (again.code, "Queue 'gpu' has no limits" in again.err) == (2, True)


def test_wrong_limits_and_names_are_refused(folder: Path, statewright: Command) -> None:
    without = statewright("queues", "set", "gpu")
    assert (without.code, "statewright queues rm gpu" in without.err) == (2, True)
    assert statewright("queues", "set", "gpu", "--max-running", 0).code == 2
    named = statewright("queues", "set", "a b", "--max-running", 1)
    assert (named.code, "'a b' is not valid" in named.err) == (2, True)


def test_the_database_may_have_no_workers(folder: Path, statewright: Command) -> None:
    statewright("workspaces", "create", "sales")
    assert statewright("workers", "ls").out == "No workers are running. Start one with: statewright worker\n"


def test_all_workers_are_drained_although_one_ends_meanwhile(
    database: Path, statewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_workers = manage._report_workers

    async def report_before_one_ends(ledger: Any) -> Any:
        reports = await report_workers(ledger)
        resolve(ledger.write([Delete(Worker, where(id="wrk_a"))]))
        return reports

    with monkeypatch.context() as ending:
        ending.setattr(manage, "_report_workers", report_before_one_ends)
        assert statewright("workers", "drain", "--all").out == "wrk_b: asked to drain.\n"
    assert statuses(statewright) == {"wrk_b": "draining", "wrk_c": "lost"}

"""Damaged threads: content that can be decoded but is wrong, and names that cannot be stored."""

import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypedDict

import pytest

from statewright import START, CompiledGraph, InMemorySaver, StateGraph
from statewright.checkpoint import BranchKey, Checkpoint, Commit, LeaseRequest, Pending, PrunePolicy
from statewright.errors import DamagedDatabase, InvalidConfig, SerdeError, StorageError
from statewright.ids import CheckpointId
from statewright.storage.sqlite import SqliteSaver

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOLD = LeaseRequest("a", NOW, NOW + timedelta(days=1), claims=True)


class State(TypedDict, total=False):
    n: int


@pytest.mark.parametrize(("column", "stored"), [("control", b"\x01"), ("changes", b"\x90"), ("control", b"\x90")])
def test_content_of_the_wrong_form_raises_damaged_database_with_its_thread(
    tmp_path: Path, column: str, stored: bytes
) -> None:
    path = tmp_path / "runs.db"
    with SqliteSaver(path) as saver:
        graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
        graph.compile(saver).invoke({}, thread_id="t")
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE records SET {column} = ?", (stored,))
    connection.commit()
    connection.close()
    with SqliteSaver(path) as saver, pytest.raises(DamagedDatabase, match="thread 't'"):
        saver.load("t")


WRITES: dict[str, Callable[[SqliteSaver, CompiledGraph], object]] = {
    "invoke": lambda saver, app: app.invoke({}, thread_id="t"),
    "update_state": lambda saver, app: app.update_state({"configurable": {"thread_id": "t"}}, {"n": 2}),
    "fork": lambda saver, app: app.fork({"configurable": {"thread_id": "t"}}, branch="b"),
    "prune": lambda saver, app: saver.prune(PrunePolicy(keep_last=1)),
    "copy_thread": lambda saver, app: saver.copy_thread("t", "u"),
    "delete_thread": lambda saver, app: saver.delete_thread("t"),
    "renew": lambda saver, app: saver.renew("t", HOLD),
    "want": lambda saver, app: saver.want("t", "stop"),
}
DAMAGES = {
    "threads.until": "UPDATE threads SET owner = 'a', until = 'soon'",
    "threads.until out of range": f"UPDATE threads SET owner = 'a', until = {2**62}",
    "threads.epoch": "UPDATE threads SET epoch = x'80'",
    "records.control": "UPDATE records SET control = x'01'",
    "records.changes": "UPDATE records SET changes = x'90'",
    "records.id": "UPDATE records SET id = 'ab' WHERE place = (SELECT max(place) FROM records)",
    "lines.namespace": "UPDATE lines SET namespace = x'80'",
    "runs.name": "UPDATE runs SET name = CAST(name AS BLOB)",
    "jumps": "INSERT INTO jumps SELECT max(place), max(place) + 7 FROM records",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_writes_to_a_damaged_thread_succeed_or_raise_storage_error(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "runs.db"
    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
    with SqliteSaver(path) as saver:
        for _ in range(3):
            graph.compile(saver).invoke({}, thread_id="t")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(DAMAGES[damage])
    connection.close()
    refused: list[str] = []
    for name, write in WRITES.items():
        copy = shutil.copy(path, tmp_path / f"{name}.db")
        with SqliteSaver(copy) as saver:
            try:
                write(saver, graph.compile(saver))
            except StorageError:  # a write notices only the damage of rows that it reads
                refused.append(name)
    assert bool(refused) is (damage != "runs.name")  # a name of a run is only shown


def test_a_damaged_lease_is_reported_with_its_thread_by_writes(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
    with SqliteSaver(path) as saver:
        graph.compile(saver).invoke({}, thread_id="t")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE threads SET owner = 'a', until = 'soon'")
    connection.close()
    for write in (lambda saver: saver.want("t", "stop"), lambda saver: saver.renew("t", HOLD)):
        with SqliteSaver(path) as saver, pytest.raises(DamagedDatabase, match="thread 't'"):
            write(saver)


def test_exceptions_of_additional_jobs_are_raised_unchanged(tmp_path: Path) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        raise KeyError("of the caller")

    with SqliteSaver(tmp_path / "runs.db") as saver:
        commit = Commit(
            branch_key=BranchKey("t"), expected=None, parent_id=None, checkpoint=Checkpoint("0" * 32, 0, {}, ()),
            deltas=None, source="input", run_id="r", created_at=NOW, metadata={},
        )  # fmt: skip
        with pytest.raises(KeyError, match="of the caller"):
            saver.commit(commit, also=[fail])
        saver.commit(commit)
        with pytest.raises(KeyError, match="of the caller"):
            saver.save_results(BranchKey("t"), CheckpointId("0" * 32), Pending(), also=[fail])


SURROGATE = "\ud800"
"""Half of a surrogate pair, which cannot be stored."""
CALLS: dict[str, Callable[[CompiledGraph], object]] = {
    "thread_id": lambda app: app.invoke({}, thread_id=SURROGATE),
    "branch": lambda app: app.invoke({}, thread_id="t", branch=SURROGATE),
    "checkpoint_id": lambda app: app.get_state({"configurable": {"thread_id": "t", "checkpoint_id": SURROGATE}}),
    "run_id": lambda app: app.invoke({}, thread_id="t", run_id=SURROGATE),
    "new branch": lambda app: app.fork({"configurable": {"thread_id": "t"}}, branch=SURROGATE),
    "copy": lambda app: app.copy_thread("t", SURROGATE),
    "release": lambda app: app.release(SURROGATE),
}


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_names_that_are_not_unicode_are_refused_with_every_saver(tmp_path: Path, call: str, in_memory: bool) -> None:
    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
    saver = InMemorySaver() if in_memory else SqliteSaver(tmp_path / "runs.db")
    with saver:
        app = graph.compile(saver)
        app.invoke({}, thread_id="t")
        with pytest.raises(InvalidConfig, match=r"'\\ud800', which contains a lone surrogate"):
            CALLS[call](app)


def test_a_name_that_is_not_unicode_raises_serde_error(tmp_path: Path) -> None:
    with SqliteSaver(tmp_path / "runs.db") as saver:
        for ask in (saver.load, saver.lease, saver.delete_thread, lambda name: saver.threads(prefix=name)):
            with pytest.raises(SerdeError, match="not valid Unicode"):
                ask(SURROGATE)

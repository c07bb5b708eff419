"""Paged histories, pruning, vacuum, files that another process migrates, forked processes, and types of ids."""

from __future__ import annotations

import operator
import os
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, InMemorySaver, StateGraph
from statewright.checkpoint import PrunePolicy
from statewright.errors import CheckpointNotFound, DamagedDatabase, NewerFormat, SerdeError
from statewright.runtime.methods import thread_methods
from statewright.serde.serde import Serde
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    count: int


class CountingSerde(Serde):
    decoded = 0
    """The number of decoded bytes."""

    def decode(self, data: bytes) -> Any:
        self.decoded += len(data)
        return super().decode(data)


def counting_graph(steps: int) -> StateGraph:
    graph = StateGraph(State)
    graph.add_node("work", lambda s: {"log": [f"{s['count']}.{n}" for n in range(5)], "count": s["count"] + 1})
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda s: "work" if s["count"] < steps else END, ["work", END])
    return graph


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver(tmp_path / "a.db") as opened:
        yield opened


# -- history


def test_the_work_for_a_paged_history_grows_linearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_methods, "HISTORY_PAGE", 20)
    decoded: list[int] = []
    for steps in (300, 1200):
        serde = CountingSerde()
        with SqliteSaver(tmp_path / f"{steps}.db", serde=serde) as saver:
            app = counting_graph(steps).compile(saver)
            app.invoke({"count": 0}, thread_id="a", recursion_limit=2000)
            serde.decoded = 0
            assert sum(1 for _ in app.get_state_history(thread_id="a")) == steps + 1
            decoded.append(serde.decoded)
    # Four times as many states; reading each page from the beginning would take sixteen times the work.
    assert decoded[1] < 6 * decoded[0]


def test_a_paged_history_equals_an_unpaged_one(saver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    app = counting_graph(150).compile(saver)
    app.invoke({"count": 0}, thread_id="a")
    middle = list(app.get_state_history(thread_id="a"))[70]
    app.update_state(middle.config, {"log": ["by hand"]}, as_node="work", branch="other")
    app.fork(middle.config, branch="third")
    app.invoke(None, thread_id="a", branch="third")
    for branch in ("main", "third"):
        whole = list(app.get_state_history(thread_id="a", branch=branch))
        for page in (1, 7, 64):
            monkeypatch.setattr(thread_methods, "HISTORY_PAGE", page)
            paged: list[Any] = []
            for snapshot in app.get_state_history(thread_id="a", branch=branch):
                paged.append(
                    (
                        snapshot.config,
                        {**snapshot.values, "log": [*snapshot.values["log"]]},
                        snapshot.next,
                        snapshot.metadata,
                    )
                )
            assert paged == [(snapshot.config, snapshot.values, snapshot.next, snapshot.metadata) for snapshot in whole]
        monkeypatch.undo()


def test_a_history_begins_at_the_given_checkpoint(saver: Any) -> None:
    app = counting_graph(5).compile(saver)
    app.invoke({"count": 0}, thread_id="a")
    whole = list(app.get_state_history(thread_id="a"))
    assert list(app.get_state_history(whole[2].config)) == whole[2:]
    assert list(app.get_state_history(whole[2].config, limit=2)) == whole[2:4]
    assert list(app.get_state_history(thread_id="a", before=whole[2].config)) == whole[3:]
    with pytest.raises(CheckpointNotFound):
        list(app.get_state_history(thread_id="a", checkpoint_id="0" * 32))


# -- pruning, vacuum


def test_other_connections_can_write_during_pruning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteSaver(tmp_path / "a.db") as saver, SqliteSaver(tmp_path / "a.db") as other:
        app, others = counting_graph(5).compile(saver), counting_graph(1).compile(other)
        for number in range(4):
            app.invoke({"count": 0}, thread_id=f"{number}")
        written: list[str] = []
        write = saver.database.write

        def write_after_another(job: Any) -> Any:
            # Does not wait for a transaction of the pruning.
            others.invoke({"count": 0}, thread_id=f"other {len(written)}")
            written.append("pruned")
            return write(job)

        monkeypatch.setattr(saver.database, "write", write_after_another)
        planned = saver.prune(PrunePolicy(keep_last=1), dry_run=True)
        assert not written
        assert saver.prune(PrunePolicy(keep_last=1)) == planned
        assert len(written) == 4
        # At most the threads that were written during the pruning.
        assert saver.prune(PrunePolicy(keep_last=1), dry_run=True).threads <= 4


def test_vacuum_frees_the_space_of_deleted_threads(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SqliteSaver(path) as saver:
        app = counting_graph(100).compile(saver)
        for number in range(5):
            app.invoke({"count": 0}, thread_id=f"{number}")
        for number in range(4):
            saver.delete_thread(f"{number}")
        assert saver.database.vacuum() > 0  # although most pages were only in the write-ahead log
        before = path.stat().st_size
        assert saver.database.vacuum() == 0
        assert path.stat().st_size <= before
        assert app.get_state(thread_id="4").values["count"] == 100
        app.invoke({"count": 0}, thread_id="4")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)


def test_a_thread_whose_lease_is_damaged_can_be_copied_and_deleted(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SqliteSaver(path) as saver:
        app = counting_graph(3).compile(saver)
        app.invoke({"count": 0}, thread_id="t")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE threads SET until = 'x'")
        connection.commit()
    with SqliteSaver(path) as saver:
        app = counting_graph(3).compile(saver)
        assert app.get_state(thread_id="t").values["count"] == 3  # without an owner the end of the lease is ignored
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE threads SET owner = 'o'")
            connection.commit()
        with pytest.raises(DamagedDatabase):
            app.get_state(thread_id="t")
        app.copy_thread("t", "u")
        app.delete_thread("t")
        assert app.get_state(thread_id="t").values == {}
        assert app.get_state(thread_id="u").values["count"] == 3


# -- other processes


def test_an_open_file_that_a_newer_version_migrates_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SqliteSaver(path) as saver:
        app = counting_graph(1).compile(saver)
        app.invoke({"count": 0}, thread_id="a")
        with closing(sqlite3.connect(path)) as newer:
            newer.execute("PRAGMA user_version = 99")
            content = list(newer.iterdump())
            with pytest.raises(NewerFormat):
                app.invoke({"count": 0}, thread_id="b")
            with pytest.raises(NewerFormat):
                app.get_state(thread_id="a")
            with pytest.raises(NewerFormat):
                saver.database.vacuum()
            assert list(newer.iterdump()) == content


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes are forked")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # Python 3.12 and later
def test_a_forked_process_can_read_and_write_while_its_parent_commits(tmp_path: Path) -> None:
    codes: list[int] = []

    def in_child() -> int:
        signal.alarm(60)  # a guard against a hang
        assert app.get_state(thread_id="a") is not None
        assert app.invoke({"count": 9}, thread_id=f"child {len(codes)}")["count"] == 10
        parts.clear()  # the child's copy of the parent's stream; the parent keeps its lease
        gc.collect()
        return 0

    def work(state: State) -> State:
        if "child" not in (get_config()["configurable"]["thread_id"] or "") and state["count"] % 3 == 2:
            child = os.fork()
            if child == 0:
                code = 3
                try:
                    code = in_child()
                finally:
                    os._exit(code)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return {"count": state["count"] + 1}

    import gc
    import signal

    from statewright import get_config

    graph = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda s: "work" if s["count"] < 10 else END, ["work", END])
    with SqliteSaver(tmp_path / "a.db") as saver:
        app = graph.compile(saver)
        parts = [app.stream({"count": 3}, thread_id="held", durability="sync")]
        next(parts[0])
        app.invoke({"count": 0}, thread_id="a")
        assert codes == [0] * len(codes)
        assert codes
        lease = saver.lease("held")
        assert lease is not None


# -- types of thread ids and of values


def test_a_uuid_can_be_a_thread_id(saver: Any) -> None:
    name, copy = uuid.uuid4(), uuid.uuid4()
    app = counting_graph(2).compile(saver)
    app.invoke({"count": 0}, thread_id=name)
    app.update_state({"configurable": {"thread_id": name}}, {"log": ["more"]}, as_node="work")
    assert app.get_state(thread_id=str(name)) == app.get_state({"configurable": {"thread_id": name}})
    app.copy_thread(name, copy)
    assert {entry.thread_id for entry in app.threads()} == {str(name), str(copy)}
    app.prune(PrunePolicy(keep_last=1), thread_id=copy)
    app.delete_thread(copy)
    assert [entry.thread_id for entry in app.threads()] == [str(name)]


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents


class Purse(TypedDict, total=False):
    coins: dict[str, list[Money]]


def test_compiling_a_graph_refuses_state_types_that_cannot_be_stored(tmp_path: Path) -> None:
    graph = StateGraph(Purse)
    graph.add_node("earn", lambda state: {"coins": {"left": [Money(5)]}})
    graph.set_entry_point("earn")
    assert graph.compile(InMemorySaver()).invoke({}, thread_id="a")
    with SqliteDatabase(tmp_path / "a.db") as database:
        saver = SqliteSaver(database)
        with pytest.raises(SerdeError, match=r"Money.*encode= and decode="):
            graph.compile(saver)
        saver.serde.register(Money, encode=lambda money: money.cents, decode=Money)
        app = graph.compile(saver)
        app.invoke({}, thread_id="a")
        assert app.get_state(thread_id="a").values["coins"]["left"][0].cents == 5

"""Stored data of a thread (spec/graph.md, 7.4)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from statewright import END, START, Instrument, MessagesState, StateGraph
from statewright.checkpoint import PrunePolicy
from statewright.storage.sqlite import SqliteSaver

COUNT, CONTENT = 400, "w" * 200


class Sizes(Instrument):
    """The size of each commit in bytes."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_commit(self, event: Any) -> None:
        self.sizes.append(event.data.size)


def test_7_4_only_changes_are_stored_and_chains_survive_forks_copies_and_pruning(driver: Any, tmp_path: Path) -> None:
    sizes, path = Sizes(), tmp_path / "runs.db"
    graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [("assistant", CONTENT)]})
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", lambda state: "say" if len(state["messages"]) < COUNT else END, ["say", END])
    with SqliteSaver(path) as saver:
        app = graph.compile(saver, instruments=[sizes])
        whole = driver.invoke(app, {"messages": []}, thread_id="t")
        assert max(sizes.sizes[1:]) < 2 * len(CONTENT)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # Saving the whole state each time would take 200 times as much.
        assert path.stat().st_size < 2.5 * COUNT * len(CONTENT)

        middle = list(app.get_state_history(thread_id="t"))[COUNT // 2]
        app.fork(middle.config, branch="other")
        app.copy_thread("t", "copy")
        app.prune(PrunePolicy(keep_last=3), thread_id="t")
        for thread in ("t", "copy"):
            assert app.get_state(thread_id=thread).values == whole
            assert app.get_state(thread_id=thread, branch="other").values == middle.values
        app.delete_thread("t")
        assert app.get_state(thread_id="copy").values == whole

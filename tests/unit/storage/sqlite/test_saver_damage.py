"""Stored content that can be decoded, but is not what belongs there."""

import sqlite3
from pathlib import Path
from typing import TypedDict

import pytest

from statewright import START, StateGraph
from statewright.errors import DamagedDatabase
from statewright.storage.sqlite import SqliteSaver


class State(TypedDict, total=False):
    n: int


@pytest.mark.parametrize(("column", "stored"), [("control", b"\x01"), ("changes", b"\x90"), ("control", b"\x90")])
def test_content_of_another_form_is_told_as_damage_of_its_thread(tmp_path: Path, column: str, stored: bytes) -> None:
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

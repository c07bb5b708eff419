"""A run with nodes in other processes, as a program that a test kills: `python -m ... FOLDER process|ray`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests import remote_functions as nodes
from tests.remote_functions import Numbers

from statewright import START, Send, StateGraph
from statewright.executors import ProcessExecutor
from statewright.storage.sqlite import SqliteSaver

COUNT = 40


def build(folder: Path, executor: Any) -> Any:
    """Return a graph that marks each item in a folder, and blocks at item 0 until there is a file `go`."""
    graph = StateGraph(Numbers).add_node("begin", lambda state: None).add_node("work", nodes.block, executor="pool")
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", lambda state: [Send("work", item) for item in state["items"]], ["work"])
    saver = SqliteSaver(folder / "threads.db")
    return graph.compile(saver, executors={"pool": executor}, lease=5)


def items(folder: Path) -> list[tuple[str, int]]:
    return [(str(folder), number) for number in range(COUNT)]


def main(folder: Path, kind: str) -> None:
    if kind == "process":
        executor: Any = ProcessExecutor(2)
    else:
        from tests.ray_cluster import shared_executor

        executor = shared_executor()
    build(folder, executor).invoke({"items": items(folder)}, thread_id="t")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

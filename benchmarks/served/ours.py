"""`python -m benchmarks.served.ours FILE PORT`: our server on a SQLite file, every superstep saved before the next."""

import sys
from typing import Any, TypedDict

from benchmarks.engines import statewright
from benchmarks.served.graph import three_steps


class State(TypedDict, total=False):
    n: int


def listen(state: State) -> dict[str, Any]:
    from statewright import wait_for_event

    return {"n": wait_for_event("go")["n"]}


def do_nothing(state: State) -> dict[str, Any]:
    return {}


def listening() -> Any:
    """Return a graph that waits for a signal."""
    from statewright import END, START, StateGraph

    graph = StateGraph(State)
    graph.add_node("listen", listen)
    graph.add_edge(START, "listen")
    graph.add_edge("listen", END)
    return graph


def long() -> Any:
    """Return a graph of a hundred steps: two events each."""
    from statewright import END, START, StateGraph

    graph = StateGraph(State)
    names = [f"step{index}" for index in range(100)]
    for name in names:
        graph.add_node(name, do_nothing)
    for before, after in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(before, after)
    return graph


def main(path: str, port: int) -> None:
    from statewright.server import ServerSettings, create_app, serve
    from statewright.service import Catalog, Service
    from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

    catalog = Catalog()
    catalog.serve("three", three_steps(statewright()))
    catalog.serve("listening", listening())
    catalog.serve("long", long())
    database = SqliteDatabase(path)
    service = Service(catalog, ledger=SqliteLedger(database), saver=SqliteSaver(database))
    serve(create_app(service, settings=ServerSettings(port=port, auth="none")))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

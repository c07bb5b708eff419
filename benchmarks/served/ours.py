"""`python -m benchmarks.served.ours FILE PORT`: our server on a SQLite file, every superstep saved before the next."""

import sys
from typing import Any, TypedDict

from benchmarks.engines import statewright
from benchmarks.served.graph import three_steps


class Heard(TypedDict, total=False):
    n: int


def listens(state: Heard) -> dict[str, Any]:
    from statewright import wait_for_event

    return {"n": wait_for_event("go")["n"]}


def talks(state: Heard) -> dict[str, Any]:
    return {}


def listening() -> Any:
    """A graph that waits for a signal."""
    from statewright import END, START, StateGraph

    graph = StateGraph(Heard)
    graph.add_node("listens", listens)
    graph.add_edge(START, "listens")
    graph.add_edge("listens", END)
    return graph


def long() -> Any:
    """A graph of a hundred steps: two events each."""
    from statewright import END, START, StateGraph

    graph = StateGraph(Heard)
    names = [f"step{place}" for place in range(100)]
    for name in names:
        graph.add_node(name, talks)
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

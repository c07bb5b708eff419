"""Memory across threads: as a parameter, from the runtime, from anywhere."""

from __future__ import annotations

from typing import Any, TypedDict

from statewright import START, InMemoryStore, Runtime, StateGraph, get_store
from statewright.store import Store


class State(TypedDict):
    visits: int


def count(state: State, store: Store) -> dict[str, Any]:
    item = store.get(("visits",), "ada")
    visits = int(item.value["count"]) + 1 if item is not None else 1
    store.put(("visits",), "ada", {"count": visits})
    return {"visits": visits}


async def look(state: State, runtime: Runtime) -> dict[str, Any]:
    assert runtime.store is not None
    return {"visits": len(runtime.store.search(("visits",), filter={"count": 1}))}


def also(state: State) -> dict[str, Any]:
    store = get_store()
    return {"visits": len(store.list_namespaces()) if store is not None else 0}


def main() -> None:
    store = InMemoryStore()
    app = StateGraph(State).add_node(count).add_edge(START, "count").compile(store=store)
    assert app.invoke({})["visits"] == 1
    assert app.invoke({})["visits"] == 2
    item = store.get(("visits",), "ada")
    assert item is not None
    assert item.value["count"] == 2
    assert StateGraph(State).add_node(also).add_edge(START, "also").compile(store=store).invoke({})["visits"] == 1

"""Databases with content of every kind, and what the public API reads of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.postgres_server import new_schema_url

from statewright import START, StateGraph, append, interrupt
from statewright.futures import resolve
from statewright.runs import RECORDS, Advance, Insert, NewEvent, Run
from statewright.storage.checkpoints import commits, segments
from statewright.storage.database import Database
from statewright.storage.open import ledger_of, open_database, store_of
from statewright.storage.postgres import PostgresSaver, compaction
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver
from statewright.store import Index
from statewright.testing.conformance.ledger.samples import (
    NOW,
    distinct_values,
    full_record,
    minimal_record,
    write,
)

Open = Callable[..., Any]
PAIRS = [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite"), ("postgres", "postgres")]
LONG = {"text": "x" * 5000}


class State(TypedDict, total=False):
    n: int
    words: Annotated[list[str], append]
    answer: str


def count(state: State) -> State:
    return {"n": state.get("n", 0) + 1, "words": [f"word {state.get('n', 0)}"]}


def ask(state: State) -> State:
    return {"answer": interrupt("how many?")}


def app_on(saver: Any, steps: int = 8) -> Any:
    """A graph that counts, and asks at the end."""
    graph = StateGraph(State).add_node("count", count).add_node("ask", ask).add_edge(START, "count")
    graph.add_conditional_edges("count", lambda state: "count" if state["n"] % steps else "ask", ["count", "ask"])
    return graph.compile(saver)


def saver_of(database: Database, workspace: str = "default") -> Any:
    kind = SqliteSaver if isinstance(database, SqliteDatabase) else PostgresSaver
    return kind(database, workspace=workspace)  # pyright: ignore[reportArgumentType]


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compact old checkpoints soon."""
    monkeypatch.setattr(segments, "LONGEST", 3)
    for module in (segments, commits, compaction):
        monkeypatch.setattr(module, "RECENT", 5)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens a new database of a kind."""
    with ExitStack() as stack:
        numbers = iter(range(100))

        def open_new(kind: str, **options: Any) -> Database:
            number = next(numbers)
            location = tmp_path / f"{number}.db" if kind == "sqlite" else new_schema_url(f"copy_{number}")
            return stack.enter_context(open_database(location, **options))

        yield open_new


def embed(texts: Any) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


INDEX = Index(embed=embed, dims=2, fields=("text",))


def fill(database: Database) -> None:
    """Store threads with branches, questions and old checkpoints, records of every class, and items."""
    for workspace in ("default", "acme"):
        app = app_on(saver_of(database, workspace))
        for thread in ("a", "b"):
            app.invoke({"n": 0}, {"thread_id": thread})
        app.fork({"thread_id": "a"}, branch="other")
        app.update_state({"thread_id": "a", "branch": "other"}, {"answer": "mine"})
        saver_of(database, workspace).copy_thread("b", "c")
        saver_of(database, workspace).delete_thread("b")
    ledger = ledger_of(database)
    for kind in RECORDS:
        other = minimal_record(kind, "minimal")
        write(ledger, Insert(full_record(kind, "full")), Insert(replace(other, **distinct_values(kind), id="minimal")))
    write(ledger, Insert(replace(full_record(Run, "long"), idempotency_key="long", input=LONG)))
    for _ in range(3):
        events = (NewEvent("X", {"n": 1}), NewEvent("Y", {}, "s"))
        write(ledger, Advance("long", NOW, events=events))
    store = store_of(database, index=INDEX)
    store.put(("users", "1"), "k", {"text": "hello", "n": 1})
    store.put(("users", "2"), "k", {"text": "hello again"}, ttl=3600)
    store.put(("users", "1"), "k", {"text": "changed"})
    database.write(lambda connection: None)  # jobs keep their order: now old checkpoints have been compacted


def contents_of(database: Database) -> dict[str, Any]:
    """Return everything that the public API reads of a database."""
    contents: dict[str, Any] = {}
    saver = saver_of(database)
    for workspace in resolve(saver.workspaces()):
        view = saver.for_workspace(workspace)
        for entry in resolve(view.threads()):
            thread = entry.thread_id
            name = f"{workspace} {thread}"
            contents[f"thread {name}"] = entry.changed_at
            contents[f"events {name}"] = list(resolve(view.events(thread)))
            for namespace in resolve(view.namespaces(thread)):
                contents[f"history {name} {namespace}"] = list(resolve(view.history(thread, namespace=namespace)))
                for branch in resolve(view.branches(thread, namespace=namespace)):
                    head = resolve(view.load(thread, namespace=namespace, branch=branch))
                    contents[f"head {name} {namespace} {branch}"] = replace(head, lease=None)
    ledger = ledger_of(database)
    for kind in RECORDS:
        contents[kind.TABLE] = list(resolve(ledger.find(kind)))
    for run in contents[Run.TABLE]:
        contents[f"events of {run.id}"] = list(resolve(ledger.events(run.id)))
    store = store_of(database, index=INDEX)
    contents["items"] = list(store.search((), limit=100, refresh_ttl=False))
    contents["similar"] = [
        (item.key, item.namespace, item.score) for item in store.search((), query="hello", limit=100, refresh_ttl=False)
    ]
    return contents


def rows_of(database: Database, table: str, columns: str) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall())


HOUR = timedelta(hours=1)

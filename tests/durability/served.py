"""The server that `siege.py` kills. It serves some graphs and a definition until it is terminated."""

from __future__ import annotations

import operator
import random
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, TypedDict

from tests.durability.effects_log import EffectsLog

from statewright import END, START, Runtime, StateGraph, interrupt, sleep, wait_for_event
from statewright.futures import AnyFuture, is_future
from statewright.runs import Change, Insert, Update, Worker
from statewright.server import ServerSettings, create_app, serve
from statewright.service import Catalog, Service, ServiceSettings
from statewright.service.webhooks import WebhookSettings
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver
from statewright.workflow.steps import StepContext, StepResult, task_handler

LEASE: Final = 4.0
"""Seconds after which another server takes over from a stopped one."""


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[Any], operator.add]


def chain(name: str, *nodes: Any) -> StateGraph:
    graph = StateGraph(State, name=name)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    graph.add_edge(before, END)
    return graph


def one(state: State) -> State:
    return {"log": ["one"]}


async def two(state: State) -> State:
    return {"log": ["two"]}


def three(state: State) -> State:
    return {"log": ["three"]}


def naps(state: State) -> State:
    sleep(timedelta(milliseconds=20 + 10 * (state.get("n", 0) % 20)))
    return {"log": ["slept"]}


def listens(state: State) -> State:
    return {"log": [wait_for_event("go")["n"]]}


def starts(state: State, runtime: Runtime[Any]) -> State:
    output = runtime.start_run("steps", {"n": state.get("n", 0)})
    return {"log": output["log"]}


async def fans(state: State) -> dict[str, Any]:
    return {}


def asks(state: State) -> State:
    return {"log": [interrupt("Which?")]}


def make_pays(log: EffectsLog) -> Any:
    """Return a node with two effects, each of which takes a while."""

    def pays(state: State, runtime: Runtime[Any]) -> State:
        run = runtime.execution_info.run_id

        def dawdle() -> None:
            time.sleep(random.random() * 0.03)

        return {"log": [log.perform(runtime, f"{run} {name}", dawdle) for name in ("pay", "ship")]}

    return pays


def make_graphs(effects: EffectsLog) -> list[StateGraph]:
    """Return all graphs except the one that is defined in JSON."""
    wide = StateGraph(State, name="wide")
    wide.add_node("fans", fans)
    wide.add_edge(START, "fans")
    for name, node in (("one", one), ("two", two), ("three", three)):
        wide.add_node(name, node)
        wide.add_edge("fans", name)
        wide.add_edge(name, END)
    return [
        chain("steps", one, two, three),
        chain("timer", one, naps, three),
        chain("signal", one, listens, three),
        chain("parent", one, starts),
        chain("asks", one, asks, three),
        chain("pays", one, make_pays(effects), three),
        wide,
    ]


@task_handler("siege-count")
def count(context: StepContext) -> StepResult:
    log = context.workflow_state.get("log", [])
    return StepResult(state_updates={"log": [*log, context.step_name]})


DEFINITION = {
    "name": "json",
    "version": "1",
    "steps": [
        {"type": "task", "name": "one", "handler": "siege-count"},
        {"type": "wait", "name": "rest", "durationMs": 40},
        {"type": "external_event", "name": "ear", "signalType": "go"},
        {"type": "task", "name": "three", "handler": "siege-count"},
    ],
}
EXPECTED: dict[str, list[Any]] = {
    "steps": ["one", "two", "three"],
    "timer": ["one", "slept", "three"],
    "parent": ["one", "one", "two", "three"],
    "wide": ["one", "two", "three"],
    "json": ["one", "three"],
}
"""The logs of completed runs by graph. Those of other graphs depend on the input."""


def watch_lease(ledger: Any, effects: EffectsLog) -> None:
    """Write `late` to the log of effects whenever this server has renewed its lease too late.

    Then other servers may have taken over its runs, as if it had been stopped. That is no fault: on a busy machine a
    process may get no processor, or no lock of the database, for the seconds of a lease.
    """
    write = ledger.write
    renewed_at: float | None = None

    def watched(changes: Sequence[Change]) -> Any:
        begun_at = time.monotonic()
        result = write(changes)
        if any(_renews_lease(change) for change in changes):
            if is_future(result):
                result.add_done_callback(lambda future: check(begun_at, future))
            else:
                check(begun_at)
        return result

    def check(begun_at: float, future: AnyFuture[None] | None = None) -> None:
        nonlocal renewed_at
        if renewed_at is not None and time.monotonic() - renewed_at > 0.9 * LEASE:  # it began a moment earlier
            effects.write("late")
        with suppress(Exception):
            if future is not None:
                future.result()
            renewed_at = begun_at

    ledger.write = watched


def _renews_lease(change: Change) -> bool:
    if isinstance(change, Update):
        return change.kind is Worker and "until" in change.values
    return isinstance(change, Insert) and isinstance(change.record, Worker)


def open_storage(location: str) -> dict[str, Any]:
    """Open a database, and return the arguments of a service."""
    if location.startswith("postgresql:"):
        from statewright.storage.postgres import PostgresDatabase, PostgresLedger, PostgresSaver

        server = PostgresDatabase(location)
        return {"ledger": PostgresLedger(server), "saver": PostgresSaver(server), "bell": server.bell}
    database = SqliteDatabase(Path(location))
    return {"ledger": SqliteLedger(database), "saver": SqliteSaver(database)}


def main(location: str, port: int, effects_path: str) -> None:
    catalog = Catalog()
    effects = EffectsLog(Path(effects_path))
    for graph in make_graphs(effects):
        catalog.serve(graph.name or "", graph)
    catalog.serve_steps(DEFINITION)
    storage = open_storage(location)
    watch_lease(storage["ledger"], effects)
    service = Service(
        catalog,
        **storage,
        settings=ServiceSettings(capacity=20, poll_interval=0.2, lease=LEASE),
        webhooks=WebhookSettings(allow_hosts=("127.0.0.1",), allow_http=True, retry_after=(0.2,) * 500, timeout=30),
    )
    settings = ServerSettings(port=port, auth="none")
    serve(create_app(service, settings=settings))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

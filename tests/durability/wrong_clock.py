"""A worker with a wrong clock: `python -m tests.durability.wrong_clock URL SCHEMA HOURS QUEUE HOST QUEUES`.

It serves the queue QUEUE, starts a run for each of QUEUES, and removes expired items, until it is terminated.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypedDict

from statewright import END, START, StateGraph, sleep, wait_for_event
from statewright.clock import SystemClock
from statewright.service import Catalog, Service, ServiceSettings, StartRun
from statewright.service.webhooks import WebhookSettings
from statewright.storage.postgres import PostgresDatabase, PostgresLedger, PostgresSaver, PostgresStore

LEASE: Final = 9.0
SLOW: Final = 8.0
"""Seconds that a step takes: several heartbeats of all workers."""
NAP: Final = 1.0
PAUSE: Final = 1.0
"""Seconds between two attempts to deliver a message."""
QUEUES: Final = ("first", "second")


class State(TypedDict):
    log: str
    began: float
    ended: float
    answer: str


def quick(state: State) -> dict[str, float]:
    return {"ended": time.time()}


def slow(state: State) -> dict[str, Any]:
    with Path(state["log"]).open("a") as log:
        log.write("slow\n")
    time.sleep(SLOW)
    return {"ended": time.time()}


def begin(state: State) -> dict[str, float]:
    return {"began": time.time()}


def nap(state: State) -> dict[str, Any]:
    sleep(NAP)
    return {"ended": time.time()}


def hope(state: State) -> dict[str, Any]:
    return {"answer": str(wait_for_event("never", timeout=NAP)), "ended": time.time()}


def wait(state: State) -> dict[str, Any]:
    return {"answer": wait_for_event("never")}


def catalog() -> Catalog:
    catalog = Catalog()
    for name, nodes in {
        "quick": [quick],
        "slow": [slow],
        "naps": [begin, nap],
        "hopes": [begin, hope],
        "waits": [wait],
    }.items():
        graph: Any = StateGraph(State, name=name)
        for node in nodes:
            graph.add_node(node.__name__, node)
        for before, after in pairwise([START, *nodes, END]):
            graph.add_edge(getattr(before, "__name__", before), getattr(after, "__name__", after))
        catalog.serve(name, graph)
    return catalog


def open_service(url: str, schema: str, host: str, **settings: Any) -> tuple[Service, PostgresDatabase]:
    database = PostgresDatabase(url, schema=schema)
    service = Service(
        catalog(),
        ledger=PostgresLedger(database),
        saver=PostgresSaver(database),
        bell=database.bell,
        settings=ServiceSettings(lease=LEASE, poll_interval=0.1, max_losses=3, **settings),
        webhooks=WebhookSettings(allow_hosts=[host], retry_after=[PAUSE] * 5),
    )
    return service, database


async def work(url: str, schema: str, queue: str, host: str, served: Sequence[str]) -> None:
    service, database = open_service(url, schema, host, queues=[queue, "default"])
    store = PostgresStore(database)
    store.put(("items",), queue, {"from": queue}, ttl=1800)
    async with service:
        for other in served:
            await service.start("default", StartRun(graph="quick", queue=other, tags=["between"]))
        while True:
            store.sweep()
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    _, url, schema, hours, queue, host, *served = sys.argv
    error = timedelta(hours=float(hours))
    SystemClock.now = lambda self: datetime.now(UTC) + error  # type: ignore[method-assign]
    asyncio.run(work(url, schema, queue, host, served))

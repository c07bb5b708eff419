"""The service that is measured: runs of one, three and eleven nodes, which do nothing but note the time; and runs that
need time, or wait.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

FEW, SOME, MANY = 1, 3, 11
"""Supersteps of runs; the name of their graph is `steps` with the number."""
SLOW_SECONDS = 0.2
"""How long the only node of the graph `slow` takes."""


def _graph(supersteps: int, seconds: float = 0.0) -> Any:
    """Return a graph of nodes that note the time, each after some seconds."""
    from statewright import START, StateGraph

    async def note(state: dict[str, Any]) -> dict[str, Any]:
        if seconds:
            await asyncio.sleep(seconds)
        return {"at": time.time()}

    graph = StateGraph({"at": float})
    names = [f"step{number}" for number in range(supersteps)]
    for name in names:
        graph.add_node(name, note)
    for before, after in zip((START, *names), names, strict=False):
        graph.add_edge(before, after)
    return graph


def service_on(opened: Any, service_type: Any = None, *, has_bell: bool = False, **settings: Any) -> Any:
    """Return a service on an open database. Without a bell by default, because the bell is measured separately."""
    from benchmarks.served.ours import listening
    from statewright.service import Catalog, Service, ServiceSettings
    from statewright.storage.postgres import PostgresLedger, PostgresSaver

    catalog = Catalog()
    for supersteps in (FEW, SOME, MANY):
        catalog.serve(f"steps{supersteps}", _graph(supersteps))
    catalog.serve("slow", _graph(1, SLOW_SECONDS))
    catalog.serve("listening", listening())
    return (service_type or Service)(
        catalog,
        ledger=PostgresLedger(opened),
        saver=PostgresSaver(opened),
        settings=ServiceSettings(**settings),
        bell=opened.bell if has_bell else None,
    )

"""The service that is measured: runs of one and of eleven nodes, which do nothing but note the time."""

from __future__ import annotations

import time
from typing import Any

FEW, MANY = 1, 11
"""Supersteps of short and of long runs."""


def _graph(supersteps: int) -> Any:
    from statewright import START, StateGraph

    async def note(state: dict[str, Any]) -> dict[str, Any]:
        return {"at": time.time()}

    graph = StateGraph({"at": float})
    names = [f"step{number}" for number in range(supersteps)]
    for name in names:
        graph.add_node(name, note)
    for before, after in zip((START, *names), names, strict=False):
        graph.add_edge(before, after)
    return graph


def service_on(opened: Any, service_type: Any = None, *, has_bell: bool = False, **settings: Any) -> Any:
    """Return a service on an open database, with a short and a long graph. The bell is measured separately."""
    from statewright.service import Catalog, Service, ServiceSettings
    from statewright.storage.postgres import PostgresLedger, PostgresSaver

    catalog = Catalog()
    for supersteps in (FEW, MANY):
        catalog.serve(f"steps{supersteps}", _graph(supersteps))
    return (service_type or Service)(
        catalog,
        ledger=PostgresLedger(opened),
        saver=PostgresSaver(opened),
        settings=ServiceSettings(**settings),
        bell=opened.bell if has_bell else None,
    )

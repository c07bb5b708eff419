"""Retries, timeouts, limits, caches and error handlers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypedDict

from statewright import (
    START,
    Budget,
    CachePolicy,
    CircuitBreaker,
    InMemoryCache,
    NodeError,
    RateLimit,
    RetryPolicy,
    RunControl,
    Runtime,
    StateGraph,
    TimeoutPolicy,
)


class State(TypedDict):
    n: int


def work(state: State, runtime: Runtime) -> dict[str, Any]:
    runtime.heartbeat()
    runtime.spend(tokens=3, cost=0.01)
    if state["n"] < 0:
        raise ValueError("negative")
    return {"n": state["n"] + 1}


def repair(state: State, error: NodeError) -> dict[str, Any]:
    return {"n": len(str(error.error))}


def main() -> None:
    graph = StateGraph(State, name="policies", version="1")
    graph.set_node_defaults(retry_policy=RetryPolicy(max_attempts=1), timeout=timedelta(seconds=60))
    graph.set_tag_limits("service", max_concurrency=2, rate_limit=RateLimit(limit=100, per=timedelta(seconds=1)))
    graph.add_node(
        "work",
        work,
        join="idle",
        error_handler=repair,
        timeout=TimeoutPolicy(run_timeout=60),
        cache_policy=CachePolicy(ttl=60),
        circuit_breaker=CircuitBreaker(),
        tags=["service"],
        metadata={"owner": "ada"},
    )
    app = graph.add_edge(START, "work").compile(
        cache=InMemoryCache(), budget=Budget(max_tokens=100), unknown_keys="error", validate="all", debug=True
    )
    assert app.invoke({"n": 1}, control=RunControl(), sibling_grace=1)["n"] == 2
    assert app.invoke({"n": -1})["n"] == len("negative")
    app.clear_cache("work")

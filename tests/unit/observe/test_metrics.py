"""Metrics of runs, and those that a server reports."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.work import wait_until

from statewright import START, InMemorySaver, RetryPolicy, Runtime, StateGraph, append, interrupt
from statewright.observe.metrics import Metrics
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock


def samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by its labels, read from the exposition format."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name == name
    }


def chain(**nodes: Any) -> StateGraph:
    graph, before = StateGraph({"log": append}), START
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(before, name)
        before = name
    return graph


def append_entry(state: Any) -> dict[str, Any]:
    return {"log": ["entry"]}


def test_times_of_runs_supersteps_and_tasks_are_measured() -> None:
    clock = FakeClock()
    metrics = Metrics(clock=clock)

    def work(state: Any) -> None:
        clock.advance(2)

    chain(a=work, b=work).compile(instruments=[metrics], name="g").invoke({})
    assert samples(metrics, "statewright_run_seconds_sum") == {("g", "completed"): 4}
    assert samples(metrics, "statewright_superstep_seconds_count") == {(): 2}
    assert samples(metrics, "statewright_superstep_seconds_sum") == {(): 4}
    assert samples(metrics, "statewright_step_seconds_sum") == {("g", "a"): 2, ("g", "b"): 2}


@pytest.mark.parametrize("drives_async", [False, True])
def test_runs_are_counted_by_outcome_without_their_subgraphs(drives_async: bool) -> None:
    metrics = Metrics()

    def ask(state: Any) -> None:
        interrupt("go on?")

    inner = chain(ask=ask).compile(name="inner")
    app = chain(outer=inner).compile(InMemorySaver(), instruments=[metrics], name="outer")
    if drives_async:
        asyncio.run(app.ainvoke({}, thread_id="t"))
    else:
        app.invoke({}, thread_id="t")
    assert samples(metrics, "statewright_run_seconds_count") == {("outer", "waiting"): 1}
    assert samples(metrics, "statewright_step_seconds_count") == {("inner", "ask"): 1, ("outer", "outer"): 1}


def test_all_failed_attempts_are_counted() -> None:
    metrics = Metrics()

    def fail(state: Any) -> None:
        raise ValueError("no")

    policy = RetryPolicy(max_attempts=3, initial_interval=0.0, jitter=False, retry_on=ValueError)
    graph = StateGraph({"x": int}).add_node("n", fail, retry_policy=policy).add_edge(START, "n")
    with suppress(ValueError):
        graph.compile(instruments=[metrics], name="g").invoke({"x": 1})
    assert samples(metrics, "statewright_attempts_failed_total") == {("g", "n"): 3}
    assert samples(metrics, "graph_invalid_update_errors_total") == {}


def test_refused_updates_are_counted_by_graph_node_and_code() -> None:
    metrics = Metrics()
    app = chain(n=lambda state: 7).compile(instruments=[metrics], name="g")
    for _ in range(2):
        with suppress(Exception):
            app.invoke({})
    assert samples(metrics, "graph_invalid_update_errors_total") == {("SW-invalid-update-error", "g", "n"): 2}


def test_the_size_of_commits_is_measured_if_the_saver_reports_it(tmp_path: Any) -> None:
    metrics = Metrics()
    with SqliteSaver(tmp_path / "x.db") as saver:
        app = chain(a=append_entry, b=append_entry).compile(saver, instruments=[metrics], name="g")
        app.invoke({}, thread_id="t", durability="sync")
        app.invoke({}, thread_id="u", durability="async")
    assert samples(metrics, "graph_checkpoint_size_bytes_count") == {("g",): 6}
    assert samples(metrics, "graph_checkpoint_size_bytes_sum")["g",] > 6


def test_calls_of_models_and_tools_are_counted() -> None:
    metrics = Metrics()

    def call(state: Any, runtime: Runtime[Any]) -> None:
        runtime.record("model_called", {"model": "m", "input_tokens": 3, "output_tokens": 2, "cost": 0.5})
        runtime.record("model_called", {"model": "m", "input_tokens": 1})
        runtime.record("tool_called", {"tool": "add"})
        runtime.record("tool_called", {"tool": "add", "error": "no"})

    chain(n=call).compile(instruments=[metrics]).invoke({})
    assert samples(metrics, "statewright_model_tokens_total") == {("input", "m"): 4, ("output", "m"): 2}
    assert samples(metrics, "statewright_model_cost_usd_total") == {("m",): 0.5}
    assert samples(metrics, "statewright_tool_calls_total") == {("ok", "add"): 1, ("error", "add"): 1}


def test_a_server_reports_requests_queue_times_and_deliveries() -> None:
    metrics = Metrics()
    metrics.count_runs_by(lambda: {"running": 2, "failed": 1})
    metrics.record_queue_time(0.5)
    metrics.record_queue_time(-1)  # clocks of two machines differ
    metrics.record_request("GET", "/api/v1/runs/{id}", 200, 0.25)
    metrics.record_request("BREW", "/api/v1/runs/{id}", 405, 0.25)
    metrics.record_delivery("delivered")
    with metrics.track_event_stream():
        assert samples(metrics, "statewright_sse_clients") == {(): 1}
    assert samples(metrics, "statewright_sse_clients") == {(): 0}
    assert samples(metrics, "statewright_runs") == {("running",): 2, ("failed",): 1}
    assert samples(metrics, "statewright_queue_wait_seconds_sum") == {(): 0.5}
    assert samples(metrics, "statewright_http_requests_total") == {
        ("GET", "/api/v1/runs/{id}", "200"): 1,
        ("other", "/api/v1/runs/{id}", "405"): 1,
    }
    assert samples(metrics, "statewright_http_seconds_sum")["GET", "/api/v1/runs/{id}"] == 0.25
    assert samples(metrics, "statewright_webhook_deliveries_total") == {("delivered",): 1}


def test_user_defined_labels_are_limited() -> None:
    metrics = Metrics(most_label_values=3)

    def call(state: Any, runtime: Runtime[Any]) -> None:
        for number in range(10):
            runtime.record("tool_called", {"tool": f"tool {number}"})

    chain(n=call).compile(instruments=[metrics]).invoke({})
    result = samples(metrics, "statewright_tool_calls_total")
    assert len(result) == 4
    assert result["ok", "other"] == 7


def test_abandoned_runs_do_not_leak_memory() -> None:
    metrics = Metrics()
    app = chain(a=append_entry, b=append_entry).compile(instruments=[metrics])
    for _ in range(20):
        parts = app.stream({})
        next(parts)
        parts.close()
    app.invoke({})
    ends = {("Graph", "completed"): 1, ("Graph", "cancelled"): 20}
    # A finaliser on another thread may close the stream.
    wait_until(lambda: samples(metrics, "statewright_run_seconds_count") == ends)
    assert len(metrics._start_times) == 0


def test_each_instance_has_its_own_registry() -> None:
    first = Metrics()
    second = Metrics()
    first.record_delivery("x")
    assert samples(second, "statewright_webhook_deliveries_total") == {}
    assert first.registry is not second.registry
    assert first.content_type.startswith("text/plain; version=0.0.4")

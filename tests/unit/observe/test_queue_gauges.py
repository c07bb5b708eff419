"""Gauges of queues."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from statewright.observe.queue_gauges import QueueGauges


@dataclass
class Load:
    name: str
    depth: int = 0
    oldest_due_seconds: float | None = None
    claimed: int = 0
    dead: int = 0


def samples(registry: CollectorRegistry, queue: str) -> list[float | None]:
    names = ("depth", "oldest_seconds", "claimed_runs", "dead_runs")
    return [registry.get_sample_value(f"statewright_queue_{name}", {"queue": queue}) for name in names]


def test_a_queue_that_has_become_empty_is_reported_as_zero() -> None:
    registry, loads = CollectorRegistry(), [Load("gpu", 3, 7.5, 2, 1)]
    registry.register(QueueGauges(lambda: loads))
    assert samples(registry, "gpu") == [3, 7.5, 2, 1]
    loads.clear()
    assert samples(registry, "gpu") == [0, 0, 0, 0]


def test_queues_beyond_the_limit_are_added_up() -> None:
    registry = CollectorRegistry()
    loads = [Load("a", 1, 5), Load("b", 2, 9.5, 1), Load("c", 4, 3, 1, 2)]
    registry.register(QueueGauges(lambda: loads, max_queues=1))
    assert samples(registry, "a") == [1, 5, 0, 0]
    assert samples(registry, "b") == [None] * 4
    assert samples(registry, "other") == [6, 9.5, 2, 2]


def test_queues_are_not_read_before_the_metrics_are() -> None:
    calls: list[int] = []
    CollectorRegistry().register(QueueGauges(lambda: calls.append(1) or []))
    assert calls == []


def test_a_failure_does_not_affect_other_metrics(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()

    def fail() -> list[Load]:
        raise OSError("no database")

    registry.register(QueueGauges(fail))
    with caplog.at_level(logging.ERROR):
        text = generate_latest(registry).decode()
    assert "statewright_queue_depth{" not in text
    assert "The metrics of queues could not be computed." in caplog.text

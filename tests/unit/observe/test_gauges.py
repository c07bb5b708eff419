"""Gauges that are computed when the metrics are read."""

from __future__ import annotations

import logging

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from statewright.observe.metrics import CallbackGauge


def test_its_values_are_computed_when_they_are_read() -> None:
    registry, counts = CollectorRegistry(), {"running": 1.0}
    registry.register(CallbackGauge("runs", "Runs.", "status", lambda: counts))
    assert registry.get_sample_value("runs", {"status": "running"}) == 1
    counts["running"] = 5
    assert registry.get_sample_value("runs", {"status": "running"}) == 5


def test_nothing_is_computed_before_it_is_read() -> None:
    asked: list[int] = []
    CollectorRegistry().register(CallbackGauge("runs", "Runs.", "status", lambda: asked.append(1) or {}))
    assert asked == []


def test_a_failed_count_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()

    def fails() -> dict[str, float]:
        raise OSError("no database")

    registry.register(CallbackGauge("runs", "Runs.", "status", fails))
    registry.register(CallbackGauge("others", "Others.", "status", lambda: {"a": 2}))
    with caplog.at_level(logging.ERROR):
        text = generate_latest(registry).decode()
    assert 'others{status="a"} 2.0' in text
    assert "runs{" not in text
    assert "The values of metric runs could not be computed." in caplog.text

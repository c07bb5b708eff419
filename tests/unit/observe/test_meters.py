"""The names of the metrics."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from statewright.observe.metrics import Meters, import_prometheus

NAMES = {
    "graph_invalid_update_errors",
    "graph_checkpoint_size_bytes",
    "statewright_run_seconds",
    "statewright_superstep_seconds",
    "statewright_step_seconds",
    "statewright_attempts_failed",
    "statewright_queue_wait_seconds",
    "statewright_model_tokens",
    "statewright_model_cost_usd",
    "statewright_tool_calls",
    "statewright_sse_clients",
    "statewright_http_requests",
    "statewright_http_seconds",
    "statewright_webhook_deliveries",
}


def test_every_metric_has_a_name_and_a_help_text() -> None:
    registry = CollectorRegistry()
    Meters(registry)
    result = {family.name: family.documentation for family in registry.collect()}
    assert result.keys() == NAMES
    assert all(result.values())


def test_the_guide_has_a_row_for_every_metric() -> None:
    guide = (Path(__file__).parents[3] / "docs/guide/observing.md").read_text(encoding="utf-8")
    assert [name for name in sorted(NAMES) if f"| `{name}" not in guide] == []


def test_two_sets_of_meters_need_two_registries() -> None:
    registry = CollectorRegistry()
    Meters(registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Meters(registry)
    Meters(CollectorRegistry())


MISSING = """
import sys
sys.modules["prometheus_client"] = None
from statewright.errors import InvalidConfig
from statewright.observe import Metrics
try:
    Metrics()
except InvalidConfig as error:
    print(error)
"""


def test_a_missing_library_is_named() -> None:
    said = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True).stdout
    assert "the library 'prometheus_client', which is not installed. Run `pip install 'statewright[metrics]'`." in said
    assert len(said.splitlines()) == 1
    assert import_prometheus().__name__ == "prometheus_client"

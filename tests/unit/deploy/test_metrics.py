"""The metrics in alerts, in the rules of scaling and in the guide are reported by processes, with these labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import Metric
from tests.unit.deploy.deploy_files import DEPLOY, GUIDE, load, resource

from statewright import START, StateGraph
from statewright.observe import Metrics
from statewright.service.operations.queues import QueueReport

_SELECTOR = re.compile(r"\b((?:statewright|graph)_[a-z_]+)(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\bby \(([^)]*)\)")
QUEUE: dict[str, Any] = {"name": "default", "max_running": None, "starts_per_minute": None, "dead": 1}
QUEUE |= {"depth": 1, "oldest_due_seconds": 2.0, "claimed": 1, "workers": 1}


def fail(state: dict[str, object]) -> None:
    raise ValueError("no luck")


def report_everything() -> list[Metric]:
    """Return the metrics of a process in which everything has happened once that the files ask about."""
    metrics = Metrics()
    metrics.count_runs_by(lambda: {"completed": 1})
    metrics.count_workers_by(lambda: {"live": 1, "draining": 0, "lost": 0})
    metrics.report_queues(lambda: [QueueReport(**QUEUE)])
    metrics.record_request("GET", "/api/v1/workflow-runs", 500, 0.1)
    metrics.record_delivery("failed")
    graph = StateGraph({"n": int}).add_node("fail", fail).add_edge(START, "fail")
    with pytest.raises(ValueError, match="no luck"):
        graph.compile(instruments=[metrics]).invoke({"n": 1})
    return list(metrics.registry.collect())


@pytest.fixture(scope="module")
def samples() -> dict[str, list[dict[str, str]]]:
    """The labels of the samples by the names of the series."""
    labels_by_metric: dict[str, list[dict[str, str]]] = {}
    for metric in report_everything():
        for sample in metric.samples:
            labels_by_metric.setdefault(sample.name, []).append(dict(sample.labels))
    return labels_by_metric


def rules() -> list[dict[str, str]]:
    (document,) = load(DEPLOY / "prometheus/alerts.yaml")
    return [rule for group in document["groups"] for rule in group["rules"]]


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (
        trigger["metadata"]["query"] for trigger in resource("ScaledObject", "statewright-worker")["spec"]["triggers"]
    )


def matches(labels: dict[str, str], matcher: str) -> bool:
    name, operator, value = re.fullmatch(r'(\w+)(=~|=)"([^"]*)"', matcher.strip()).groups()  # type: ignore[union-attr]
    return labels.get(name) == value if operator == "=" else bool(re.fullmatch(value, labels.get(name, "")))


@pytest.mark.parametrize("expression", list(expressions()))
def test_an_expression_selects_series_that_are_reported(
    expression: str, samples: dict[str, list[dict[str, str]]]
) -> None:
    assert expression.count("(") == expression.count(")")
    groups = [label.strip() for group in _GROUPING.findall(expression) for label in group.split(",")]
    selectors = _SELECTOR.findall(expression)
    assert selectors
    for name, matchers in selectors:
        series = [
            labels
            for labels in samples[name]
            if all(matches(labels, part) for part in filter(None, matchers.split(",")))
        ]
        assert series, (name, matchers)
        assert all(group in labels for labels in series for group in groups), (name, groups)


def test_gauges_of_the_whole_database_are_not_added_up_over_processes() -> None:
    """Every process reports them, so a sum would count them once for each process."""
    for expression in expressions():
        for name in re.findall(r"\bstatewright_(?:queue_(?!wait)\w+|workers|runs)\b", expression):
            assert re.search(rf"(?:max(?: by \(\w+\))? ?|absent)\({name}\b", expression), expression


def test_every_metric_in_the_guide_is_reported(samples: dict[str, list[dict[str, str]]]) -> None:
    names = set(re.findall(r"`((?:statewright|graph)_[a-z_]+)", GUIDE.read_text(encoding="utf-8")))
    known = {metric.name for metric in report_everything()} | samples.keys()
    known |= {f"{name}_total" for name in known}
    assert len(names) > 5
    assert names - known == set()


def test_the_guide_names_the_thresholds_of_the_alerts() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    for rule in rules():
        (row,) = re.findall(rf"^\| `{rule['alert']}` \|.*$", guide, re.M)
        for number in re.findall(r"[<>] (\d+)$", rule["expr"]):
            assert re.search(rf"\b{number}\b", row), row


def test_every_alert_says_what_it_means_and_how_urgent_it_is() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 5
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"].endswith(".")
        assert re.fullmatch(r"\d+m", rule["for"])


def test_the_operator_of_prometheus_gets_the_same_alerts() -> None:
    (document,) = load(DEPLOY / "prometheus/alerts.yaml")
    assert resource("PrometheusRule", "statewright")["spec"]["groups"] == document["groups"]

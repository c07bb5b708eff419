"""The metrics of a fleet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    from statewright.cli.workers.fleet.supervisor import Supervisor


class FleetMetrics:
    """The sizes of a fleet and its losses, read from its supervisor when the metrics are read."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """Return the metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        workers = GaugeMetricFamily("statewright_fleet_workers", "Workers of the fleet, by state.", labels=["state"])
        for state, count in self._supervisor.count_by_state().items():
            workers.add_metric([state], count)
        desired = GaugeMetricFamily("statewright_fleet_desired_workers", "Workers that the fleet should have.")
        desired.add_metric([], self._supervisor.desired)
        restarts = CounterMetricFamily("statewright_fleet_restarts", "Workers that were lost, and replaced.")
        restarts.add_metric([], self._supervisor.losses)
        return workers, desired, restarts

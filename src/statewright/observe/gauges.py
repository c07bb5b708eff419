"""Gauges that are asked for when somebody looks, and not kept up to date."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

Counts = Callable[[], Mapping[str, float]]
"""Numbers by the value of one label."""


class AskedGauge:
    """A collector of one gauge with one label, whose numbers a callback gives."""

    def __init__(self, name: str, told: str, label: str, counts: Counts) -> None:
        self._name = name
        self._told = told
        self._label = label
        self._counts = counts

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Its name alone: the registry asks for it without counting anything."""
        return [self._family()]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Its numbers. If they cannot be had there are none, and all other metrics are still told."""
        family = self._family()
        try:
            for value, count in self._counts().items():
                family.add_metric([value], count)
        except Exception:
            logging.getLogger("statewright.observe").exception("The metric %s could not be counted.", self._name)
        return [family]

    def _family(self) -> GaugeMetricFamily:
        from prometheus_client.core import GaugeMetricFamily  # whoever has a registry has the library

        return GaugeMetricFamily(self._name, self._told, labels=[self._label])

"""Gauges of the queues of a service, computed when the metrics are read.

Callers choose the names of queues, so their number is limited: the queues beyond the limit are added up as `other`. A
queue that has become empty is still reported, as 0, because a series that disappears looks like a failure.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

OTHER: Final = "other"
"""The label value that replaces all values beyond a limit."""
_MAX_QUEUES: Final = 200
_GAUGES: Final = (
    ("statewright_queue_depth", "Due runs that no worker has claimed."),
    ("statewright_queue_oldest_seconds", "Time for which the oldest of them has been due."),
    ("statewright_queue_claimed_runs", "Runs that workers are advancing."),
    ("statewright_queue_dead_runs", "Runs that were set aside, because worker after worker was lost with them."),
)


class QueueLoad(Protocol):
    """A queue with the numbers of its runs."""

    @property
    def name(self) -> str: ...
    @property
    def depth(self) -> int: ...
    @property
    def oldest_due_seconds(self) -> float | None: ...
    @property
    def claimed(self) -> int: ...
    @property
    def dead(self) -> int: ...


ReadQueues = Callable[[], Iterable[QueueLoad]]


class QueueGauges:
    """The gauges of all queues, from one reading of them."""

    def __init__(self, read: ReadQueues, max_queues: int = _MAX_QUEUES) -> None:
        self._read = read
        self._max_queues = max_queues
        self._names: set[str] = set()
        """The queues that have been reported by their names."""

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics without values, because registering them must not read the queues."""
        return _families()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metrics. If the queues cannot be read, they have no values, so that others are reported."""
        families = _families()
        try:
            values = self._values()
        except Exception:
            logging.getLogger("statewright.observe").exception("The metrics of queues could not be computed.")
            return families
        for name, numbers in values.items():
            for family, number in zip(families, numbers, strict=True):
                family.add_metric([name], number)
        return families

    def _values(self) -> dict[str, tuple[float, ...]]:
        values: dict[str, tuple[float, ...]] = dict.fromkeys(sorted(self._names), (0, 0, 0, 0))
        for queue in self._read():
            if len(self._names) < self._max_queues:
                self._names.add(queue.name)
            name = queue.name if queue.name in self._names else OTHER
            depth, oldest, claimed, dead = values.get(name, (0, 0, 0, 0))
            oldest = max(oldest, queue.oldest_due_seconds or 0)
            values[name] = (depth + queue.depth, oldest, claimed + queue.claimed, dead + queue.dead)
        return values


def _families() -> list[GaugeMetricFamily]:
    from prometheus_client.core import GaugeMetricFamily  # a registry implies that the library is installed

    return [GaugeMetricFamily(name, documentation, labels=["queue"]) for name, documentation in _GAUGES]

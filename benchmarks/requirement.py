"""Targets of figures, and their text in the table.

All figures are costs: smaller is better. A comparison with a figure that could not be taken (NaN) is never met.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from benchmarks.numerals import plain


class Requirement(Protocol):
    """A target for our figure, possibly relative to another one."""

    def is_met(self, ours: float, other: float) -> bool | None:
        """Return whether the target is reached; None if there is none."""
        ...

    def compare(self, ours: float, other: float) -> str:
        """Compare the two figures in the terms of the target."""
        ...

    def demand(self) -> str:
        """Return the target, for the column 'must reach'."""
        ...


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A factor by which the figure must be cheaper than the peer's."""

    times: float

    def is_met(self, ours: float, other: float) -> bool:
        return other >= self.times * ours

    def compare(self, ours: float, other: float) -> str:
        return _format(other / ours, "{}x")

    def demand(self) -> str:
        return f"{plain(self.times)}x"


@dataclass(frozen=True, slots=True)
class Shown:
    """No target; the comparison is informative."""

    def is_met(self, ours: float, other: float) -> None:
        return None

    def compare(self, ours: float, other: float) -> str:
        return _format(other / ours, "{}x")

    def demand(self) -> str:
        return "-"


@dataclass(frozen=True, slots=True)
class AtMost:
    """An absolute limit, without a figure to compare with."""

    limit: float

    def is_met(self, ours: float, other: float) -> bool:
        return ours <= self.limit

    def compare(self, ours: float, other: float) -> str:
        return "-"

    def demand(self) -> str:
        return f"<= {plain(self.limit)}"


@dataclass(frozen=True, slots=True)
class Within:
    """A factor for a cost that must not grow: at most this many times another figure of our own."""

    times: float

    def is_met(self, ours: float, other: float) -> bool:
        return ours <= self.times * other

    def compare(self, ours: float, other: float) -> str:
        return _format(ours / other, "{} of it")

    def demand(self) -> str:
        return f"<= {plain(self.times)} of it"


@dataclass(frozen=True, slots=True)
class NoMoreThan:
    """An absolute limit for the cost above a floor that no engine can go below."""

    extra: float

    def is_met(self, ours: float, other: float) -> bool:
        return ours - other <= self.extra

    def compare(self, ours: float, other: float) -> str:
        return _format(abs(ours - other), "+{}" if ours >= other else "-{}")

    def demand(self) -> str:
        return f"<= +{plain(self.extra)}"


def _format(figure: float, template: str) -> str:
    return "-" if math.isnan(figure) else template.format(plain(figure))

"""Measurement: the engines of a figure take turns in rounds, and the best pass of each counts.

The minimum, because noise only ever adds to a cost; rounds, so that a busy moment of the machine affects all engines
alike. In every round each engine repeats its pass until its share of the time is spent. The number of passes has a
minimum, for engines whose first pass takes longer than their share.
"""

import gc
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.figure import Figure, Take
from benchmarks.requirement import Requirement


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to measure one figure of one engine."""

    seconds: float
    rounds: int
    passes: int
    """The minimum, however slow the engine is."""


THOROUGH = Pace(seconds=0.5, rounds=5, passes=2)
QUICK = Pace(seconds=0.05, rounds=1, passes=1)
_ONCE = Pace(seconds=0, rounds=1, passes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table."""

    case: str
    peer: str
    ours: float
    other: float
    requirement: Requirement

    @property
    def is_met(self) -> bool | None:
        return self.requirement.is_met(self.ours, self.other)


class Series(Protocol):
    """The passes of one engine over one figure."""

    def advance(self, seconds: float, passes: int) -> float:
        """Continue up to a total time and number of passes, and return the best cost of all rounds."""
        ...


class LocalSeries:
    """A series in this process. A pass that fails ends it; its cost is then NaN."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._spent = 0.0
        self._passes = 0
        self._best = math.inf

    def advance(self, seconds: float, passes: int) -> float:
        while self._passes < passes or self._spent < seconds:
            try:
                self._pass()
            except Exception as error:  # the other figures are still measured
                print(f"  ! {type(error).__name__}: {error}", file=sys.stderr)
                self._best = math.nan
            if math.isnan(self._best):
                break
        return self._best

    def _pass(self) -> None:
        gc.collect()  # so that garbage of one pass does not slow down the next
        started_at = time.perf_counter()
        self._best = min(self._best, self._take())
        if self._passes:  # the first pass also imports and builds
            self._spent += time.perf_counter() - started_at
        self._passes += 1


def measure(figure: Figure, series: Sequence[Series], pace: Pace) -> list[Row]:
    """Measure one figure and return its rows. The series, ours first and then those of the peers, take turns."""
    if not figure.is_repeated:
        pace = _ONCE
    costs = [math.nan] * len(series)
    for number in range(1, pace.rounds + 1):
        seconds, passes = pace.seconds * number / pace.rounds, min(number, pace.passes)
        costs = [engine.advance(seconds, passes) for engine in series]
    return _rows(figure, costs)


def _rows(figure: Figure, costs: Sequence[float]) -> list[Row]:
    case, ours = f"{figure.name}, {figure.unit}", costs[0]
    rows = [
        Row(case=case, peer=rival.name, ours=ours, other=other, requirement=rival.requirement)
        for rival, other in zip(figure.rivals, costs[1:], strict=True)
    ]
    if figure.limit:
        rows.append(Row(case=case, peer="", ours=ours, other=math.inf, requirement=figure.limit))
    return rows

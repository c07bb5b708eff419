"""A figure: our measurement, those of the peers, and the target."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.requirement import AtMost, Requirement, Shown

Take = Callable[[], float]
"""One pass over one engine; returns the cost in the figure's unit. The first call also builds the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A figure to compare with: a peer's, or our own under easier conditions."""

    name: str
    take: Take
    requirement: Requirement = Shown()  # noqa: RUF009  frozen and empty, so sharing it is safe


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the table, or one row per peer."""

    name: str
    unit: str
    ours: Take
    rivals: tuple[Rival, ...] = ()
    limit: AtMost | None = None
    """Target for our figure alone."""
    is_repeated: bool = True
    """False for counts and bytes, which are the same in every pass."""
    is_long: bool = False
    """True if a quick run leaves it out."""

    @property
    def takes(self) -> tuple[Take, ...]:
        """Return our figure first, then those of the peers in order."""
        return (self.ours, *(rival.take for rival in self.rivals))

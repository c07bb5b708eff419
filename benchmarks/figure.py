"""What is measured: a figure of ours, what stands beside it, and what it must reach."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.requirement import AtMost, Requirement, Shown

Take = Callable[[], float]
"""One pass over one engine; answers the cost in the figure's unit. Builds what it needs on its first call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A figure beside ours: a peer's, or our own under easier circumstances."""

    name: str
    take: Take
    requirement: Requirement = Shown()  # noqa: RUF009  frozen and empty, so sharing it is safe


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table, or one line per rival."""

    name: str
    unit: str
    ours: Take
    rivals: tuple[Rival, ...] = ()
    limit: AtMost | None = None
    """Demanded of our figure alone."""
    is_repeated: bool = True
    """False for counts and bytes, which agree from pass to pass."""
    is_long: bool = False
    """Left out of a quick run."""

    @property
    def takes(self) -> tuple[Take, ...]:
        """Ours first, then the rivals' in order."""
        return (self.ours, *(rival.take for rival in self.rivals))

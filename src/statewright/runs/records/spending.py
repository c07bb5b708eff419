"""What workspaces have spent on calls of models, day by day."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Self

from statewright.runs.records.record import Record


@dataclass(slots=True, kw_only=True)
class DailySpending(Record):
    """What all runs of a workspace have spent on one day. It outlives the runs, whose calls are forgotten with them."""

    TABLE: ClassVar[str] = "daily_spending"
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = (("workspace_id", "day"),)
    SUMS: ClassVar[tuple[str, ...]] = ("requests", "input_tokens", "output_tokens", "cost")
    """The columns that calls add to."""

    workspace_id: str
    day: str
    """A day in UTC: `2026-01-31`."""
    requests: int = 0
    """Calls of models."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """In US dollars."""

    @classmethod
    def of(cls, workspace_id: str, at: datetime) -> Self:
        """The record of the day of an instant, with nothing spent."""
        day = at.astimezone(UTC).date().isoformat()
        return cls(id=f"{workspace_id}/{day}", workspace_id=workspace_id, day=day)

    def plus(self, more: DailySpending) -> Self:
        """The same with what was spent besides."""
        return replace(self, **{name: getattr(self, name) + getattr(more, name) for name in self.SUMS})

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def ends_at(self) -> datetime:
        """The instant at which the next day begins."""
        return datetime.fromisoformat(self.day).replace(tzinfo=UTC) + timedelta(days=1)

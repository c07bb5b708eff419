"""Costs of model calls."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from statewright.server.models.base import Shown, Sources, shown
from statewright.server.models.runs import ModelCallShown


class Spent(Shown):
    """What some calls have cost together."""

    SOURCES: ClassVar[Sources] = {"cost_usd": "cost"}

    calls: int
    cost_usd: float
    input_tokens: int
    output_tokens: int


class ModelCost(Spent):
    """The cost of one model."""

    SOURCES: ClassVar[Sources] = {"cost_usd": "cost", "model": "name"}

    model: str


class CostShown(Shown):
    """What a run has cost: in all, by model, and call by call."""

    total: Spent
    by_model: list[ModelCost]
    calls: list[ModelCallShown]


class SpendingLimitsShown(Shown):
    """What all runs of a workspace may spend together on a day; null where nothing limits it."""

    tokens_per_day: int | None
    cost_per_day: float | None
    """In US dollars."""
    requests_per_day: int | None


class SpendingShown(Shown):
    """Today's spending of a workspace, and its limits."""

    SOURCES: ClassVar[Sources] = {
        **{
            name: f"spent.{name}"
            for name in ("workspace_id", "day", "ends_at", "requests", "input_tokens", "output_tokens", "tokens")
        },
        "cost_usd": "spent.cost",
        "limits": lambda report: None if report.limits is None else shown(SpendingLimitsShown, report.limits),
    }

    workspace_id: str
    day: str = Field(examples=["2026-01-31"])
    """In UTC."""
    ends_at: datetime
    """The start of the next day."""
    requests: int
    """Calls of models."""
    input_tokens: int
    output_tokens: int
    tokens: int
    cost_usd: float
    limits: SpendingLimitsShown | None
    reached: str | None = Field(examples=["tokens_per_day"])
    """The limit that is used up: no run starts then, and those under way go on with the next day."""


class CostSummaryShown(Shown):
    """The cost of a workspace in a period."""

    start: datetime | None
    end: datetime | None
    total: Spent
    by_model: list[ModelCost]

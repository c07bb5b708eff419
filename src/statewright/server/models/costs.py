"""What calls of models have cost."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from statewright.server.models.base import Shown, Sources
from statewright.server.models.runs import ModelCallShown


class Spent(Shown):
    """What some calls have cost together."""

    SOURCES: ClassVar[Sources] = {"cost_usd": "cost"}

    calls: int
    cost_usd: float
    input_tokens: int
    output_tokens: int


class ModelCost(Spent):
    """What one model has cost."""

    SOURCES: ClassVar[Sources] = {"cost_usd": "cost", "model": "name"}

    model: str


class CostShown(Shown):
    """What a run has cost: in all, by model, and call by call."""

    total: Spent
    by_model: list[ModelCost]
    calls: list[ModelCallShown]


class CostSummaryShown(Shown):
    """What a workspace has spent in a time."""

    start: datetime | None
    end: datetime | None
    total: Spent
    by_model: list[ModelCost]

"""Costs of runs: their model calls, the sums by model, and the spending of a day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from statewright.async_futures import aresolve
from statewright.runs import Condition, ModelCall, where
from statewright.service.access.spending import SpendingReport
from statewright.service.context.service_context import Operations

_SUMS = ("cost", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The total cost of some model calls."""

    name: str
    """The model, or `total`."""
    calls: int
    cost: float
    """In US dollars."""
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one run."""

    total: Spent
    by_model: Sequence[Spent]
    calls: Sequence[ModelCall]


@dataclass(frozen=True, slots=True)
class CostSummary:
    """The cost of a workspace in a period."""

    start: datetime | None
    end: datetime | None
    total: Spent
    by_model: Sequence[Spent]


class CostOperations(Operations):
    """Sums up the costs of model calls."""

    async def cost(self, workspace_id: str, run_id: str) -> Cost:
        """Return the cost of the model calls of a run. Raises NotFound."""
        run = await self.run(workspace_id, run_id)
        calls = await self.context.records.all_of_run(ModelCall, run)
        by_model = await self._by_model(where(run_id=run.id))
        return Cost(_total(by_model), by_model, calls)

    async def cost_summary(
        self, workspace_id: str, start: datetime | None = None, end: datetime | None = None
    ) -> CostSummary:
        """Return the cost of the model calls of a workspace from one instant until before another."""
        conditions = where(workspace_id=workspace_id)
        if start is not None:
            conditions.append(Condition("created_at", ">=", start))
        if end is not None:
            conditions.append(Condition("created_at", "<", end))
        by_model = await self._by_model(conditions)
        return CostSummary(start, end, _total(by_model), by_model)

    async def spending(self, workspace_id: str) -> SpendingReport:
        """Return the spending of a workspace today, and its limits."""
        return await self.context.spending.report(workspace_id)

    async def _by_model(self, conditions: Sequence[Condition]) -> list[Spent]:
        groups = await aresolve(self.context.ledger.groups(ModelCall, ["model"], where=conditions, sums=_SUMS))
        return [
            Spent(
                name=str(group.key[0]),
                calls=group.size,
                cost=group.sums[0],
                input_tokens=int(group.sums[1]),
                output_tokens=int(group.sums[2]),
            )
            for group in groups
        ]


def _total(parts: Sequence[Spent]) -> Spent:
    return Spent(
        name="total",
        calls=sum(part.calls for part in parts),
        cost=sum(part.cost for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
    )

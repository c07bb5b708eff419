"""Costs of a workspace."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from statewright.errors import InvalidRequest
from statewright.server.http.encode import answer
from statewright.server.http.route import Signed, StrictRoute, described
from statewright.server.models.base import Instant, all_shown, shown
from statewright.server.models.costs import CostSummaryShown, ModelCost, Spent

router = APIRouter(prefix="/api/v1/cost", route_class=StrictRoute, tags=["cost"])
Begin = Annotated[Instant | None, Query(alias="from", description="From this instant.")]
End = Annotated[Instant | None, Query(alias="to", description="Before this instant.")]


@router.get("/summary", **described("What calls of models have cost.", CostSummaryShown, scope="runs:read"))
async def read_summary(caller: Signed, begin: Begin = None, end: End = None) -> Response:
    if begin is not None and end is not None and begin >= end:
        raise InvalidRequest("'from' is not before 'to'. Give a span of time.")
    summary = await caller.service.cost_summary(caller.workspace_id, begin, end)
    by_model = all_shown(ModelCost, summary.by_model)
    return answer({"start": begin, "end": end, "total": shown(Spent, summary.total), "byModel": by_model})

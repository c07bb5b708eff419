"""Costs of a workspace."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from statewright.errors import InvalidRequest
from statewright.server.bodies.base import Instant
from statewright.server.http.route import CurrentCaller, StrictRoute, describe
from statewright.server.resources import COST_SUMMARY

router = APIRouter(prefix="/api/v1/cost", route_class=StrictRoute, tags=["cost"])
Begin = Annotated[Instant | None, Query(alias="from", description="From this instant.")]
End = Annotated[Instant | None, Query(alias="to", description="Before this instant.")]


@router.get("/summary", **describe("What calls of models have cost.", COST_SUMMARY, scope="runs:read"))
async def read_summary(caller: CurrentCaller, begin: Begin = None, end: End = None) -> Response:
    if begin is not None and end is not None and begin >= end:
        raise InvalidRequest("'from' is not before 'to'. Give a span of time.")
    return COST_SUMMARY.answer(await caller.service.cost_summary(caller.workspace_id, begin, end))

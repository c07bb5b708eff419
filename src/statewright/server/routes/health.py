"""Routes for health, liveness, readiness and metrics; only metrics may require a key."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse

from statewright.errors import StatewrightError, StorageUnavailable
from statewright.server.context.server_context import ServerContext, server_context_of
from statewright.server.http.encode import JsonResponse
from statewright.server.http.route import StrictRoute, describe
from statewright.server.resources import HEALTH, Liveness, Readiness
from statewright.service.access import METRICS

router = APIRouter(route_class=StrictRoute, tags=["health"])
_HEALTHY = {"model": HEALTH.model, "description": "All checks pass."}
_UNHEALTHY = {"model": HEALTH.model, "description": "At least one check fails."}
_LIVE = {"model": Liveness, "description": "The process works."}
_STUCK = {"model": Liveness, "description": "A step blocks the event loop of the process."}
_READY = {"model": Readiness, "description": "The server accepts requests."}
_NOT_READY = {"model": Readiness, "description": "The server is starting or stopping."}
LIVE_TIMEOUT: Final = 5.0
"""Seconds for the event loop of the service to answer."""


@router.get("/health", **describe("Check the health of the service.", raw_responses={200: _HEALTHY, 503: _UNHEALTHY}))
async def health(request: Request) -> Response:
    context = server_context_of(request)
    checks = {
        "database": await _check_database(context),
        "writes": "ok" if await context.write_probe.succeeds() else "failing",
        "queue": "ok" if context.service.is_running else "failing",
    }
    is_healthy = all(check == "ok" for check in checks.values())
    return JsonResponse({"status": "ok" if is_healthy else "failing", "checks": checks}, 200 if is_healthy else 503)


async def _check_database(context: ServerContext) -> str:
    try:
        await context.read_probe.result()
    except (StatewrightError, TimeoutError):
        return "failing"
    return "ok"


@router.get("/live", **describe("Check whether the process works.", raw_responses={200: _LIVE, 503: _STUCK}))
async def live(request: Request) -> Response:
    """For supervisors, which restart a process that is not live. So it does not depend on the database: a restart would
    not bring that back, but abort the steps of all runs."""
    is_live = await server_context_of(request).service.responds(LIVE_TIMEOUT)
    return JsonResponse({"status": "live" if is_live else "stuck"}, 200 if is_live else 503)


@router.get(
    "/ready", **describe("Check whether the server accepts requests.", raw_responses={200: _READY, 503: _NOT_READY})
)
async def ready(request: Request) -> Response:
    context = server_context_of(request)
    if context.shutdown.has_begun:
        return JsonResponse({"status": "stopping"}, 503)
    if not context.service.is_running:
        return JsonResponse({"status": "starting"}, 503)
    return JsonResponse({"status": "ready"})


_METRICS_TEXT = {
    "content": {"text/plain": {"schema": {"type": "string"}}},
    "description": "Metrics in the Prometheus text format.",
}


@router.get(
    "/metrics",
    **describe("Get metrics for Prometheus.", scope=METRICS, errors=(404,), raw_responses={200: _METRICS_TEXT}),
)
async def metrics(request: Request) -> Response:
    """Metrics name the graphs and steps of all workspaces. Unless they are public, a request needs a key with the scope
    `metrics:read`, which `admin` does not include, or the admin token."""
    try:
        content = await server_context_of(request).metrics_page.result()
    except TimeoutError as error:
        raise StorageUnavailable("The database does not answer, from which some metrics are read.") from error
    return PlainTextResponse(content, media_type="text/plain; version=0.0.4; charset=utf-8")

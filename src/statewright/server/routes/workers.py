"""Routes of workers and queues. These concern all workspaces, so keys need scopes that `admin` does not include."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from statewright.async_futures import adrive
from statewright.errors import NotFound
from statewright.server.http.body import Body
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import QUEUE, WORKER
from statewright.service.access import WORKERS_MANAGE, WORKERS_READ
from statewright.service.operations.queues import change_queue, remove_queue, report_of, report_queues
from statewright.service.operations.workers import report_workers, request_drain

workers_router = APIRouter(prefix="/api/v1/workers", route_class=StrictRoute, tags=["workers"])
queues_router = APIRouter(prefix="/api/v1/queues", route_class=StrictRoute, tags=["queues"])
Limit = Annotated[int, Field(ge=1, le=1_000_000)]


class QueueBody(Body):
    """The limits of a queue; null for no limit."""

    max_running: Limit | None = None
    """The maximum number of runs that all workers together advance concurrently."""
    starts_per_minute: Limit | None = None
    """The maximum number of runs that begin per minute; runs that continue after a wait are not counted."""


@workers_router.get("", **describe("List the workers, oldest first.", WORKER, scope=WORKERS_READ, is_list=True))
async def list_workers(caller: CurrentCaller) -> Response:
    """The list includes lost workers until another worker has released their runs."""
    return WORKER.to_list_response(await adrive(report_workers(caller.ledger, caller.now)))


@workers_router.post(
    "/{id}/drain", **describe("Ask a worker to drain.", WORKER, scope=WORKERS_MANAGE, errors=(404,), status=202)
)
async def drain_worker(caller: CurrentCaller, worker_id: PathId) -> Response:
    """With its next heartbeat, the worker stops claiming runs, and releases its own after their current steps. A
    process of `statewright worker` then exits; one of `statewright serve` keeps answering requests."""
    await request_drain(caller.ledger, worker_id)
    reports = await adrive(report_workers(caller.ledger, caller.now))
    report = next((report for report in reports if report.worker.id == worker_id), None)
    if report is None:  # it has ended since
        raise NotFound(f"Worker {worker_id!r} does not exist any more.")
    return WORKER.to_response(report, 202)


@queues_router.get("", **describe("List the queues, by name.", QUEUE, scope=WORKERS_READ, is_list=True))
async def list_queues(caller: CurrentCaller) -> Response:
    """Returns the default queue, and the queues that have limits, live workers, or runs that have not ended or were set
    aside."""
    return QUEUE.to_list_response(await adrive(report_queues(caller.ledger, caller.now)))


@queues_router.put("/{id}", **describe("Set the limits of a queue.", QUEUE, scope=WORKERS_MANAGE))
async def set_queue(caller: CurrentCaller, name: PathId, body: QueueBody) -> Response:
    """Replaces both limits. They hold for all workspaces and all workers together, from the next claim on."""
    queue = await change_queue(caller.ledger, name, body.model_dump())
    caller.service.context.announce_due()  # a limit may have been raised
    reports = await adrive(report_queues(caller.ledger, caller.now))
    # Another caller may have removed the limits since, and then a queue without runs is not reported.
    report = next((report for report in reports if report.name == name), report_of(queue))
    return QUEUE.to_response(report)


@queues_router.delete(
    "/{id}", **describe("Remove the limits of a queue.", scope=WORKERS_MANAGE, status=204, errors=(404,))
)
async def delete_queue(caller: CurrentCaller, name: PathId) -> Response:
    """The runs in the queue stay there."""
    await remove_queue(caller.ledger, name)
    caller.service.context.announce_due()
    return Response(status_code=204)

"""Runs: start, list, cancel, pause, resume, retry, signal."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic.alias_generators import to_snake

from statewright.api.runs import LONGEST_WAIT
from statewright.runs import Order
from statewright.server.bodies.runs import CancelBody, FilterBody, ResumeBody, SignalBody, StartRunBody
from statewright.server.context.auth import Caller
from statewright.server.http.encode import answer
from statewright.server.http.parameters import (
    METADATA,
    IdempotencyKey,
    PageNumber,
    PageSize,
    Paging,
    RunQuery,
    resolve_key,
)
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import RUN, RUN_IDS, RUN_WITH_STEPS, STARTED_RUN, STEP
from statewright.service import Started, StartRun

router = APIRouter(prefix="/api/v1/workflow-runs", route_class=StrictRoute, tags=["workflow-runs"])
Wait = Annotated[float | None, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the run to come to rest.")]
Sort = Literal["createdAt", "-createdAt", "updatedAt", "-updatedAt", "startedAt", "-startedAt", "status", "-status"]
_EXISTS = "It exists: a request with the same idempotency key made it."


@router.post(
    "",
    **describe("Start a run.", STARTED_RUN, scope="runs:write", status=201, also={200: _EXISTS}, errors=(404, 409)),
)
async def start_run(
    caller: CurrentCaller, body: StartRunBody, wait: Wait = None, idempotency_key: IdempotencyKey = None
) -> Response:
    """Starts a run of a stored definition or of a graph that is served. With `wait`, the answer comes when the run has
    ended, waits for something from outside, or is paused; and after so many seconds in any case."""
    start = replace(
        body.request(), idempotency_key=resolve_key(idempotency_key, body.idempotency_key, "idempotencyKey")
    )
    await caller.context.limits.check(caller.workspace_id, caller.now)
    if wait:
        started = await _start_and_wait(caller, start, wait)
    else:
        started = await caller.service.start(caller.workspace_id, start)
    content = {**RUN.encode(started.run), "created": started.created}
    return answer(content, status=201 if started.created else 200)


async def _start_and_wait(caller: Caller, start: StartRun, seconds: float) -> Started:
    """Start a run and wait until it is idle; if the shutdown begins first, return it in its current state."""
    service, workspace = caller.service, caller.workspace_id
    start = replace(start, run_id=service.starter.new_id())
    started = await caller.context.closing.race(service.start_and_wait(workspace, start, seconds))
    if started is not None:
        return started
    if start.idempotency_key is not None:
        return await service.start(workspace, start)
    return Started(await service.run(workspace, str(start.run_id)), created=True)


@router.get("", **describe("Runs, the newest first.", RUN, scope="runs:read", page=True, parameters=METADATA))
async def list_runs(
    caller: CurrentCaller,
    conditions: RunQuery,
    page: PageNumber = 1,
    page_size: PageSize = 20,
    sort: Annotated[
        Sort, Query(description="By what they are sorted; a minus means the largest first.")
    ] = "-createdAt",
) -> Response:
    """Runs that fit every filter. `metadata.<name>=<value>` finds runs by an entry of their metadata."""
    order = Order(to_snake(sort.lstrip("-")), sort.startswith("-"))
    runs = await caller.service.runs(caller.workspace_id, conditions, page=page, page_size=page_size, order=order)
    return Paging(page, page_size).answer(RUN, runs.items, runs.total)


@router.post("/cancel", **describe("Cancel all runs that fit a filter.", RUN_IDS, scope="runs:write"))
async def cancel_runs(caller: CurrentCaller, body: FilterBody) -> Response:
    return answer({"runIds": await caller.service.cancel_all(caller.workspace_id, body.filter())})


@router.post("/retry", **describe("Try all failed runs again that fit a filter.", RUN_IDS, scope="runs:write"))
async def retry_runs(caller: CurrentCaller, body: FilterBody) -> Response:
    return answer({"runIds": await caller.service.retry_all(caller.workspace_id, body.filter())})


@router.get("/{id}", **describe("A run with its steps.", RUN_WITH_STEPS, scope="runs:read", errors=(404,)))
async def read_run(caller: CurrentCaller, run_id: PathId, wait: Wait = None) -> Response:
    """With `wait`, the answer comes when the run has ended, waits for something from outside, or is paused; and after
    so many seconds in any case."""
    service, workspace = caller.service, caller.workspace_id
    run = await caller.context.closing.race(service.wait(workspace, run_id, wait)) if wait else None
    run = run or await service.run(workspace, run_id)
    steps = await caller.service.steps(caller.workspace_id, run_id)
    return answer({**RUN.encode(run), "stepRuns": STEP.encode_all(steps)})


_CHANGES: dict[str, Any] = {"scope": "runs:write", "errors": (404, 409)}


@router.post("/{id}/resume", **describe("Let a run go on.", RUN, **_CHANGES))
async def resume_run(
    caller: CurrentCaller, run_id: PathId, body: ResumeBody | None = None, idempotency_key: IdempotencyKey = None
) -> Response:
    """With a signal that the run waits for, with answers to its questions, or without a body if it is paused. To answer
    an approval, the key needs the scope `approvals:decide` too."""
    service, workspace = caller.service, caller.workspace_id
    if body is not None and body.answers is not None:
        run = await service.answer(workspace, run_id, body.answers, key=caller.key)
    elif body is not None and body.signal_type is not None:
        payload = body.payload or {}
        key = resolve_key(idempotency_key, body.signal_id, "signalId")
        run = await service.signal(workspace, run_id, body.signal_type, payload, key=key, must_wait=True)
    else:
        run = await service.resume(workspace, run_id)
    return RUN.answer(run)


@router.post("/{id}/signals", **describe("Send a signal to a run.", RUN, **_CHANGES))
async def signal_run(
    caller: CurrentCaller, run_id: PathId, body: SignalBody, idempotency_key: IdempotencyKey = None
) -> Response:
    """The signal may come before the run waits for it: it is kept until then."""
    key = resolve_key(idempotency_key, body.signal_id, "signalId")
    run = await caller.service.signal(caller.workspace_id, run_id, body.signal_type, body.payload, key=key)
    return RUN.answer(run)


@router.post("/{id}/cancel", **describe("Cancel a run.", RUN, **_CHANGES))
async def cancel_run(caller: CurrentCaller, run_id: PathId, body: CancelBody | None = None) -> Response:
    """A run that has ended stays as it is."""
    reason = body.reason if body is not None else None
    return RUN.answer(await caller.service.cancel(caller.workspace_id, run_id, reason))


@router.post("/{id}/pause", **describe("Pause a run after its present step.", RUN, **_CHANGES))
async def pause_run(caller: CurrentCaller, run_id: PathId) -> Response:
    return RUN.answer(await caller.service.pause(caller.workspace_id, run_id))


@router.post("/{id}/retry", **describe("Try a failed run again, from the step that failed.", RUN, **_CHANGES))
async def retry_run(caller: CurrentCaller, run_id: PathId) -> Response:
    return RUN.answer(await caller.service.retry(caller.workspace_id, run_id))

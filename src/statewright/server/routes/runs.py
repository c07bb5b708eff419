"""Runs: start, list, cancel, pause, resume, retry, signal."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic.alias_generators import to_snake

from statewright.runs import Order
from statewright.server.context.auth import Caller
from statewright.server.http.encode import answer
from statewright.server.http.parameters import (
    METADATA,
    IdempotencyKey,
    Paged,
    RunQuery,
    read_key,
)
from statewright.server.http.route import PathId, Signed, StrictRoute, described
from statewright.server.models.base import all_shown, shown
from statewright.server.models.run_bodies import CancelBody, FilterBody, ResumeBody, SignalBody, StartRunBody
from statewright.server.models.runs import RunIds, RunShown, RunWithSteps, StartedShown, StepShown
from statewright.service import Started, StartRun

router = APIRouter(prefix="/api/v1/workflow-runs", route_class=StrictRoute, tags=["workflow-runs"])
LONGEST_WAIT = 300
"""Seconds."""
Wait = Annotated[float | None, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the run to come to rest.")]
Sort = Literal["createdAt", "-createdAt", "updatedAt", "-updatedAt", "startedAt", "-startedAt", "status", "-status"]
_SUFFICES = "It exists: a request with the same idempotency key made it."


@router.post(
    "",
    **described(
        "Start a run.",
        StartedShown,
        scope="runs:write",
        status=201,
        also={200: _SUFFICES},
        errors=(404, 409),
    ),
)
async def start_run(
    caller: Signed, body: StartRunBody, wait: Wait = None, idempotency_key: IdempotencyKey = None
) -> Response:
    """Starts a run of a stored definition or of a graph that is served. With `wait`, the answer comes when the run has
    ended, waits for something from outside, or is paused; and after so many seconds in any case."""
    wanted = replace(body.request(), idempotency_key=read_key(idempotency_key, body.idempotency_key, "idempotencyKey"))
    await caller.context.limits.check(caller.workspace_id, caller.now)
    if wait:
        started = await _start_and_wait(caller, wanted, wait)
    else:
        started = await caller.service.start(caller.workspace_id, wanted)
    shown_run = shown(RunShown, started.run)
    return answer({**shown_run, "created": started.created}, status=201 if started.created else 200)


async def _start_and_wait(caller: Caller, wanted: StartRun, seconds: float) -> Started:
    """Start a run and wait until it rests; if the server is about to stop, return it in its current state."""
    service, workspace = caller.service, caller.workspace_id
    wanted = replace(wanted, run_id=service.starter.new_id())
    started = await caller.context.closing.unless(service.start_and_wait(workspace, wanted, seconds))
    if started is not None:
        return started
    if wanted.idempotency_key is not None:
        return await service.start(workspace, wanted)
    return Started(await service.run(workspace, str(wanted.run_id)), created=True)


async def _read_order(
    sort: Annotated[
        Sort, Query(description="By what they are sorted; a minus means the largest first.")
    ] = "-createdAt",
) -> Order:
    return Order(to_snake(sort.lstrip("-")), sort.startswith("-"))


@router.get("", **described("Runs, the newest first.", RunShown, scope="runs:read", page=True, parameters=METADATA))
async def list_runs(
    caller: Signed, page: Paged, order: Annotated[Order, Depends(_read_order)], filters: RunQuery
) -> Response:
    """Runs that fit every filter. `metadata.<name>=<value>` finds runs by an entry of their metadata."""
    result = await caller.service.runs(caller.workspace_id, filters, page=page.number, page_size=page.size, order=order)
    return page.answer(RunShown, result.items, result.total)


@router.post("/cancel", **described("Cancel all runs that fit a filter.", RunIds, scope="runs:write"))
async def cancel_runs(caller: Signed, body: FilterBody) -> Response:
    return answer({"runIds": await caller.service.cancel_all(caller.workspace_id, body.filter())})


@router.post("/retry", **described("Try all failed runs again that fit a filter.", RunIds, scope="runs:write"))
async def retry_runs(caller: Signed, body: FilterBody) -> Response:
    return answer({"runIds": await caller.service.retry_all(caller.workspace_id, body.filter())})


@router.get("/{id}", **described("A run with its steps.", RunWithSteps, scope="runs:read", errors=(404,)))
async def read_run(caller: Signed, run_id: PathId, wait: Wait = None) -> Response:
    """With `wait`, the answer comes when the run has ended, waits for something from outside, or is paused; and after
    so many seconds in any case."""
    service, workspace = caller.service, caller.workspace_id
    run = await caller.context.closing.unless(service.wait(workspace, run_id, wait)) if wait else None
    run = run or await service.run(workspace, run_id)
    steps = await caller.service.steps(caller.workspace_id, run_id)
    return answer({**shown(RunShown, run), "stepRuns": all_shown(StepShown, steps)})


_CHANGES: dict[str, Any] = {"scope": "runs:write", "errors": (404, 409)}


@router.post("/{id}/resume", **described("Let a run go on.", RunShown, **_CHANGES))
async def resume_run(
    caller: Signed, run_id: PathId, body: ResumeBody | None = None, idempotency_key: IdempotencyKey = None
) -> Response:
    """With a signal that the run waits for, with answers to its questions, or without a body if it is paused. To answer
    an approval, the key needs the scope `approvals:decide` too."""
    service, workspace = caller.service, caller.workspace_id
    if body is not None and body.answers is not None:
        run = await service.answer(workspace, run_id, body.answers, key=caller.key)
    elif body is not None and body.signal_type is not None:
        payload = body.payload or {}
        key = read_key(idempotency_key, body.signal_id, "signalId")
        run = await service.signal(workspace, run_id, body.signal_type, payload, key=key, must_wait=True)
    else:
        run = await service.resume(workspace, run_id)
    return answer(shown(RunShown, run))


@router.post("/{id}/signals", **described("Send a signal to a run.", RunShown, **_CHANGES))
async def signal_run(
    caller: Signed, run_id: PathId, body: SignalBody, idempotency_key: IdempotencyKey = None
) -> Response:
    """The signal may come before the run waits for it: it is kept until then."""
    key = read_key(idempotency_key, body.signal_id, "signalId")
    run = await caller.service.signal(caller.workspace_id, run_id, body.signal_type, body.payload, key=key)
    return answer(shown(RunShown, run))


@router.post("/{id}/cancel", **described("Cancel a run.", RunShown, **_CHANGES))
async def cancel_run(caller: Signed, run_id: PathId, body: CancelBody | None = None) -> Response:
    """A run that has ended stays as it is."""
    reason = body.reason if body is not None else None
    return answer(shown(RunShown, await caller.service.cancel(caller.workspace_id, run_id, reason)))


@router.post("/{id}/pause", **described("Pause a run after its present step.", RunShown, **_CHANGES))
async def pause_run(caller: Signed, run_id: PathId) -> Response:
    return answer(shown(RunShown, await caller.service.pause(caller.workspace_id, run_id)))


@router.post("/{id}/retry", **described("Try a failed run again, from the step that failed.", RunShown, **_CHANGES))
async def retry_run(caller: Signed, run_id: PathId) -> Response:
    return answer(shown(RunShown, await caller.service.retry(caller.workspace_id, run_id)))

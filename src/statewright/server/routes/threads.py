"""Routes of threads: state, history, diffs, forks and updates."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field, model_validator

from statewright.server.http.body import Body, JsonMap, Name
from statewright.server.http.encode import success_response
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import CHECKPOINT, THREAD, THREAD_IN_LIST

router = APIRouter(prefix="/api/v1/threads/{id}", route_class=StrictRoute, tags=["threads"])
list_router = APIRouter(prefix="/api/v1/threads", route_class=StrictRoute, tags=["threads"])
CheckpointOrHead = Annotated[
    str | None, Query(alias="checkpointId", description="The checkpoint; the head of the thread by default.")
]
Branch = Annotated[str | None, Query(description="Only this branch.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="The maximum number of checkpoints.")]
CheckpointId = Annotated[str, Query(min_length=1, max_length=200, description="The id of a checkpoint.")]


class ForkBody(Body):
    """A branch to start at a checkpoint."""

    checkpoint_id: Name
    branch: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.-]+$")] | None = None
    """The name of the new branch; without one, the checkpoint becomes the head of its own branch again."""


class UpdateThreadBody(Body):
    """A state update, as if a node had returned the values."""

    values: Any = None
    overwrite: list[Name] = Field(default_factory=list[str], max_length=1000)
    """The fields of `values` that replace the values in the state. Those of other fields are updates, as a node returns
    them: a reducer adds them to what is there."""
    as_node: Name | None = None
    checkpoint_id: Name | None = None
    """The checkpoint to start from; the head of the thread by default."""

    @model_validator(mode="after")
    def _check_values(self) -> UpdateThreadBody:
        if "values" not in self.model_fields_set:
            raise ValueError("values are required")
        return self


@list_router.get(
    "", **describe("List threads, those used last first.", THREAD_IN_LIST, is_list=True, scope="threads:read")
)
async def list_threads(
    caller: CurrentCaller,
    prefix: Annotated[str, Query(max_length=200, description="Only threads whose ids begin with this text.")] = "",
    limit: Annotated[int, Query(ge=1, le=100, description="The maximum number of threads.")] = 100,
) -> Response:
    """Threads on which no run has begun are left out. `GET /workflow-runs?threadId=` lists the runs of one."""
    threads = await caller.service.threads.recent(caller.workspace_id, prefix=prefix, limit=limit)
    return THREAD_IN_LIST.to_list_response(threads)


@router.get("/state", **describe("Get the state of a thread.", THREAD, scope="threads:read", errors=(404,)))
async def read_state(caller: CurrentCaller, thread_id: PathId, checkpoint_id: CheckpointOrHead = None) -> Response:
    return success_response(await caller.service.threads.state(caller.workspace_id, thread_id, checkpoint_id))


@router.get(
    "/history",
    **describe("List the checkpoints of a thread.", THREAD, is_list=True, scope="threads:read", errors=(404,)),
)
async def read_history(caller: CurrentCaller, thread_id: PathId, branch: Branch = None, limit: Limit = 100) -> Response:
    """Newest first, from all branches unless `branch` is given. Each checkpoint names its parent."""
    return success_response(
        await caller.service.threads.history(caller.workspace_id, thread_id, branch=branch, limit=limit)
    )


@router.get(
    "/checkpoints",
    **describe(
        "List the checkpoints of a thread without values.",
        CHECKPOINT,
        is_list=True,
        scope="threads:read",
        errors=(404,),
    ),
)
async def list_checkpoints(
    caller: CurrentCaller,
    thread_id: PathId,
    branch: Branch = None,
    before: Annotated[
        str | None, Query(min_length=1, max_length=200, description="The last checkpoint of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=5000, description="The maximum number of checkpoints.")] = 1000,
) -> Response:
    """Newest first, from all branches unless `branch` is given. Each checkpoint names its parent, so they form a tree,
    which is read at little cost: `GET .../state?checkpointId=` returns the values of one of them."""
    threads = caller.service.threads
    checkpoints = await threads.checkpoints(caller.workspace_id, thread_id, branch=branch, before=before, limit=limit)
    return CHECKPOINT.to_list_response(checkpoints)


@router.get("/diff", **describe("Compare two checkpoints.", JsonMap, scope="threads:read", errors=(404,)))
async def read_diff(caller: CurrentCaller, thread_id: PathId, before: CheckpointId, after: CheckpointId) -> Response:
    return success_response(await caller.service.threads.diff(caller.workspace_id, thread_id, before, after))


@router.post(
    "/fork", **describe("Start a branch at a checkpoint.", THREAD, scope="threads:write", status=201, errors=(404, 409))
)
async def fork(caller: CurrentCaller, thread_id: PathId, body: ForkBody) -> Response:
    """If runs of the thread wait for approvals, the key also needs the scope `approvals:decide`."""
    forked = await caller.service.threads.fork(
        caller.workspace_id, thread_id, body.checkpoint_id, body.branch, key=caller.key
    )
    return success_response(forked, status=201)


@router.post("/state", **describe("Update the state of a thread.", THREAD, scope="threads:write", errors=(404, 409)))
async def update_state(caller: CurrentCaller, thread_id: PathId, body: UpdateThreadBody) -> Response:
    """Updates the state as if the node `asNode` had returned `values`; the history is kept. Fields in `overwrite` are
    replaced rather than passed to their reducers. If runs of the thread wait
    for approvals, the key also needs the scope `approvals:decide`."""
    updated = await caller.service.threads.update(
        caller.workspace_id,
        thread_id,
        body.values,
        overwrite=body.overwrite,
        as_node=body.as_node,
        checkpoint_id=body.checkpoint_id,
        key=caller.key,
    )
    return success_response(updated)

"""Reading runs: their records, steps, state, model calls, logs, events and waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Literal, overload

from statewright.async_futures import aresolve
from statewright.jsonable import as_json
from statewright.runs import Json, ModelCall, Order, Run, RunEvent, StepLog, StepRun, Wait, where
from statewright.service.context.records import Page, conditions_of
from statewright.service.context.requests import RunFilter
from statewright.service.context.service_context import Operations
from statewright.service.following.follow import follow, wait_until_settled
from statewright.service.following.hub import FollowedEvent

NEWEST: Final = Order("created_at", descending=True)


class ReadOperations(Operations):
    """Reads the runs of workspaces. Every method raises NotFound for a run of another workspace."""

    async def runs(
        self, workspace_id: str, filters: RunFilter, *, page: int = 1, page_size: int = 20, order: Order = NEWEST
    ) -> Page[Run]:
        """Return a page of the runs that match all filters, the newest first by default."""
        conditions = conditions_of(workspace_id, filters)
        return await self.context.records.page(Run, conditions, page=page, page_size=page_size, order=order)

    async def wait(self, workspace_id: str, run_id: str, seconds: float) -> Run:
        """Return a run once it has ended, waits or is paused; in its current state after so many seconds."""
        return await wait_until_settled(self.context, workspace_id, run_id, seconds)

    async def steps(self, workspace_id: str, run_id: str) -> Sequence[StepRun]:
        """Return the steps of a run so far, in the order in which they became due."""
        run = await self.run(workspace_id, run_id)
        steps = await self.context.records.all_of_run(StepRun, run, order="superstep")
        return sorted(steps, key=lambda step: (step.superstep, step.position, step.started_at is None))

    async def state(self, workspace_id: str, run_id: str) -> dict[str, Json]:
        """Return the output fields of the state of a run. Empty before it has begun."""
        run = await self.run(workspace_id, run_id)
        if run.output is not None:
            return run.output
        if not run.begun:
            return {}
        graph = await self.context.versions.load_graph(run)
        saved = await aresolve(self.context.saver_of(workspace_id).load(run.thread_id))
        return as_json(graph.program.output(saved.checkpoint.values)) if saved is not None else {}

    async def model_calls(self, workspace_id: str, run_id: str) -> Sequence[ModelCall]:
        """Return the model calls of a run, the oldest first."""
        return await self.context.records.all_of_run(ModelCall, await self.run(workspace_id, run_id))

    async def logs(self, workspace_id: str, run_id: str, *, step: str | None = None) -> Sequence[StepLog]:
        """Return the captured logs of the steps of a run in order, or of its steps of one name."""
        run = await self.run(workspace_id, run_id)
        conditions = where(run_id=run.id, **({"step_name": step} if step is not None else {}))
        return await aresolve(self.context.ledger.find(StepLog, conditions, order=Order("created_at")))

    async def events(self, workspace_id: str, run_id: str, *, after: int = 0, limit: int = 100) -> Sequence[RunEvent]:
        """Return the events of a run after a sequence number, the oldest first."""
        run = await self.run(workspace_id, run_id)
        return await aresolve(self.context.ledger.events(run.id, after=after, limit=limit))

    @overload
    def follow(
        self, workspace_id: str, run_id: str, *, after: int = 0, live: Literal[False] = False
    ) -> AsyncIterator[RunEvent]: ...
    @overload
    def follow(self, workspace_id: str, run_id: str, *, after: int = 0, live: bool) -> AsyncIterator[FollowedEvent]: ...
    async def follow(self, workspace_id: str, run_id: str, *, after: int = 0, live: bool = False) -> AsyncIterator[Any]:
        """Yield the events of a run after a sequence number, and new ones as they are written, until it has ended.

        With `live`, events that are not stored are included as `LiveEvent`: pieces of messages, custom stream output.
        """
        run = await self.run(workspace_id, run_id)
        async for event in follow(self.context, run.id, after, live=live):
            yield event

    async def waits(
        self, workspace_id: str, *, run_id: str | None = None, page: int = 1, page_size: int = 20
    ) -> Page[Wait]:
        """Return a page of the open waits of a workspace or of one run, the newest first."""
        conditions = where(workspace_id=workspace_id, **({"run_id": run_id} if run_id is not None else {}))
        return await self.context.records.page(Wait, conditions, page=page, page_size=page_size)

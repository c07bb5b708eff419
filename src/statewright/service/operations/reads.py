"""Reading runs: their records, steps, state, model calls, logs, events, waits and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, overload

from statewright.async_futures import aresolve
from statewright.data.jsonable import as_json
from statewright.errors import InvalidRequest
from statewright.runs import (
    Bucket,
    Condition,
    Group,
    Json,
    ModelCall,
    Order,
    Run,
    RunEvent,
    RunStatus,
    StepLog,
    StepRun,
    Wait,
    where,
)
from statewright.service.access.spending import SpendingReport
from statewright.service.context.records import NEWEST_FIRST, Page, filter_conditions
from statewright.service.context.requests import RunFilter
from statewright.service.context.service_context import Operations
from statewright.service.following.follow import follow, wait_until_settled
from statewright.service.following.hub import FollowedEvent
from statewright.service.following.run_feed import RunChanges
from statewright.service.operations.activity import Activity, describe_runs
from statewright.service.operations.running_tasks import show_running_tasks
from statewright.stale_reads import for_history

MAX_DAYS: Final = 400
"""The maximum number of days for which costs are listed."""
MAX_PERIODS: Final = 500
"""The maximum number of periods that runs are counted by."""
_SUMS: Final = ("cost", "input_tokens", "output_tokens")
"""The columns of model calls that are added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal:
    """The number, the tokens and the total cost of a group of model calls."""

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

    total: CostTotal
    by_model: Sequence[CostTotal]
    calls: Sequence[ModelCall]
    """All model calls of the run, the oldest first."""


@dataclass(frozen=True, slots=True)
class CostSummary:
    """The cost of a workspace in a period."""

    start: datetime | None
    """Inclusive; None for no limit."""
    end: datetime | None
    """Exclusive; None for no limit."""
    total: CostTotal
    by_model: Sequence[CostTotal]


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyCost:
    """The cost of one model or graph on one day."""

    day: str
    """A day in UTC: `2026-01-31`."""
    name: str
    count: int
    """The number of calls of the model, or of runs of the graph that have cost something."""
    cost: float
    """In US dollars."""
    input_tokens: int | None
    """None for graphs."""
    output_tokens: int | None


class ReadOperations(Operations):
    """Reads the runs of workspaces. Every method raises NotFound for a run of another workspace."""

    async def runs(
        self, workspace_id: str, filters: RunFilter, *, page: int = 1, page_size: int = 20, order: Order = NEWEST_FIRST
    ) -> Page[Run]:
        """Return a page of the runs that match a filter, the newest first by default."""
        conditions = filter_conditions(workspace_id, filters)
        return await self.context.records.page(
            Run, conditions, page=page, page_size=page_size, order=order, stale_ok=True
        )

    async def activities(self, runs: Sequence[Run]) -> dict[str, Activity]:
        """Return what each of some runs is doing, by run id."""
        return await describe_runs(self.context.ledger, runs, self.context.now())

    async def count_over_time(
        self, workspace_id: str, filters: RunFilter, start: datetime, end: datetime, count: int
    ) -> list[Counter[RunStatus]]:
        """Divide the time from `start` until before `end` into periods of equal length, at most MAX_PERIODS.

        Return the number of matching runs that were created in each period, by status. Raises InvalidRequest.
        """
        if start >= end or not 1 <= count <= MAX_PERIODS:
            raise InvalidRequest(f"The period must not be empty, and be divided by 1 to {MAX_PERIODS}, not {count}.")
        within = replace(
            filters,
            created_from=max(filters.created_from or start, start),
            created_to=min(filters.created_to or end, end),
        )
        bucket = Bucket("created_at", start, (end - start).total_seconds() / count)
        ledger = for_history(self.context.ledger)
        # Naming all statuses lets databases count with an index that has everything that is needed.
        conditions = filter_conditions(workspace_id, replace(within, status=within.status or list(RunStatus)))
        periods: list[Counter[RunStatus]] = [Counter() for _ in range(count)]
        for group in await aresolve(ledger.groups(Run, ["status"], where=conditions, bucket=bucket)):
            number, status = group.key
            # The length of a period is rounded to microseconds, so the last one may be a little longer.
            periods[min(number, count - 1)][status] += group.size
        return periods

    async def wait(self, workspace_id: str, run_id: str, seconds: float) -> Run:
        """Return a run as soon as it has ended, waits or is paused, or else as it is after `seconds`."""
        return await wait_until_settled(self.context, workspace_id, run_id, seconds)

    async def steps(self, workspace_id: str, run_id: str) -> Sequence[StepRun]:
        """Return the steps of a run so far, sorted by superstep. A skipped step follows the step that skipped it."""
        run = await self.run(workspace_id, run_id)
        steps = await self.context.records.all_of_run(StepRun, run, order="superstep")
        steps = sorted(steps, key=lambda step: (step.superstep, step.position, step.started_at is None))
        return show_running_tasks(self.context, run, steps)

    async def state(self, workspace_id: str, run_id: str) -> dict[str, Json]:
        """Return the output fields of the state of a run; an empty map before it has begun."""
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
        """Return the captured logs of the steps of a run, or of the steps named `step` if given, the oldest first."""
        run = await self.run(workspace_id, run_id)
        conditions = where(run_id=run.id, **({"step_name": step} if step is not None else {}))
        ledger = self.context.records.ledger_of(run)
        return await aresolve(ledger.find(StepLog, conditions, order=Order("created_at")))

    async def events(self, workspace_id: str, run_id: str, *, after: int = 0, limit: int = 100) -> Sequence[RunEvent]:
        """Return the events of a run after a sequence number, the oldest first."""
        run = await self.run(workspace_id, run_id)
        return await aresolve(self.context.records.ledger_of(run).events(run.id, after=after, limit=limit))

    @overload
    def follow(
        self, workspace_id: str, run_id: str, *, after: int = 0, live: Literal[False] = False
    ) -> AsyncIterator[RunEvent]: ...
    @overload
    def follow(self, workspace_id: str, run_id: str, *, after: int = 0, live: bool) -> AsyncIterator[FollowedEvent]: ...
    async def follow(self, workspace_id: str, run_id: str, *, after: int = 0, live: bool = False) -> AsyncIterator[Any]:
        """Yield the events of a run after a sequence number, and new events as they are written, until the run ends.

        With `live`, events that are not stored are also yielded, as `LiveEvent`: chunks of messages, and custom output.
        """
        run = await self.run(workspace_id, run_id)
        async for event in follow(self.context, run.id, after, live=live):
            yield event

    def feed(self, workspace_id: str, *, since: datetime | None = None) -> AsyncGenerator[RunChanges]:
        """Yield the runs of a workspace that have changed since an instant, by default now, as they change."""
        return self.context.feeds.changes(workspace_id, since)

    async def waits(
        self, workspace_id: str, *, run_id: str | None = None, page: int = 1, page_size: int = 20
    ) -> Page[Wait]:
        """Return a page of the open waits of a workspace or of one run, the newest first."""
        conditions = where(workspace_id=workspace_id, **({"run_id": run_id} if run_id is not None else {}))
        return await self.context.records.page(Wait, conditions, page=page, page_size=page_size)

    # -- costs

    async def cost(self, workspace_id: str, run_id: str) -> Cost:
        """Return the cost of the model calls of a run. Raises NotFound."""
        run = await self.run(workspace_id, run_id)
        calls = await self.context.records.all_of_run(ModelCall, run)
        by_model = await self._by_model(where(run_id=run.id))
        return Cost(_total(by_model), by_model, calls)

    async def cost_summary(
        self, workspace_id: str, start: datetime | None = None, end: datetime | None = None
    ) -> CostSummary:
        """Return the cost of the model calls of a workspace, from `start` until before `end`."""
        conditions = where(workspace_id=workspace_id)
        if start is not None:
            conditions.append(Condition("created_at", ">=", start))
        if end is not None:
            conditions.append(Condition("created_at", "<", end))
        by_model = await self._by_model(conditions)
        return CostSummary(start, end, _total(by_model), by_model)

    async def cost_by_day(
        self, workspace_id: str, start: datetime, end: datetime, by: Literal["model", "graph"]
    ) -> list[DailyCost]:
        """Return the cost of each day in UTC, from `start` until before `end`, by model or by graph.

        By model, calls are counted on the day on which they were made; by graph, runs on the day on which they were
        created, with all their calls. Raises InvalidRequest for more than MAX_DAYS.
        """
        if not timedelta() < end - start <= timedelta(days=MAX_DAYS):
            raise InvalidRequest(f"The period must have 1 to {MAX_DAYS} days.")
        first_day = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        bucket = Bucket("created_at", first_day, 86_400)
        conditions = [
            *where(workspace_id=workspace_id),
            Condition("created_at", ">=", start),
            Condition("created_at", "<", end),
        ]
        ledger = for_history(self.context.ledger)
        groups: Sequence[Group]
        if by == "model":
            groups = await aresolve(ledger.groups(ModelCall, ["model"], where=conditions, sums=_SUMS, bucket=bucket))
        else:
            spent = [*conditions, Condition("total_cost", ">", 0)]
            groups = await aresolve(ledger.groups(Run, ["graph"], where=spent, sums=["total_cost"], bucket=bucket))
        return [
            DailyCost(
                day=(first_day + timedelta(days=group.key[0])).date().isoformat(),
                name=str(group.key[1]),
                count=group.size,
                cost=group.sums[0],
                input_tokens=int(group.sums[1]) if by == "model" else None,
                output_tokens=int(group.sums[2]) if by == "model" else None,
            )
            for group in groups
        ]

    async def spending(self, workspace_id: str) -> SpendingReport:
        """Return the spending of a workspace today, and its limits."""
        return await self.context.spending.report(workspace_id)

    async def _by_model(self, conditions: Sequence[Condition]) -> list[CostTotal]:
        groups = await aresolve(self.context.ledger.groups(ModelCall, ["model"], where=conditions, sums=_SUMS))
        return [
            CostTotal(
                name=str(group.key[0]),
                calls=group.size,
                cost=group.sums[0],
                input_tokens=int(group.sums[1]),
                output_tokens=int(group.sums[2]),
            )
            for group in groups
        ]


def _total(groups: Sequence[CostTotal]) -> CostTotal:
    return CostTotal(
        name="total",
        calls=sum(group.calls for group in groups),
        cost=sum(group.cost for group in groups),
        input_tokens=sum(group.input_tokens for group in groups),
        output_tokens=sum(group.output_tokens for group in groups),
    )

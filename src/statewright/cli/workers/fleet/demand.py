"""The demand for workers of a fleet, read from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime

from statewright.async_futures import adrive, aresolve
from statewright.cli.workers.fleet.scaling import Demand
from statewright.runs import Condition, Ledger, Run, Worker
from statewright.service.operations.queues import QueueReport, report_queues


async def read_demand(
    ledger: Ledger, queues: Sequence[str] | None, worker_ids: Collection[str], now: datetime
) -> Demand:
    """Return the demand for workers that serve some queues, or all (None).

    `worker_ids` are the ids of the fleet's running workers. Runs beyond the `max_running` of their queue are
    left out, since no worker could claim them.
    """

    def is_served(queue: str) -> bool:
        return queues is None or queue in queues

    reports = await adrive(report_queues(ledger, now))
    waiting = {report.name: _claimable(report) for report in reports if is_served(report.name)}
    names = [name for name, depth in waiting.items() if depth > 0]
    oldest = 0.0
    if names:
        # Not the age in the reports: it is that of the oldest due run, even if this run waits for another one.
        due_at = (await aresolve(ledger.next_due(queues=names))).at
        oldest = max(0.0, (now - due_at).total_seconds()) if due_at is not None else 0.0
    groups = await aresolve(ledger.groups(Run, ["worker_id", "queue"], where=[Condition("claim", "!=", None)]))
    workers = await aresolve(ledger.find(Worker))  # after the claims, so that those of a new worker are not lost
    live = {worker.id for worker in workers if worker.until > now}
    claims: Counter[str] = Counter()
    lost = 0
    for (worker_id, queue), size, *_ in groups:
        if worker_id in worker_ids:
            claims[worker_id] += size
        elif worker_id not in live and is_served(queue):
            lost += size
    return Demand(oldest=oldest, depth=sum(waiting.values()), lost=lost, claims=claims)


def _claimable(report: QueueReport) -> int:
    """Return the number of due runs of a queue that can be claimed within its limit of concurrent runs."""
    if report.max_running is None:
        return report.depth
    return max(0, min(report.depth, report.max_running - report.claimed))

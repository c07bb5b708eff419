"""Reading from the ledger how much work there is for a fleet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from statewright.async_futures import adrive, aresolve
from statewright.cli.workers.fleet.scaling import Demand
from statewright.runs import Ledger
from statewright.service.operations.queues import QueueReport, report_queues
from statewright.service.operations.workers import report_workers


async def read_demand(
    ledger: Ledger, queues: Sequence[str] | None, worker_ids: Collection[str], now: datetime
) -> Demand:
    """Return the demand for workers that serve some queues, or all (None).

    `worker_ids` are the ids of the fleet's workers that are at work. Runs beyond the `max_running` of their queue are
    left out, since no worker could claim them.
    """
    reports = await adrive(report_queues(ledger, now))
    waiting = {report.name: _claimable(report) for report in reports if queues is None or report.name in queues}
    names = [name for name, depth in waiting.items() if depth > 0]
    oldest = 0.0
    if names:
        # Not the age in the reports: it is that of the oldest due run, even if this run waits for another one.
        due_at = (await aresolve(ledger.next_due(queues=names))).at
        oldest = max(0.0, (now - due_at).total_seconds()) if due_at is not None else 0.0
    workers = await adrive(report_workers(ledger, now))
    claims = {report.worker.id: report.claimed for report in workers if report.worker.id in worker_ids}
    return Demand(oldest=oldest, depth=sum(waiting.values()), claims=claims)


def _claimable(report: QueueReport) -> int:
    """Return how many of the due runs of a queue its limit of concurrent runs leaves to claim."""
    if report.max_running is None:
        return report.depth
    return max(0, min(report.depth, report.max_running - report.claimed))

"""The workers of a ledger: processes that advance runs. They belong to no workspace."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from statewright.async_futures import aresolve
from statewright.errors import NotFound, RecordConflict, suggestion
from statewright.runs import Condition, Group, Ledger, Order, Run, StoredDefinition, Update, Worker, where
from statewright.service.catalog.catalog import PROJECT

WorkerStatus = Literal["live", "draining", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """A worker, and what it is doing."""

    worker: Worker
    status: WorkerStatus
    """`draining` once it was asked to stop; `lost` if its lease has expired, so that others will release its runs."""
    claimed: int
    """The number of runs that it is advancing."""


def report_workers(ledger: Ledger, now: datetime) -> Generator[Any, Any, list[WorkerReport]]:
    """Read the workers, those that have started first at the beginning. For `drive` and `adrive`."""
    workers: Sequence[Worker] = yield ledger.find(Worker, order=Order("started_at"))
    groups: Sequence[Group] = yield ledger.groups(Run, ["worker_id"], where=[Condition("claim", "!=", None)])
    claims = {group.key[0]: group.size for group in groups}
    return [
        WorkerReport(worker=worker, status=status_of(worker, now), claimed=claims.get(worker.id, 0))
        for worker in workers
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedVersion:
    """A version of a graph of the project, for people."""

    name: str
    """The name of the graph."""
    is_newest: bool
    """False if a process has served a version of the graph since that was new then."""


def read_served_versions(ledger: Ledger) -> Generator[Any, Any, dict[str, ServedVersion]]:
    """Read the versions of the graphs that processes have served, by the ids in `Worker.versions`.

    For `drive` and `adrive`.
    """
    definitions: Sequence[StoredDefinition] = yield ledger.find(
        StoredDefinition, where(workspace_id=PROJECT), order=Order("created_at")
    )
    newest = {definition.name: definition.id for definition in definitions}
    return {
        definition.id: ServedVersion(name=definition.name, is_newest=newest[definition.name] == definition.id)
        for definition in definitions
    }


def status_of(worker: Worker, now: datetime) -> WorkerStatus:
    """Return the status of a worker at an instant."""
    if worker.until <= now:
        return "lost"
    return "draining" if worker.draining else "live"


async def request_drain(ledger: Ledger, worker_id: str) -> None:
    """Ask a worker to drain: to claim no more runs, and to release its runs after their current steps.

    The worker notices it with its next heartbeat. Raises NotFound.
    """
    try:
        await aresolve(ledger.write([Update(Worker, worker_id, {"draining": True})]))
    except RecordConflict:
        ids = [worker.id for worker in await aresolve(ledger.find(Worker))]
        raise NotFound(
            f"Worker {worker_id!r} does not exist; it may have ended. {suggestion(worker_id, ids, noun='Workers')}"
        ) from None

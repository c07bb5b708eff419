"""`statewright workers` and `statewright queues`: manage workers and queues, directly in their database.

They belong to no workspace, and no running server is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import typer

from statewright.async_futures import adrive
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import JsonOption, ServerDatabaseOptions
from statewright.cli.console.printing import pluralize, say
from statewright.cli.console.table import Column, format_instant, print_list
from statewright.cli.serve.access import run_on_ledger
from statewright.clock import clock_of
from statewright.data.mappings import without_none
from statewright.errors import NotFound
from statewright.runs import Ledger
from statewright.service.operations import queues, workers
from statewright.service.operations.queues import QueueReport
from statewright.service.operations.workers import ServedVersion, WorkerReport

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the queue.")]


# -- workers


def list_workers(json: JsonOption = False, *, database: ServerDatabaseOptions) -> None:
    """List the workers of a database, the oldest first, with the graphs that they serve."""

    async def work(ledger: Ledger) -> tuple[list[WorkerReport], Mapping[str, ServedVersion]]:
        return await _report_workers(ledger), await adrive(workers.read_served_versions(ledger))

    reports, versions = run_on_ledger(work, database)
    print_list(
        reports,
        {
            Column("WORKER", keep_words=True): lambda report: report.worker.id,
            Column("HOST", keep_words=True): lambda report: report.worker.host,
            Column("PID", right=True): lambda report: report.worker.pid,
            Column("STATUS", keep_words=True): lambda report: report.status,
            Column("RUNS", right=True): lambda report: f"{report.claimed}/{report.worker.capacity}",
            Column("QUEUES"): lambda report: "all" if report.worker.queues is None else ", ".join(report.worker.queues),
            Column("GRAPHS"): lambda report: _format_graphs(report, versions),
            Column("STARTED", keep_words=True): lambda report: format_instant(report.worker.started_at),
        },
        as_json=json,
        to_data=lambda report: _worker_data(report, versions),
        if_empty="No workers are running. Start one with: statewright worker",
    )


async def _report_workers(ledger: Ledger) -> list[WorkerReport]:
    return await adrive(workers.report_workers(ledger, clock_of(ledger).now()))


def _format_graphs(report: WorkerReport, versions: Mapping[str, ServedVersion]) -> str:
    """Return the names of the graphs that a worker serves; those in a version that is not the newest are marked."""
    graphs = [versions[version] for version in report.worker.versions or () if version in versions]
    return ", ".join(sorted(graph.name if graph.is_newest else f"{graph.name} (old)" for graph in graphs))


def _worker_data(report: WorkerReport, versions: Mapping[str, ServedVersion]) -> dict[str, Any]:
    names = ("id", "host", "pid", "capacity", "queues", "versions", "started_at", "until")
    values = {name: getattr(report.worker, name) for name in names}
    graphs = {versions[version].name: version for version in report.worker.versions or () if version in versions}
    return {**values, "graphs": graphs, "status": report.status, "claimed": report.claimed}


def drain(
    worker: Annotated[
        str | None, typer.Argument(metavar="WORKER", help="The id of the worker, as listed by `workers ls`.")
    ] = None,
    drain_all: Annotated[bool, typer.Option("--all", help="Drain all workers.")] = False,
    *,
    database: ServerDatabaseOptions,
) -> None:
    """Ask a worker to claim no more runs, and to release its runs after their current steps.

    The worker notices it within seconds. A process of `statewright worker` then exits; one of `statewright serve` or
    `dev` keeps answering requests. Other workers continue the runs.
    """
    if (worker is None) != drain_all:
        raise UsageError("Name either a worker or --all. List the workers with: statewright workers ls")

    async def work(ledger: Ledger) -> list[str]:
        if worker is not None:
            await workers.request_drain(ledger, worker)
            return [worker]
        ids: list[str] = []
        for report in await _report_workers(ledger):
            if report.status == "live":
                with suppress(NotFound):  # it has ended since it was listed
                    await workers.request_drain(ledger, report.worker.id)
                    ids.append(report.worker.id)
        return ids

    ids = run_on_ledger(work, database)
    say(f"{', '.join(ids)}: asked to drain." if ids else "No worker is running.")


# -- queues


def list_queues(json: JsonOption = False, *, database: ServerDatabaseOptions) -> None:
    """List the queues that have limits, live workers or runs, with the runs that are due in them."""

    async def work(ledger: Ledger) -> list[QueueReport]:
        return await adrive(queues.report_queues(ledger, clock_of(ledger).now()))

    print_list(
        run_on_ledger(work, database),
        {
            Column("QUEUE", keep_words=True): lambda queue: queue.name,
            Column("DUE", right=True): lambda queue: queue.depth,
            Column("OLDEST", right=True): lambda queue: _format_seconds(queue.oldest_due_seconds),
            Column("CLAIMED", right=True): lambda queue: queue.claimed,
            Column("DEAD", right=True): lambda queue: queue.dead,
            Column("WORKERS", right=True): lambda queue: queue.workers,
            Column("MAX RUNNING", right=True): lambda queue: queue.max_running or "",
            Column("STARTS/MIN", right=True): lambda queue: queue.starts_per_minute or "",
        },
        as_json=json,
    )


def _format_seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"


def set_queue(
    name: NameArgument,
    max_running: Annotated[
        int | None,
        typer.Option("--max-running", metavar="N", min=1, help="Advance at most N of its runs concurrently."),
    ] = None,
    starts_per_minute: Annotated[
        int | None,
        typer.Option("--starts-per-minute", metavar="N", min=1, help="Begin at most N of its runs per minute."),
    ] = None,
    *,
    database: ServerDatabaseOptions,
) -> None:
    """Set limits of a queue, which hold for all workspaces and workers together. The other limit stays as it is.

    If the project file has a table for the queue, its limits apply again when a process of the project starts.
    """
    limits: Mapping[str, int | None] = {"max_running": max_running, "starts_per_minute": starts_per_minute}
    changes = without_none(limits)
    if not changes:
        raise UsageError(
            f"Give --max-running or --starts-per-minute. To remove the limits, use: statewright queues rm {name}"
        )
    queue = run_on_ledger(lambda ledger: queues.change_queue(ledger, name, changes), database, create=True)
    parts = [f"{pluralize(queue.max_running, 'run')} at once"] if queue.max_running is not None else []
    parts += (
        [f"{pluralize(queue.starts_per_minute, 'start')} per minute"] if queue.starts_per_minute is not None else []
    )
    say(f"Queue {queue.id}: at most {' and '.join(parts)}.")


def remove_queue(name: NameArgument, *, database: ServerDatabaseOptions) -> None:
    """Remove the limits of a queue. Its runs stay."""
    run_on_ledger(lambda ledger: queues.remove_queue(ledger, name), database)
    say(f"Queue {name} has no limits any more.")

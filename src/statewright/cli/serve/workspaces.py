"""`statewright workspaces`: manage the workspaces of a server, directly in its database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from statewright.async_futures import aresolve
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import DatabaseOptions, JsonOption, ServerDatabaseOptions
from statewright.cli.console.printing import say
from statewright.cli.console.table import Column, format_instant, print_list
from statewright.cli.db.database import check_is_database
from statewright.cli.serve.server import build_spending_limits, open_storage, resolve_location
from statewright.clock import SystemClock
from statewright.errors import suggestion
from statewright.project import load_project
from statewright.runs import Ledger, Workspace, where
from statewright.service.access.spending import Spending
from statewright.service.access.workspaces import (
    NewWorkspace,
    create_workspace,
    ensure_default_workspace,
    list_workspaces,
)


def create(
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="Lowercase letters, digits and hyphens.")],
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="A display name.")] = "",
    max_running: Annotated[
        int | None, typer.Option("--max-running", metavar="N", min=1, help="The maximum number of concurrent runs.")
    ] = None,
    starts_per_minute: Annotated[
        int | None,
        typer.Option("--starts-per-minute", metavar="N", min=1, help="The maximum number of runs started per minute."),
    ] = None,
    retention_days: Annotated[
        int | None,
        typer.Option("--retention-days", metavar="N", min=1, help="Delete runs N days after they end."),
    ] = None,
    *,
    database: ServerDatabaseOptions,
) -> None:
    """Create a workspace."""
    new = NewWorkspace(
        slug=slug,
        name=name,
        max_running=max_running,
        starts_per_minute=starts_per_minute,
        retention_days=retention_days,
    )

    workspace = run_on_ledger(lambda ledger: create_workspace(ledger, new, SystemClock().now()), database, create=True)
    say(
        f"Created workspace {workspace.slug}. "
        f"Create a key for it with: statewright keys create NAME --workspace {workspace.slug}"
    )


def ls(json: JsonOption = False, *, database: ServerDatabaseOptions) -> None:
    """List the workspaces, with their limits."""
    print_list(
        run_on_ledger(list_workspaces, database),
        {
            Column("SLUG", keep_words=True): lambda workspace: workspace.slug,
            Column("NAME"): lambda workspace: workspace.name,
            Column("RUNNING", right=True): lambda workspace: workspace.max_running or "",
            Column("STARTS/MIN", right=True): lambda workspace: workspace.starts_per_minute or "",
            Column("DAYS KEPT", right=True): lambda workspace: workspace.retention_days or "",
            Column("CREATED", keep_words=True): lambda workspace: format_instant(workspace.created_at),
        },
        as_json=json,
        to_data=asdict,
    )


def spending(json: JsonOption = False, *, database: ServerDatabaseOptions) -> None:
    """Show today's spending of the workspaces, with the limits of the project."""
    print_list(
        run_on_ledger(_spending, database),
        {
            Column("SLUG", keep_words=True): lambda report: report["slug"],
            Column("DAY", keep_words=True): lambda report: report["day"],
            Column("REQUESTS", right=True): lambda report: report["requests"],
            Column("TOKENS", right=True): lambda report: report["tokens"],
            Column("COST", right=True): lambda report: f"${report['cost']:.4f}",
            Column("LIMITS"): _limits_line,
        },
        as_json=json,
    )


async def _spending(ledger: Ledger) -> list[dict[str, Any]]:
    """Return today's spending and the limits of each workspace."""
    tracker = Spending(ledger, SystemClock(), build_spending_limits(load_project(Path.cwd())))
    reports: list[dict[str, Any]] = []
    for workspace in await list_workspaces(ledger):
        report = await tracker.report(workspace.id)
        spent = {**asdict(report.spent), "tokens": report.spent.tokens, "ends_at": report.spent.ends_at}
        limits = asdict(report.limits) if report.limits is not None else None
        reports.append({"slug": workspace.slug, **spent, "limits": limits, "reached": report.reached})
    return reports


def _limits_line(report: Mapping[str, Any]) -> str:
    """Return the limits of a workspace on one line, marking the one that is used up."""
    limits: Mapping[str, float | None] = report["limits"] or {}
    return ", ".join(
        f"{name} {limit:.10g}{' (used up)' if name == report['reached'] else ''}"
        for name, limit in limits.items()
        if limit is not None
    )


T = TypeVar("T")


def run_on_ledger(work: Callable[[Ledger], Awaitable[T]], database: DatabaseOptions, *, create: bool = False) -> T:
    """Call `work` with the ledger and return its result. The default database is that of the project's server.

    Raises UsageError if the database does not exist, unless `create` is true.
    """

    async def prepare_and_work(ledger: Ledger) -> T:
        await ensure_default_workspace(ledger, SystemClock().now())
        return await work(ledger)

    location = resolve_location(load_project(Path.cwd()), database)
    if not create:
        check_is_database(location.database)
    with open_storage(location) as (_, ledger, _store):
        return asyncio.run(prepare_and_work(ledger))


async def find_workspace(ledger: Ledger, name: str) -> Workspace:
    """Return a workspace by its slug or id. Raises UsageError with similar names."""
    by_slug = await aresolve(ledger.find(Workspace, where(slug=name), limit=1))
    workspace = by_slug[0] if by_slug else await aresolve(ledger.get(Workspace, name))
    if workspace is None:
        slugs = [item.slug for item in await list_workspaces(ledger)]
        raise UsageError(f"Workspace {name!r} does not exist. {suggestion(name, slugs, noun='Workspaces')}")
    return workspace

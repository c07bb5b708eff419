"""`statewright keys` and `statewright workspaces`: manage access to a server, directly in its database.

No running server is needed, so the first key can be created.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from statewright.async_futures import aresolve
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import DatabaseOptions, JsonOption, ServerDatabaseOptions
from statewright.cli.console.printing import say
from statewright.cli.console.table import Column, format_instant, print_list
from statewright.cli.console.values import to_json
from statewright.cli.db.database import check_is_database
from statewright.cli.serve.server import build_spending_limits, open_storage, resolve_location
from statewright.clock import clock_of
from statewright.errors import suggestion
from statewright.project import load_project
from statewright.runs import ApiKey, Ledger, Workspace, where
from statewright.service import access as keys
from statewright.service.access import workspaces
from statewright.service.access.spending import Spending

T = TypeVar("T")
WorkspaceOption = Annotated[str, typer.Option("--workspace", metavar="SLUG", help="The workspace of the keys.")]


# -- keys


def create_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A display name: the user or the purpose of the key.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="A permission, e.g. runs:read. Repeatable. Default: admin, which allows everything in its workspace.",
        ),
    ] = None,
    workspace: WorkspaceOption = "default",
    days: Annotated[int | None, typer.Option("--days", metavar="N", min=1, help="Expire after N days.")] = None,
    rate: Annotated[int | None, typer.Option("--rate", metavar="N", min=1, help="Allow N requests per minute.")] = None,
    json: JsonOption = False,
    *,
    database: ServerDatabaseOptions,
) -> None:
    """Create an API key. It is shown only once, because only its hash is stored."""

    async def work(ledger: Ledger) -> tuple[ApiKey, str]:
        now = clock_of(ledger).now()
        owner = await find_workspace(ledger, workspace)
        expires_at = now + timedelta(days=days) if days is not None else None
        return await keys.create_key(
            ledger, owner.id, name, scope or ["admin"], now=now, requests_per_minute=rate, expires_at=expires_at
        )

    record, key = run_on_ledger(work, database, create=True)
    if json:
        say(to_json({**key_record(record, record.created_at), "key": key}))
        return
    say(key)
    say(
        f"Created key {record.id} with scope {', '.join(record.scopes)}. Save it now: it cannot be shown again. "
        f"Clients read it from the variable STATEWRIGHT_API_KEY.",
        file=sys.stderr,
    )


def list_keys(
    workspace: WorkspaceOption = "default",
    json: JsonOption = False,
    *,
    database: ServerDatabaseOptions,
) -> None:
    """List the API keys of a workspace, newest first. The keys themselves are not stored."""

    async def work(ledger: Ledger) -> tuple[list[ApiKey], datetime]:
        records = await keys.list_keys(ledger, (await find_workspace(ledger, workspace)).id)
        return records, clock_of(ledger).now()

    records, now = run_on_ledger(work, database)
    print_list(
        records,
        {
            Column("KEY", keep_words=True): lambda key: key.id,
            Column("NAME", keep_words=True): lambda key: key.name,
            Column("PREFIX"): lambda key: f"{key.prefix}...",
            Column("STATUS", keep_words=True): lambda key: key_status(key, now),
            Column("SCOPES", keep_words=True): lambda key: ", ".join(key.scopes),
            Column("CREATED", keep_words=True): lambda key: format_instant(key.created_at),
        },
        as_json=json,
        to_data=lambda key: key_record(key, now),
        if_empty=f"Workspace {workspace!r} has no keys. Create one with: statewright keys create NAME",
    )


def revoke_key(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The id of the key, as listed by `keys ls`.")],
    workspace: WorkspaceOption = "default",
    *,
    database: ServerDatabaseOptions,
) -> None:
    """Revoke an API key. Running servers reject it within seconds."""

    async def work(ledger: Ledger) -> ApiKey:
        owner = await find_workspace(ledger, workspace)
        return await keys.revoke_key(ledger, owner.id, key, clock_of(ledger).now())

    say(f"Revoked {run_on_ledger(work, database).id}.")


def key_status(key: ApiKey, now: datetime) -> str:
    """Return the status of a key: active, expired or revoked."""
    if key.revoked_at is not None:
        return "revoked"
    has_expired = key.expires_at is not None and key.expires_at <= now
    return "expired" if has_expired else "active"


def key_record(key: ApiKey, now: datetime) -> dict[str, object]:
    """Return the data of a key, without the key itself."""
    names = ("id", "name", "prefix", "scopes", "requests_per_minute", "expires_at", "revoked_at", "created_at")
    return {"status": key_status(key, now), **{name: getattr(key, name) for name in names}}


# -- workspaces


def create_workspace(
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
    new = workspaces.NewWorkspace(
        slug=slug,
        name=name,
        max_running=max_running,
        starts_per_minute=starts_per_minute,
        retention_days=retention_days,
    )
    workspace = run_on_ledger(
        lambda ledger: workspaces.create_workspace(ledger, new, clock_of(ledger).now()), database, create=True
    )
    say(
        f"Created workspace {workspace.slug}. "
        f"Create a key for it with: statewright keys create NAME --workspace {workspace.slug}"
    )


def list_workspaces(json: JsonOption = False, *, database: ServerDatabaseOptions) -> None:
    """List the workspaces with their limits."""
    print_list(
        run_on_ledger(workspaces.list_workspaces, database),
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


def show_spending(json: JsonOption = False, *, database: ServerDatabaseOptions) -> None:
    """Show today's spending of each workspace, with the limits in the project file."""
    print_list(
        run_on_ledger(_report_spending, database),
        {
            Column("SLUG", keep_words=True): lambda report: report["slug"],
            Column("DAY", keep_words=True): lambda report: report["day"],
            Column("REQUESTS", right=True): lambda report: report["requests"],
            Column("TOKENS", right=True): lambda report: report["tokens"],
            Column("COST", right=True): lambda report: f"${report['cost']:.4f}",
            Column("LIMITS"): _format_limits,
        },
        as_json=json,
    )


async def _report_spending(ledger: Ledger) -> list[dict[str, Any]]:
    tracker = Spending(ledger, clock_of(ledger), build_spending_limits(load_project(Path.cwd())))
    reports: list[dict[str, Any]] = []
    for workspace in await workspaces.list_workspaces(ledger):
        report = await tracker.report(workspace.id)
        spent = {**asdict(report.spent), "tokens": report.spent.tokens, "ends_at": report.spent.ends_at}
        limits = asdict(report.limits) if report.limits is not None else None
        reports.append({"slug": workspace.slug, **spent, "limits": limits, "reached": report.reached})
    return reports


def _format_limits(report: Mapping[str, Any]) -> str:
    """Return the spending limits of a workspace on one line, with the one that has been reached marked."""
    limits: Mapping[str, float | None] = report["limits"] or {}
    return ", ".join(
        f"{name} {limit:.10g}{' (reached)' if name == report['reached'] else ''}"
        for name, limit in limits.items()
        if limit is not None
    )


# -- the database of the server


def run_on_ledger(work: Callable[[Ledger], Awaitable[T]], database: DatabaseOptions, *, create: bool = False) -> T:
    """Call `work` with the ledger of a server and return its result; by default that of the current project.

    Raises UsageError if the database does not exist, unless `create` is true.
    """

    async def prepare_and_work(ledger: Ledger) -> T:
        await workspaces.ensure_default_workspace(ledger, clock_of(ledger).now())
        return await work(ledger)

    location = resolve_location(load_project(Path.cwd()), database)
    if not create:
        check_is_database(location.database, database)
    with open_storage(location) as (_, ledger, _store):
        return asyncio.run(prepare_and_work(ledger))


async def find_workspace(ledger: Ledger, name: str) -> Workspace:
    """Return a workspace by its slug or id. Raises UsageError that suggests similar slugs."""
    by_slug = await aresolve(ledger.find(Workspace, where(slug=name), limit=1))
    workspace = by_slug[0] if by_slug else await aresolve(ledger.get(Workspace, name))
    if workspace is None:
        slugs = [existing.slug for existing in await workspaces.list_workspaces(ledger)]
        raise UsageError(f"Workspace {name!r} does not exist. {suggestion(name, slugs, noun='Workspaces')}")
    return workspace

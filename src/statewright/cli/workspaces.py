"""`statewright workspaces`: the worlds of a server that never see each other, in its database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewright.cli.options import DatabaseOption, JsonOption, KeyOption
from statewright.cli.printing import say

if TYPE_CHECKING:
    from statewright.runs import Ledger, Workspace

workspaces = typer.Typer(name="workspaces", help="Create and list the workspaces of a server.", no_args_is_help=True)


@workspaces.command()
def create(
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="Lowercase letters, digits and hyphens.")],
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="A name for people.")] = "",
    max_running: Annotated[
        int | None, typer.Option("--max-running", metavar="N", min=1, help="The most runs that execute at once.")
    ] = None,
    starts_per_minute: Annotated[
        int | None,
        typer.Option("--starts-per-minute", metavar="N", min=1, help="The most runs that may start in a minute."),
    ] = None,
    retention_days: Annotated[
        int | None,
        typer.Option("--retention-days", metavar="N", min=1, help="Delete runs N days after they have ended."),
    ] = None,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Create a workspace."""
    from statewright.cli.records import in_records
    from statewright.clock import SystemClock
    from statewright.service.access.workspaces import NewWorkspace, create_workspace

    new = NewWorkspace(
        slug=slug,
        name=name,
        max_running=max_running,
        starts_per_minute=starts_per_minute,
        retention_days=retention_days,
    )

    async def work(ledger: Ledger) -> Workspace:
        return await create_workspace(ledger, new, SystemClock().now())

    made = in_records(work, database, key_file, make=True)
    say(
        f"Created workspace {made.slug}. Create a key for it with: statewright keys create NAME --workspace {made.slug}"
    )


@workspaces.command()
def ls(json: JsonOption = False, database: DatabaseOption = None, key_file: KeyOption = None) -> None:
    """List the workspaces, with their limits."""
    from dataclasses import asdict

    from statewright.cli.records import in_records
    from statewright.cli.show import as_json
    from statewright.cli.table import Column, moment, print_table
    from statewright.service.access.workspaces import list_workspaces

    found = in_records(list_workspaces, database, key_file)
    if json:
        say(as_json([asdict(one) for one in found]))
        return
    limits = {"max_running": "RUNNING", "starts_per_minute": "STARTS/MIN", "retention_days": "DAYS KEPT"}
    columns = [Column("SLUG", whole=True), Column("NAME"), *(Column(one, right=True) for one in limits.values())]
    rows = [
        (one.slug, one.name, *(getattr(one, limit) or "" for limit in limits), moment(one.created_at)) for one in found
    ]
    print_table([*columns, Column("CREATED", whole=True)], rows)


@workspaces.command()
def spending(json: JsonOption = False, database: DatabaseOption = None, key_file: KeyOption = None) -> None:
    """Show what the workspaces have spent today, with the limits of the project."""
    from statewright.cli.records import in_records
    from statewright.cli.show import as_json
    from statewright.cli.table import Column, print_table

    found = in_records(_spending, database, key_file)
    if json:
        say(as_json(found))
        return
    columns = [Column("SLUG", whole=True), Column("DAY", whole=True)]
    columns += [Column(name, right=True) for name in ("REQUESTS", "TOKENS", "COST")]
    rows = [
        (one["slug"], one["day"], one["requests"], one["tokens"], f"${one['cost']:.4f}", _limits_line(one))
        for one in found
    ]
    print_table([*columns, Column("LIMITS")], rows)


async def _spending(ledger: Ledger) -> list[dict[str, Any]]:
    """What each workspace has spent today, and may, by their slugs."""
    from dataclasses import asdict

    from statewright.cli.serving import spending_limits
    from statewright.clock import SystemClock
    from statewright.project import load_project
    from statewright.service.access.spending import Spending
    from statewright.service.access.workspaces import list_workspaces

    known = Spending(ledger, SystemClock(), spending_limits(load_project(Path.cwd())))
    found: list[dict[str, Any]] = []
    for workspace in await list_workspaces(ledger):
        report = await known.report(workspace.id)
        told = {**asdict(report.spent), "tokens": report.spent.tokens, "ends_at": report.spent.ends_at}
        limits = asdict(report.limits) if report.limits is not None else None
        found.append({"slug": workspace.slug, **told, "limits": limits, "reached": report.reached})
    return found


def _limits_line(told: Mapping[str, Any]) -> str:
    """The limits of a workspace on one line, with what is used up."""
    limits: Mapping[str, float | None] = told["limits"] or {}
    return ", ".join(
        f"{name} {most:.10g}{' (used up)' if name == told['reached'] else ''}"
        for name, most in limits.items()
        if most is not None
    )

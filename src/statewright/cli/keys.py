"""`statewright keys`: who may call a server. They work on its database, so that the first key can be made."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.options import DatabaseOption, JsonOption, KeyOption
from statewright.cli.printing import say

if TYPE_CHECKING:
    from datetime import datetime

    from statewright.runs import ApiKey, Ledger

keys = typer.Typer(name="keys", help="Create, list and revoke the API keys of a server.", no_args_is_help=True)
WorkspaceOption = Annotated[str, typer.Option("--workspace", metavar="SLUG", help="The workspace of the keys.")]


@keys.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for people: who uses the key, or what for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="What it allows, e.g. runs:read. Repeatable. Default: admin, which allows everything.",
        ),
    ] = None,
    workspace: WorkspaceOption = "default",
    days: Annotated[int | None, typer.Option("--days", metavar="N", min=1, help="Expire after N days.")] = None,
    rate: Annotated[int | None, typer.Option("--rate", metavar="N", min=1, help="Allow N requests per minute.")] = None,
    json: JsonOption = False,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Create an API key. It is printed once: only its hash is kept."""
    from statewright.cli.records import in_records, workspace_named
    from statewright.clock import SystemClock
    from statewright.service.access import create_key

    async def work(ledger: Ledger) -> tuple[ApiKey, str]:
        now = SystemClock().now()
        home = await workspace_named(ledger, workspace)
        ends = now + timedelta(days=days) if days is not None else None
        return await create_key(
            ledger, home.id, name, scope or ["admin"], now=now, requests_per_minute=rate, expires_at=ends
        )

    record, key = in_records(work, database, key_file, make=True)
    if json:
        from statewright.cli.show import as_json

        say(as_json({**shown(record), "key": key}))
        return
    say(key)
    say(
        f"The key {record.id} is shown only this once. It allows {', '.join(record.scopes)}. "
        f"Clients take it from the variable STATEWRIGHT_API_KEY.",
        file=sys.stderr,
    )


@keys.command()
def ls(
    workspace: WorkspaceOption = "default",
    json: JsonOption = False,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """List the API keys of a workspace, newest first. The keys themselves are not stored."""
    from statewright.cli.records import in_records, workspace_named
    from statewright.cli.show import as_json
    from statewright.cli.table import Column, moment, print_table
    from statewright.service.access import list_keys

    async def work(ledger: Ledger) -> list[ApiKey]:
        return await list_keys(ledger, (await workspace_named(ledger, workspace)).id)

    found = in_records(work, database, key_file)
    if json:
        say(as_json([shown(one) for one in found]))
    elif found:
        titles = ("KEY", "NAME", "BEGINS", "STANDS")
        columns = [*(Column(title, whole=True) for title in titles), Column("SCOPES"), Column("CREATED", whole=True)]
        rows = [
            (one.id, one.name, f"{one.prefix}...", standing(one), ", ".join(one.scopes), moment(one.created_at))
            for one in found
        ]
        print_table(columns, rows)
    else:
        say(f"Workspace {workspace!r} has no keys. Create one with: statewright keys create NAME")


@keys.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The id of the key, as `keys ls` lists it.")],
    workspace: WorkspaceOption = "default",
    database: DatabaseOption = None,
    key_file: KeyOption = None,
) -> None:
    """Revoke an API key. Servers refuse it within seconds."""
    from statewright.cli.records import in_records, workspace_named
    from statewright.clock import SystemClock
    from statewright.service.access import revoke_key

    async def work(ledger: Ledger) -> ApiKey:
        home = await workspace_named(ledger, workspace)
        return await revoke_key(ledger, home.id, key, SystemClock().now())

    say(f"Revoked {in_records(work, database, key_file).id}.")


def standing(key: ApiKey, now: datetime | None = None) -> str:
    """Whether a key opens anything."""
    from statewright.clock import SystemClock

    if key.revoked_at is not None:
        return "revoked"
    is_over = key.expires_at is not None and key.expires_at <= (now or SystemClock().now())
    return "expired" if is_over else "active"


def shown(key: ApiKey) -> dict[str, object]:
    """What programs are told of a key."""
    names = ("id", "name", "prefix", "scopes", "requests_per_minute", "expires_at", "revoked_at", "created_at")
    return {"status": standing(key), **{name: getattr(key, name) for name in names}}

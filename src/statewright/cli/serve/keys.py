"""`statewright keys`: manage API keys, directly in the database, so that the first key can be created."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Annotated

import typer

from statewright.cli.console.options import JsonOption, ServerDatabaseOptions
from statewright.cli.console.printing import say
from statewright.cli.console.table import Column, format_instant, print_list
from statewright.cli.console.values import to_json
from statewright.cli.serve.workspaces import find_workspace, run_on_ledger
from statewright.clock import SystemClock
from statewright.runs import ApiKey, Ledger
from statewright.service.access import create_key, list_keys, revoke_key

WorkspaceOption = Annotated[str, typer.Option("--workspace", metavar="SLUG", help="The workspace of the keys.")]


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A display name: the user or the purpose of the key.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="A permission, e.g. runs:read. Repeatable. Default: admin, which allows everything.",
        ),
    ] = None,
    workspace: WorkspaceOption = "default",
    days: Annotated[int | None, typer.Option("--days", metavar="N", min=1, help="Expire after N days.")] = None,
    rate: Annotated[int | None, typer.Option("--rate", metavar="N", min=1, help="Allow N requests per minute.")] = None,
    json: JsonOption = False,
    *,
    database: ServerDatabaseOptions,
) -> None:
    """Create an API key. It is shown once; only its hash is stored."""

    async def work(ledger: Ledger) -> tuple[ApiKey, str]:
        now = SystemClock().now()
        owner = await find_workspace(ledger, workspace)
        expires_at = now + timedelta(days=days) if days is not None else None
        return await create_key(
            ledger, owner.id, name, scope or ["admin"], now=now, requests_per_minute=rate, expires_at=expires_at
        )

    record, key = run_on_ledger(work, database, create=True)
    if json:
        say(to_json({**key_record(record), "key": key}))
        return
    say(key)
    say(
        f"The key {record.id} is shown only once. It allows {', '.join(record.scopes)}. "
        f"Clients read it from the variable STATEWRIGHT_API_KEY.",
        file=sys.stderr,
    )


def ls(
    workspace: WorkspaceOption = "default",
    json: JsonOption = False,
    *,
    database: ServerDatabaseOptions,
) -> None:
    """List the API keys of a workspace, newest first. The keys themselves are not stored."""

    async def work(ledger: Ledger) -> list[ApiKey]:
        return await list_keys(ledger, (await find_workspace(ledger, workspace)).id)

    print_list(
        run_on_ledger(work, database),
        {
            Column("KEY", keep_words=True): lambda key: key.id,
            Column("NAME", keep_words=True): lambda key: key.name,
            Column("PREFIX"): lambda key: f"{key.prefix}...",
            Column("STATUS", keep_words=True): key_status,
            Column("SCOPES", keep_words=True): lambda key: ", ".join(key.scopes),
            Column("CREATED", keep_words=True): lambda key: format_instant(key.created_at),
        },
        as_json=json,
        to_data=key_record,
        if_empty=f"Workspace {workspace!r} has no keys. Create one with: statewright keys create NAME",
    )


def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The id of the key, as `keys ls` lists it.")],
    workspace: WorkspaceOption = "default",
    *,
    database: ServerDatabaseOptions,
) -> None:
    """Revoke an API key. Servers reject it within seconds."""

    async def work(ledger: Ledger) -> ApiKey:
        owner = await find_workspace(ledger, workspace)
        return await revoke_key(ledger, owner.id, key, SystemClock().now())

    say(f"Revoked {run_on_ledger(work, database).id}.")


def key_status(key: ApiKey, now: datetime | None = None) -> str:
    """Return the status of a key: active, expired or revoked."""
    if key.revoked_at is not None:
        return "revoked"
    is_over = key.expires_at is not None and key.expires_at <= (now or SystemClock().now())
    return "expired" if is_over else "active"


def key_record(key: ApiKey) -> dict[str, object]:
    """Return a key as data, without the key itself."""
    names = ("id", "name", "prefix", "scopes", "requests_per_minute", "expires_at", "revoked_at", "created_at")
    return {"status": key_status(key), **{name: getattr(key, name) for name in names}}

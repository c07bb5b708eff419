"""Direct access to the records of a service, for administration without a running server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from statewright.clock import SystemClock
from statewright.runs import Ledger, Workspace, where

if TYPE_CHECKING:
    from statewright.cli.serve.server import ServerLocation

T = TypeVar("T")


def run_on_ledger(
    work: Callable[[Ledger], Awaitable[T]], database: str | None, key_file: Path | None, *, make: bool = False
) -> T:
    """Call `work` with the ledger and return its result. Raises UsageError without a database, unless `make` is set.

    The default database is the one of the project's server.
    """
    from statewright.cli.db.database import check_is_database
    from statewright.cli.serve.server import open_storage
    from statewright.service.access.workspaces import ensure_default_workspace

    async def working(ledger: Ledger) -> T:
        await ensure_default_workspace(ledger, SystemClock().now())
        return await work(ledger)

    location = _place(database, key_file)
    if not make:
        check_is_database(location.database)
    with open_storage(location) as (_, ledger, _store):
        return asyncio.run(working(ledger))


def _place(database: str | None, key_file: Path | None) -> ServerLocation:
    from statewright.cli.serve.server import resolve_location
    from statewright.project import load_project

    return resolve_location(load_project(Path.cwd()), None, None, database, key_file)


async def find_workspace(ledger: Ledger, name: str) -> Workspace:
    """Return a workspace by its slug or id. Raises UsageError with similar names."""
    from statewright.async_futures import aresolve
    from statewright.cli.console.failure import UsageError
    from statewright.errors import suggestion
    from statewright.service.access.workspaces import list_workspaces

    by_slug = await aresolve(ledger.find(Workspace, where(slug=name), limit=1))
    workspace = by_slug[0] if by_slug else await aresolve(ledger.get(Workspace, name))
    if workspace is None:
        slugs = [known_workspace.slug for known_workspace in await list_workspaces(ledger)]
        raise UsageError(f"There is no workspace {name!r}. {suggestion(name, slugs, noun='Workspaces')}")
    return workspace

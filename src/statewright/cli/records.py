"""The records of a service, reached in its database: for what must be done before a server can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from statewright.clock import SystemClock
from statewright.runs import Ledger, Workspace, where

if TYPE_CHECKING:
    from statewright.cli.serving import Place

T = TypeVar("T")


def in_records(
    work: Callable[[Ledger], Awaitable[T]], database: str | None, key_file: Path | None, *, make: bool = False
) -> T:
    """What some work on the records gives. Raises WrongUse if there is no database, unless one is to be made.

    It is the one that the project's server uses, if the command line names no other.
    """
    from statewright.cli.database import check_is_ours
    from statewright.cli.serving import opened_views
    from statewright.service.access.workspaces import ensure_default_workspace

    async def working(ledger: Ledger) -> T:
        await ensure_default_workspace(ledger, SystemClock().now())
        return await work(ledger)

    place = _place(database, key_file)
    if not make:
        check_is_ours(place.database)
    with opened_views(place) as (_, ledger, _store):
        return asyncio.run(working(ledger))


def _place(database: str | None, key_file: Path | None) -> Place:
    from statewright.cli.serving import place_for
    from statewright.project import load_project

    return place_for(load_project(Path.cwd()), None, None, database, key_file)


async def workspace_named(ledger: Ledger, named: str) -> Workspace:
    """A workspace by its slug or its id. Raises WrongUse, which knows near misses."""
    from statewright.async_futures import aresolve
    from statewright.cli.failure import WrongUse
    from statewright.errors import suggestion
    from statewright.service.access.workspaces import list_workspaces

    by_slug = await aresolve(ledger.find(Workspace, where(slug=named), limit=1))
    found = by_slug[0] if by_slug else await aresolve(ledger.get(Workspace, named))
    if found is None:
        known = [one.slug for one in await list_workspaces(ledger)]
        raise WrongUse(f"There is no workspace {named!r}. {suggestion(named, known, noun='Workspaces')}")
    return found

"""The records of workspaces, and their limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.errors import DuplicateRecord, InvalidRequest, NotFound, RequestConflict
from statewright.ids import new_checkpoint_id
from statewright.runs import DEFAULT_WORKSPACE, Insert, Ledger, Order, Update, Workspace
from statewright.service.context.validation import validate_field_names, validate_limit, validate_string

_MAX_SLUG_LENGTH: Final = 63
"""In characters: the maximum of a label in a host name."""
_LIMITS: Final = ("max_running", "starts_per_minute", "retention_days")
_FIELDS: Final = ("name", *_LIMITS)
_SLUG: Final = re.compile(r"[a-z0-9-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkspace:
    """A workspace to create."""

    slug: str
    """1 to 63 lowercase letters, digits and hyphens. A slug is unique and never changes."""
    name: str = ""
    max_running: int | None = None
    """Maximum number of runs that are claimed by workers at the same time."""
    starts_per_minute: int | None = None
    """Maximum number of runs started per minute."""
    retention_days: int | None = None
    """Days for which ended runs are kept; None to keep them forever."""


async def create_workspace(ledger: Ledger, new: NewWorkspace, now: datetime) -> Workspace:
    """Create a workspace. Raises InvalidRequest, and RequestConflict for a slug that is already in use."""
    slug = _validate_slug(new.slug)
    values = _validate_fields({name: getattr(new, name) for name in _FIELDS})
    workspace = Workspace(id=f"ws_{new_checkpoint_id()}", slug=slug, created_at=now, **values)
    try:
        await aresolve(ledger.write([Insert(workspace)]))
    except DuplicateRecord:
        raise RequestConflict(f"Workspace {slug!r} already exists. Choose another slug.") from None
    return workspace


async def ensure_default_workspace(ledger: Ledger, now: datetime) -> Workspace:
    """Return the default workspace, creating it if it does not exist."""
    if await aresolve(ledger.get(Workspace, DEFAULT_WORKSPACE)) is None:
        workspace = Workspace(id=DEFAULT_WORKSPACE, slug=DEFAULT_WORKSPACE, name="Default", created_at=now)
        with suppress(DuplicateRecord):  # another process has created it concurrently
            await aresolve(ledger.write([Insert(workspace)]))
    return await get_workspace(ledger, DEFAULT_WORKSPACE)


async def get_workspace(ledger: Ledger, workspace_id: str) -> Workspace:
    """Return a workspace. Raises NotFound."""
    workspace: Workspace | None = await aresolve(ledger.get(Workspace, workspace_id))
    if workspace is None:
        raise NotFound(f"Workspace {workspace_id!r} does not exist. List the workspaces to see their ids.")
    return workspace


async def list_workspaces(ledger: Ledger, *, limit: int | None = None, offset: int = 0) -> list[Workspace]:
    """Return all workspaces, sorted by slug."""
    return list(await aresolve(ledger.find(Workspace, order=Order("slug"), limit=limit, offset=offset)))


async def count_workspaces(ledger: Ledger) -> int:
    """Return the number of workspaces."""
    return await aresolve(ledger.count(Workspace))


async def change_workspace(ledger: Ledger, workspace_id: str, changes: Mapping[str, Any]) -> Workspace:
    """Change the name or the limits of a workspace. Raises InvalidRequest and NotFound."""
    validate_field_names(changes, _FIELDS, "A workspace")
    values = _validate_fields(changes)
    workspace = await get_workspace(ledger, workspace_id)
    if values:
        await aresolve(ledger.write([Update(Workspace, workspace_id, values)]))
    return replace(workspace, **values)


def _validate_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Validate a workspace's name and limits, as far as `values` has them, and return them."""
    valid: dict[str, Any] = {
        name: validate_limit(values[name], f"The workspace's {name}") for name in _LIMITS if name in values
    }
    if "name" in values:
        name = values["name"]
        valid["name"] = validate_string(name, "The name of a workspace") if name != "" else ""
    return valid


def _validate_slug(slug: Any) -> str:
    if not isinstance(slug, str) or len(slug) > _MAX_SLUG_LENGTH or not _SLUG.fullmatch(slug):
        raise InvalidRequest(
            f"A workspace cannot have the slug {str(slug)[:100]!r}. Use 1 to {_MAX_SLUG_LENGTH} lowercase letters, "
            f"digits and hyphens, such as 'sales-eu'."
        )
    return slug

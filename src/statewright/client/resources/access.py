"""Keys and workspaces, with their costs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import TypedDict, Unpack

from statewright.api.access import Key, NewKey, NewWorkspace, Spending, Workspace
from statewright.api.runs import CostSummary
from statewright.client.call import Call, delete, get, in_camel, patch, path_of, post, without_none
from statewright.client.send import Page, page_of
from statewright.client.sync_async import F, IteratingMethod, Namespace, request


class Keys(Namespace[F]):
    """Keys of the workspace."""

    @request
    def create(
        self,
        name: str,
        scopes: Sequence[str] = ("admin",),
        *,
        requests_per_minute: int | None = None,
        expires_at: datetime | None = None,
    ) -> Call[NewKey]:
        """Create a key. The secret is not shown again. Its scopes are limited to those of the calling key."""
        limits = {"requests_per_minute": requests_per_minute, "expires_at": expires_at}
        body = {"name": name, "scopes": list(scopes), **without_none(limits)}
        return post(path_of("api-keys"), NewKey.read_answer, in_camel(body))

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Key]]:
        """Return a page of the keys, the newest first, without the secrets."""
        return page_of(path_of("api-keys"), Key.from_json, page=page, page_size=page_size)

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Key]:
        """Iterate over all keys, the newest first."""
        return self._all(path_of("api-keys"), Key.from_json)

    @request
    def revoke(self, key_id: str) -> Call[Key]:
        """Revoke a key."""
        return delete(path_of("api-keys", key_id), Key.read_answer)


class WorkspaceLimits(TypedDict, total=False):
    """Name and limits of a workspace; None removes a limit."""

    name: str
    max_running: int | None
    starts_per_minute: int | None
    retention_days: int | None


class Workspaces(Namespace[F]):
    """Workspaces. All but `current` and `spending` need the token of the operator: `Client(admin_token=...)`."""

    @request
    def create(self, slug: str, **limits: Unpack[WorkspaceLimits]) -> Call[NewWorkspace]:
        """Create a workspace, with its first key, whose secret is not shown again."""
        body = in_camel({"slug": slug, **without_none(limits)})
        return post(path_of("workspaces"), NewWorkspace.read_answer, body, as_operator=True)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Workspace]]:
        """Return a page of the workspaces."""
        path = path_of("workspaces")
        return page_of(path, Workspace.from_json, page=page, page_size=page_size, as_operator=True)

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Workspace]:
        """Iterate over all workspaces."""
        return self._all(path_of("workspaces"), Workspace.from_json, as_operator=True)

    @request
    def current(self) -> Call[Workspace]:
        """Return the workspace of the key."""
        return get(path_of("workspaces", "current"), Workspace.read_answer)

    @request
    def spending(self) -> Call[Spending]:
        """Return today's spending of the workspace of the key, and its limits."""
        return get(path_of("workspaces", "current", "spending"), Spending.read_answer)

    @request
    def change(self, workspace_id: str, **changes: Unpack[WorkspaceLimits]) -> Call[Workspace]:
        """Change the limits of a workspace; None removes a limit."""
        path = path_of("workspaces", workspace_id)
        return patch(path, Workspace.read_answer, in_camel(changes), as_operator=True)


class Costs(Namespace[F]):
    """Costs of model calls."""

    @request
    def summary(self, start: datetime | None = None, end: datetime | None = None) -> Call[CostSummary]:
        """Return the costs of the workspace from one instant until before another."""
        return get(path_of("cost", "summary"), CostSummary.read_answer, {"from": start, "to": end})

"""API keys, workspaces and costs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Literal, TypedDict, Unpack

from statewright.api.access import Key, NewKey, NewWorkspace, Spending, Workspace
from statewright.api.runs import CostSummary, DailyCost
from statewright.client.call import Call, api_path, delete, get, patch, post, to_camel_case
from statewright.client.send import Page, get_page
from statewright.client.sync_async import F, IteratingMethod, Namespace, request
from statewright.data.mappings import without_none


class Keys(Namespace[F]):
    """API keys of the workspace."""

    @request
    def create(
        self,
        name: str,
        scopes: Sequence[str] = ("admin",),
        *,
        requests_per_minute: int | None = None,
        expires_at: datetime | None = None,
    ) -> Call[NewKey]:
        """Create a key. Its scopes must be among the scopes of the client's own key. The key is not shown again."""
        limits = {"requests_per_minute": requests_per_minute, "expires_at": expires_at}
        body = {"name": name, "scopes": list(scopes), **without_none(limits)}
        return post(api_path("api-keys"), NewKey.from_response, to_camel_case(body))

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Key]]:
        """Return a page of the records of keys, the newest first. They do not contain the keys themselves."""
        return get_page(api_path("api-keys"), Key.from_json, page=page, page_size=page_size)

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Key]:
        """Iterate over all keys, the newest first."""
        return self._iter_all(api_path("api-keys"), Key.from_json)

    @request
    def revoke(self, key_id: str) -> Call[Key]:
        """Revoke a key."""
        return delete(api_path("api-keys", key_id), Key.from_response)


class WorkspaceLimits(TypedDict, total=False):
    """Name and limits of a workspace; None removes a limit."""

    name: str
    max_running: int | None
    starts_per_minute: int | None
    retention_days: int | None


class Workspaces(Namespace[F]):
    """Workspaces. All methods except `current` and `spending` need the admin token: `Client(admin_token=...)`."""

    @request
    def create(self, slug: str, **limits: Unpack[WorkspaceLimits]) -> Call[NewWorkspace]:
        """Create a workspace and its first key. The key is not shown again."""
        body = to_camel_case({"slug": slug, **without_none(limits)})
        return post(api_path("workspaces"), NewWorkspace.from_response, body, as_operator=True)

    @request
    def list(self, *, page: int = 1, page_size: int = 20) -> Call[Page[Workspace]]:
        """Return a page of the workspaces."""
        path = api_path("workspaces")
        return get_page(path, Workspace.from_json, page=page, page_size=page_size, as_operator=True)

    @IteratingMethod
    def iterate(self) -> AsyncGenerator[Workspace]:
        """Iterate over all workspaces."""
        return self._iter_all(api_path("workspaces"), Workspace.from_json, as_operator=True)

    @request
    def current(self) -> Call[Workspace]:
        """Return the workspace of the client's key."""
        return get(api_path("workspaces", "current"), Workspace.from_response)

    @request
    def spending(self) -> Call[Spending]:
        """Return today's spending of the current workspace, and its limits."""
        return get(api_path("workspaces", "current", "spending"), Spending.from_response)

    @request
    def change(self, workspace_id: str, **changes: Unpack[WorkspaceLimits]) -> Call[Workspace]:
        """Change the name or limits of a workspace; None removes a limit."""
        path = api_path("workspaces", workspace_id)
        return patch(path, Workspace.from_response, to_camel_case(changes), as_operator=True)


class Costs(Namespace[F]):
    """Costs of model calls."""

    @request
    def summary(self, start: datetime | None = None, end: datetime | None = None) -> Call[CostSummary]:
        """Return the costs of the workspace between two instants; `end` is exclusive."""
        return get(api_path("cost", "summary"), CostSummary.from_response, {"from": start, "to": end})

    @request
    def by_day(
        self, start: datetime, end: datetime, by: Literal["model", "graph"] = "model"
    ) -> Call[Sequence[DailyCost]]:
        """Return the costs of each day in UTC, by model or by graph; `end` is exclusive."""
        return get(api_path("cost", "by-day"), DailyCost.read_all, {"from": start, "to": end, "by": by})

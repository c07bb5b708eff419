"""Workspaces: unique slugs, and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from statewright.errors import InvalidRequest, NotFound, RequestConflict
from statewright.runs import DEFAULT_WORKSPACE, Ledger, Workspace
from statewright.service.access.workspaces import (
    NewWorkspace,
    change_workspace,
    count_workspaces,
    create_workspace,
    ensure_default_workspace,
    get_workspace,
    list_workspaces,
)


def create(ledger: Ledger, now: datetime, slug: Any = "sales", **values: Any) -> Workspace:
    return asyncio.run(create_workspace(ledger, NewWorkspace(slug=slug, **values), now))


def test_a_created_workspace_is_found(ledger: Ledger, now: datetime) -> None:
    made = create(ledger, now, name="Sales", max_running=5, starts_per_minute=60, retention_days=30)
    assert asyncio.run(get_workspace(ledger, made.id)) == made
    assert (made.slug, made.name, made.max_running, made.created_at) == ("sales", "Sales", 5, now)


def test_slugs_are_unique(ledger: Ledger, now: datetime) -> None:
    create(ledger, now)
    with pytest.raises(RequestConflict, match="'sales' already"):
        create(ledger, now)


@pytest.mark.parametrize("slug", ["a", "a-b", "9", "-", "x" * 63])
def test_valid_slugs(ledger: Ledger, now: datetime, slug: str) -> None:
    assert create(ledger, now, slug).slug == slug


@pytest.mark.parametrize("slug", ["", "A", "a b", "a_b", "ä", "a\n", "x" * 64, "x" * 100_000, None, 5, "a/b", "a."])
def test_invalid_slugs(ledger: Ledger, now: datetime, slug: Any) -> None:
    with pytest.raises(InvalidRequest, match="lowercase letters") as caught:
        create(ledger, now, slug)
    assert len(str(caught.value)) < 300


def test_workspaces_are_listed_by_slug(ledger: Ledger, now: datetime) -> None:
    for slug in ("b", "c", "a"):
        create(ledger, now, slug)
    assert [workspace.slug for workspace in asyncio.run(list_workspaces(ledger))] == ["a", "b", "c"]
    assert [workspace.slug for workspace in asyncio.run(list_workspaces(ledger, limit=1, offset=2))] == ["c"]
    assert asyncio.run(count_workspaces(ledger)) == 3


def test_missing_records_are_not_found(ledger: Ledger) -> None:
    for call in (get_workspace(ledger, "ws_none"), change_workspace(ledger, "ws_none", {"name": "x"})):
        with pytest.raises(NotFound, match="ws_none"):
            asyncio.run(call)


def test_limits_are_changed_and_removed(ledger: Ledger, now: datetime) -> None:
    made = create(ledger, now, max_running=5)
    changed = asyncio.run(change_workspace(ledger, made.id, {"max_running": None, "retention_days": 7}))
    assert changed == replace(made, max_running=None, retention_days=7)
    assert asyncio.run(get_workspace(ledger, made.id)) == changed
    assert asyncio.run(change_workspace(ledger, made.id, {})) == changed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_running": 0}, "max_running must be a whole number"),
        ({"starts_per_minute": -1}, "starts_per_minute"),
        ({"retention_days": 1.5}, "retention_days"),
        ({"retention_days": True}, "retention_days"),
        ({"name": "\x00"}, "unprintable"),
        ({"slug": "other"}, "no field 'slug'"),
        ({"max_runing": 1}, "Did you mean 'max_running'"),
    ],
)
def test_an_invalid_change_changes_nothing(
    ledger: Ledger, now: datetime, changes: Mapping[str, Any], message: str
) -> None:
    made = create(ledger, now)
    with pytest.raises(InvalidRequest) as caught:
        asyncio.run(change_workspace(ledger, made.id, changes))
    assert message in str(caught.value)
    assert asyncio.run(get_workspace(ledger, made.id)) == made


def test_the_default_workspace_is_created_once(ledger: Ledger, now: datetime) -> None:
    first = asyncio.run(ensure_default_workspace(ledger, now))
    asyncio.run(change_workspace(ledger, DEFAULT_WORKSPACE, {"max_running": 3}))
    again = asyncio.run(ensure_default_workspace(ledger, now))
    assert (first.id, first.slug) == ("default", "default")
    assert again == replace(first, max_running=3)


def test_the_default_workspace_can_be_created_concurrently(ledger: Ledger, now: datetime) -> None:
    async def all_at_once() -> list[Workspace]:
        return list(await asyncio.gather(*(ensure_default_workspace(ledger, now) for _ in range(5))))

    assert {item.id for item in asyncio.run(all_at_once())} == {DEFAULT_WORKSPACE}
    assert asyncio.run(count_workspaces(ledger)) == 1

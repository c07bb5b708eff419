"""Starts are limited per workspace, and changed limits take effect soon."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from statewright.errors import TooManyRequests
from statewright.runs import InMemoryLedger, Insert, Update, Workspace
from statewright.service.access.rates import CACHE_TIME, RateLimiter, StartLimits

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_starts_are_limited_and_a_change_takes_effect_after_a_while():
    async def run() -> None:
        ledger = InMemoryLedger()
        ledger.write([Insert(Workspace(id="w", slug="w", starts_per_minute=1, created_at=NOW))])
        limits = StartLimits(ledger, RateLimiter())
        await limits.check("w", NOW)
        with pytest.raises(TooManyRequests):
            await limits.check("w", NOW)
        ledger.write([Update(Workspace, "w", {"starts_per_minute": None})])
        with pytest.raises(TooManyRequests):
            await limits.check("w", NOW)
        await limits.check("w", NOW + CACHE_TIME)

    asyncio.run(run())


def test_workspaces_without_limits_and_unknown_ones_are_not_counted():
    async def run() -> None:
        limits = StartLimits(InMemoryLedger(), RateLimiter())
        for number in range(3000):
            await limits.check(f"w{number % 1500}", NOW + timedelta(seconds=number))

    asyncio.run(run())

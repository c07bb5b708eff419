"""The costs of a workspace."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import serving


def test_costs_are_summed_for_a_period():
    async def run() -> None:
        async with serving() as api:
            query = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00+01:00"}
            summary = await api.get("/cost/summary", params=query)
            assert (summary["start"], summary["end"]) == ("2026-01-01T00:00:00Z", "2026-01-31T23:00:00Z")
            assert summary["total"] == {"calls": 0, "costUsd": 0, "inputTokens": 0, "outputTokens": 0}
            for params in (
                {"from": "2026-02-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
                {"from": "yesterday"},
                {"to": "1767225600"},
                {"to": "2026-01-01"},
            ):
                await api.get("/cost/summary", 400, params=params)

    asyncio.run(run())

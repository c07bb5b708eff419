"""Filters of runs in a query; a run must match all of them."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.server.serving import serving


@pytest.mark.parametrize(
    "query",
    [
        "status=pending&status=RUNNING",
        "status=pending,waiting",
        "status= Pending ",
        "tag=a&tag=b",
        "metadata.a=1&metadata.b=2",
        "metadata[a]=",
        "createdFrom=2026-01-01T00:00:00Z&createdTo=2026-01-02T00:00:00%2B02:00",
        "idempotencyKey=%F0%9F%98%80",
        "graph=&threadId=&parentId=&definitionId=",
        "metadata.%00=%00&tag=%00",
        "tag=%ED%A0%80",
    ],
)
def test_valid_queries_are_accepted(query: str):
    async def run() -> None:
        async with serving() as api:
            assert await api.get(f"/workflow-runs?{query}") == []

    asyncio.run(run())


def test_an_unknown_status_is_refused_with_a_suggestion():
    async def run() -> None:
        async with serving() as api:
            error = await api.get("/workflow-runs?status=complete", 400)
            assert "Did you mean 'completed'" in error["message"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "query",
    [
        "&".join(f"tag=t{number}" for number in range(2000)),
        "&".join(f"metadata.n{number}=1" for number in range(2000)),
        "&".join([*(f"tag=t{number}" for number in range(30)), *(f"metadata.n{number}=1" for number in range(30))]),
    ],
    ids=["tags", "metadata", "both"],
)
def test_too_many_labels_are_refused(query: str):
    async def run() -> None:
        async with serving() as api:
            assert (await api.get(f"/workflow-runs?{query}", 400))["code"] == "VALIDATION_ERROR"

    asyncio.run(run())

"""Schedules over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.server.serving import LEAD, serving

DAILY: dict[str, Any] = {"name": "daily", "cron": "0 9 * * *", "timezone": "Europe/Berlin", "graph": "lead"}


def test_a_schedule_is_created_changed_paused_and_removed():
    async def run() -> None:
        async with serving() as api:
            await api.define(LEAD)
            schedule = await api.post("/schedules", DAILY | {"input": {"a": 1}, "tags": ["x"]}, 201)
            path = f"/schedules/{schedule['id']}"
            assert (schedule["input"], schedule["overlap"], schedule["catchUp"], schedule["tags"]) == (
                {"a": 1},
                "skip",
                "last",
                ["x"],
            )
            times = (await api.get(f"{path}/preview?count=3"))["times"]
            assert (len(times), times[0]) == (3, schedule["nextAt"])
            changed = await api.patch(path, {"cron": "0 10 * * *", "input": None})
            assert (changed["cron"], changed["input"], changed["name"]) == ("0 10 * * *", None, "daily")
            assert changed["nextAt"] != schedule["nextAt"]
            assert (await api.post(f"{path}/pause"))["paused"] is True
            assert (await api.post(f"{path}/resume"))["nextAt"] == changed["nextAt"]
            assert [entry["id"] for entry in await api.get("/schedules")] == [schedule["id"]]
            await api.delete(path)
            await api.get(path, 404)

    asyncio.run(run())


def test_invalid_schedules_are_refused():
    async def run() -> None:
        async with serving() as api:
            await api.define(LEAD)
            wrong: list[dict[str, Any]] = [
                {},
                {"name": "a", "graph": "lead"},
                DAILY | {"cron": "61 * * * *"},
                DAILY | {"cron": "* * *"},
                DAILY | {"cron": "0 0 31 2 *"},
                DAILY | {"timezone": "Mars/Olympus"},
                DAILY | {"timezone": "../../etc/passwd"},
                DAILY | {"overlap": "panic"},
                DAILY | {"definitionId": "x"},
                DAILY | {"every": 5},
            ]
            for body in wrong:
                error = await api.post("/schedules", body, 400)
                assert error["code"] == "VALIDATION_ERROR", body
            schedule = await api.post("/schedules", DAILY, 201)
            assert (await api.post("/schedules", DAILY, 409))["code"] == "CONFLICT"
            await api.patch(f"/schedules/{schedule['id']}", {"cron": "never"}, 400)
            await api.patch(f"/schedules/{schedule['id']}", {"paused": True}, 400)
            await api.get(f"/schedules/{schedule['id']}/preview?count=101", 400)

    asyncio.run(run())


def test_the_times_of_an_expression_are_previewed_before_it_is_stored() -> None:
    async def run() -> None:
        async with serving() as api:
            await api.define(LEAD)
            body = {"cron": "0 9 * * *", "timezone": "Europe/Berlin", "count": 5}
            times = (await api.post("/schedules/preview", body))["times"]
            schedule = await api.post("/schedules", {**DAILY, "cron": body["cron"], "timezone": body["timezone"]}, 201)
            assert (len(times), times[0]) == (5, schedule["nextAt"])
            assert len(await api.get("/schedules")) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"cron": "0 25 * * *"}, 400, "cron"),
        ({"cron": "0 9 * *"}, 400, "cron"),
        ({"cron": "0 9 30 2 *"}, 400, "cron"),
        ({"timezone": "Europe/Berlinn"}, 400, "timezone"),
        ({}, 409, "name"),
    ],
)
def test_an_error_of_a_schedule_names_the_field(changes: dict[str, Any], status: int, field: str) -> None:
    async def run() -> None:
        async with serving() as api:
            await api.define(LEAD)
            await api.post("/schedules", DAILY, 201)
            error = await api.post("/schedules", {**DAILY, **changes}, status)
            assert error["details"]["field"] == field

    asyncio.run(run())

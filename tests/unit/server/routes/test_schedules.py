"""Schedules over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.server.serving import LEAD, serving

DAILY: dict[str, Any] = {"name": "daily", "cron": "0 9 * * *", "timezone": "Europe/Berlin", "graph": "lead"}


def test_a_schedule_is_made_changed_paused_and_removed():
    async def run() -> None:
        async with serving() as api:
            await api.define(LEAD)
            made = await api.post("/schedules", DAILY | {"input": {"a": 1}, "tags": ["x"]}, 201)
            path = f"/schedules/{made['id']}"
            assert (made["input"], made["overlap"], made["catchUp"], made["tags"]) == ({"a": 1}, "skip", "last", ["x"])
            times = (await api.get(f"{path}/preview?count=3"))["times"]
            assert (len(times), times[0]) == (3, made["nextAt"])
            changed = await api.patch(path, {"cron": "0 10 * * *", "input": None})
            assert (changed["cron"], changed["input"], changed["name"]) == ("0 10 * * *", None, "daily")
            assert changed["nextAt"] != made["nextAt"]
            assert (await api.post(f"{path}/pause"))["paused"] is True
            assert (await api.post(f"{path}/resume"))["nextAt"] == changed["nextAt"]
            assert [one["id"] for one in await api.get("/schedules")] == [made["id"]]
            await api.delete(path)
            await api.get(path, 404)

    asyncio.run(run())


def test_wrong_schedules_are_refused():
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
            made = await api.post("/schedules", DAILY, 201)
            assert (await api.post("/schedules", DAILY, 409))["code"] == "CONFLICT"
            await api.patch(f"/schedules/{made['id']}", {"cron": "never"}, 400)
            await api.patch(f"/schedules/{made['id']}", {"paused": True}, 400)
            await api.get(f"/schedules/{made['id']}/preview?count=101", 400)

    asyncio.run(run())

"""Triggers over HTTP."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import LEAD, serving


def test_a_trigger_is_created_changed_and_removed():
    async def run() -> None:
        async with serving() as api:
            await api.define(LEAD)
            trigger = await api.post("/triggers", {"event": "paid", "graph": "lead", "match": {"order.total": 5}}, 201)
            path = f"/triggers/{trigger['id']}"
            assert (trigger["active"], trigger["match"]) == (True, {"order.total": 5})
            changed = await api.patch(path, {"active": False, "match": {}})
            assert (changed["active"], changed["match"], changed["event"]) == (False, {}, "paid")
            assert (await api.post("/events", {"name": "paid"}))["started"] == []
            assert [entry["id"] for entry in await api.get("/triggers")] == [trigger["id"]]
            assert await api.get(path) == changed
            await api.delete(path)
            await api.get(path, 404)

    asyncio.run(run())


def test_invalid_triggers_are_refused():
    async def run() -> None:
        async with serving() as api:
            for body in (
                {},
                {"event": "", "graph": "lead"},
                {"event": "a"},
                {"event": "a", "graph": "lead", "definitionId": "x"},
                {"event": "a", "graph": "lead", "match": []},
                {"event": "a", "graph": "lead", "match": {"a..b": 1}},
                {"event": "a", "graph": "lead", "match": {str(n): n for n in range(21)}},
            ):
                await api.post("/triggers", body, 400)
            await api.post("/triggers", {"event": "a", "definitionId": "def_none"}, 404)

    asyncio.run(run())

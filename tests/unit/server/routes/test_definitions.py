"""Stored definitions, which never change, and served graphs."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.server.serving import LEAD, serving

PATH = "/workflow-definitions"


def test_a_version_is_stored_once_and_never_changes():
    async def run() -> None:
        async with serving() as api:
            stored = await api.post(PATH, LEAD, 201)
            assert (stored["name"], stored["version"], stored["kind"]) == ("lead", "1", "steps")
            assert (await api.post(PATH, LEAD, 200))["id"] == stored["id"]
            error = await api.post(PATH, {**LEAD, "description": "another"}, 409)
            assert (error["code"], error["details"]) == ("CONFLICT", {"definitionId": stored["id"]})
            second = await api.post(PATH, {**LEAD, "version": "2"}, 201)
            listed = await api.get(PATH)
            assert [entry["id"] for entry in listed] == [second["id"], stored["id"]]
            assert "definition" not in listed[0]
            assert (await api.get(f"{PATH}/{stored['id']}"))["definition"]["steps"][0]["handler"] == "enrich"
            await api.get(f"{PATH}/def_none", 404)

    asyncio.run(run())


def test_the_versions_of_a_workflow_are_listed_by_its_name_with_those_of_the_project():
    async def run() -> None:
        async with serving() as api:
            first = await api.post(PATH, LEAD, 201)
            second = await api.post(PATH, {**LEAD, "version": "2"}, 201)
            await api.define({**LEAD, "name": "another"})
            listed = await api.get(f"{PATH}?name=lead")
            assert [(entry["id"], entry["version"]) for entry in listed] == [(second["id"], "2"), (first["id"], "1")]
            (served,) = await api.get(f"{PATH}?name=greeter")
            (graph,) = [entry for entry in await api.get("/graphs") if entry["name"] == "greeter"]
            assert (served["id"], served["kind"]) == (graph["definitionId"], "graph")
            assert await api.get(f"{PATH}?name=nobody") == []
            started = await api.post("/workflow-runs?wait=10", {"definitionId": first["id"], "input": {}}, 201)
            assert (started["definitionId"], started["status"]) == (first["id"], "completed")

    asyncio.run(run())


STEP = {"type": "task", "name": "a", "handler": "enrich"}
INVALID: dict[str, Any] = {
    "nothing": {},
    "no steps": {"name": "a", "version": "1", "steps": []},
    "unknown type": {"name": "a", "version": "1", "steps": [{"type": "tsak", "name": "x"}]},
    "unknown handler": {"name": "a", "version": "1", "steps": [{**STEP, "handler": "enrch"}]},
    "a module": {"name": "a", "version": "1", "steps": [{**STEP, "handler": "os:system"}]},
    "duplicate name": {"name": "a", "version": "1", "steps": [STEP, STEP]},
    "unknown target": {"name": "a", "version": "1", "steps": [{**STEP, "next": "b"}]},
    "long name": {"name": "a" * 201, "version": "1", "steps": [STEP]},
}


def test_invalid_definitions_are_refused_with_all_problems():
    async def run() -> None:
        async with serving() as api:
            for name, body in INVALID.items():
                response = await api.call("POST", PATH, json=body)
                assert response.status_code == 400, (name, response.text)
                error = response.json()["error"]
                assert error["code"] == "VALIDATION_ERROR", name
                assert error["details"]["problems"], name
            for body in ([], "x", 1):
                await api.post(PATH, body, 400)
            assert await api.get(PATH) == []

    asyncio.run(run())


def test_similar_names_are_suggested():
    async def run() -> None:
        async with serving() as api:
            error = await api.post(PATH, INVALID["unknown handler"], 400)
            assert "enrich" in str(error["details"]["problems"])

    asyncio.run(run())


def test_graphs_are_listed_and_drawn():
    async def run() -> None:
        async with serving() as api:
            await api.define(LEAD)
            assert [(entry["name"], entry["kind"]) for entry in await api.get("/graphs")] == [
                ("greeter", "graph"),
                ("lead", "steps"),
            ]
            graph = await api.get("/graphs/lead")
            assert "enrich-lead" in graph["drawing"]
            assert "send-email" in [node["id"] for node in graph["nodes"]]
            assert {"source": "enrich-lead", "target": "send-email"}.items() <= next(
                edge for edge in graph["edges"] if edge["source"] == "enrich-lead"
            ).items()
            assert graph["inputSchema"] is not None
            await api.define({**LEAD, "name": "sales/eu"})
            assert (await api.get("/graphs/sales/eu"))["name"] == "sales/eu"
            error = await api.get("/graphs/laed", 404)
            assert "lead" in error["message"]

    asyncio.run(run())

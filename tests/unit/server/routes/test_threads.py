"""Threads over HTTP: states, history, differences, forks and updates."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest
from tests.unit.server.serving import LEAD, PAYMENT, catalog, serving, two_workspaces

from statewright import StateGraph
from statewright.service import Service


def test_state_history_and_differences_are_read():
    async def run() -> None:
        async with serving() as api:
            started = await api.start(LEAD)
            path = f"/threads/{started['threadId']}"
            head = await api.get(f"{path}/state")
            assert head["values"] == started["output"]
            history = await api.get(f"{path}/history")
            assert history[0]["checkpointId"] == head["checkpointId"]
            ids = {saved["checkpointId"] for saved in history}
            assert all(saved["parentCheckpointId"] in ids for saved in history[:-1])
            assert len(await api.get(f"{path}/history?limit=1")) == 1
            before = history[1]["checkpointId"]
            earlier = await api.get(f"{path}/state?checkpointId={before}")
            assert (earlier["next"], "messageId" in earlier["values"]) == (["send-email"], False)
            diff = await api.get(f"{path}/diff", params={"before": before, "after": head["checkpointId"]})
            assert diff["messageId"]["after"] == "msg_789"
            for wrong in ("/diff", "/history?limit=0", "/history?limit=x"):
                await api.get(path + wrong, 400)
            await api.get(f"{path}/state?checkpointId=none", 404)
            await api.get("/threads/none/state", 404)

    asyncio.run(run())


def test_checkpoints_are_listed_as_a_tree_without_values() -> None:
    async def run() -> None:
        async with two_workspaces() as (one, two):
            started = await one.start(LEAD)
            path = f"/threads/{started['threadId']}"
            first = (await one.get(f"{path}/history"))[1]["checkpointId"]
            await one.post(f"{path}/fork", {"checkpointId": first, "branch": "other"}, 201)
            history = await one.get(f"{path}/history")
            listed = await one.get(f"{path}/checkpoints")
            names = ("checkpointId", "parentCheckpointId", "branch", "next", "createdAt")
            assert [[each[name] for name in names] for each in listed] == [
                [saved[name] for name in names] for saved in history
            ]
            facts = [(each["source"], each["nodes"], each["runId"] == started["id"]) for each in listed]
            assert facts[1:] == [
                ("loop", ["send-email"], True),
                ("loop", ["enrich-lead"], True),
                ("input", ["__start__"], True),
            ]
            assert facts[0][0] == "fork"
            assert [each["step"] for each in listed[1:]] == [2, 1, 0]
            assert "values" not in listed[0]
            pages = await one.get(f"{path}/checkpoints?limit=2")
            pages += await one.get(f"{path}/checkpoints?limit=2&before={pages[-1]['checkpointId']}")
            assert pages == listed
            branch = await one.get(f"{path}/checkpoints?branch=other")
            assert [each["checkpointId"] for each in branch] == [
                saved["checkpointId"] for saved in await one.get(f"{path}/history?branch=other")
            ]
            await one.get(f"{path}/checkpoints?before=none", 404)
            await one.get(f"{path}/checkpoints?limit=0", 400)
            await two.get(f"{path}/checkpoints", 404)
            key = await one.post("/api-keys", {"name": "other", "scopes": ["runs:read"]}, 201)
            await one.get(f"{path}/checkpoints", 403, headers={"x-api-key": key["key"]})

    asyncio.run(run())


def test_a_thread_is_forked_at_a_checkpoint():
    async def run() -> None:
        async with serving() as api:
            started = await api.start(LEAD)
            path = f"/threads/{started['threadId']}"
            first = (await api.get(f"{path}/history"))[1]["checkpointId"]
            forked = await api.post(f"{path}/fork", {"checkpointId": first, "branch": "other"}, 201)
            assert (forked["branch"], forked["next"]) == ("other", ["send-email"])
            assert await api.get(f"{path}/history?branch=other")
            await api.post(f"{path}/fork", {"checkpointId": "none"}, 404)
            for wrong in ({}, {"checkpointId": first, "branch": "a b"}, {"checkpointId": first, "branch": ""}):
                await api.post(f"{path}/fork", wrong, 400)

    asyncio.run(run())


def test_invalid_updates_change_nothing():
    async def run() -> None:
        async with serving() as api:
            started = await api.start(PAYMENT)
            path = f"/threads/{started['threadId']}/state"
            before = await api.get(path)
            await api.post(path, {}, 400)
            await api.post(path, {"values": 5, "asNode": "enrich-lead"}, 400)
            await api.post(path, {"values": {}, "asNode": "nobody"}, 400)
            assert (await api.get(path))["checkpointId"] == before["checkpointId"]

    asyncio.run(run())


def test_values_that_a_reducer_refuses_are_answered_with_400():
    async def run() -> None:
        async with serving() as api:
            body = {"graph": "greeter", "input": {"messages": [{"role": "user", "content": "hi"}]}}
            started = await api.post("/workflow-runs?wait=10", body, 201)
            path = f"/threads/{started['threadId']}/state"
            before = await api.get(path)
            for values in ({"messages": 5}, {"messages": [5]}, {"messages": [{"role": "user"}]}):
                error = await api.post(path, {"values": values}, 400)
                assert error["code"] == "VALIDATION_ERROR", values
            assert (await api.get(path))["checkpointId"] == before["checkpointId"]

    asyncio.run(run())


class Basket(TypedDict, total=False):
    items: Annotated[list[str], operator.add]
    prices: Annotated[list[int], lambda old, new: old + new]
    total: int


def test_fields_with_reducers_can_be_overwritten() -> None:
    async def run() -> None:
        served = catalog()
        graph = StateGraph(Basket).add_node("fill", lambda _: {"items": ["a", "b"], "prices": [1], "total": 1})
        served.serve("basket", graph.add_edge("__start__", "fill"))
        async with serving(service=Service(served)) as api:
            started = await api.post("/workflow-runs?wait=10", {"graph": "basket"}, 201)
            path = f"/threads/{started['threadId']}/state"
            added = await api.post(path, {"values": {"items": ["c"], "total": 2}})
            assert added["values"] == {"items": ["a", "b", "c"], "prices": [1], "total": 2}
            body = {"values": {"items": ["d"], "prices": [5], "total": 3}, "overwrite": ["items", "total"]}
            replaced = await api.post(path, body)
            assert replaced["values"] == {"items": ["d"], "prices": [1, 5], "total": 3}
            difference = await api.get(
                f"/threads/{started['threadId']}/diff",
                params={"before": added["checkpointId"], "after": replaced["checkpointId"]},
            )
            assert difference["items"] == {"before": ["a", "b", "c"], "after": ["d"]}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"values": {"items": 5}, "overwrite": ["items"]}, ["values.items"]),
        (
            {"values": {"items": [5], "prices": ["x"]}, "overwrite": ["items", "prices"]},
            ["values.items", "values.prices"],
        ),
        ({"values": {"prices": [1]}, "overwrite": ["prices", "items"]}, ["overwrite.items"]),
        ({"values": {"itmes": []}, "overwrite": ["itmes"]}, ["values.itmes"]),
        ({"values": {"items": {"__overwrite__": "x"}}}, ["values.items"]),
        ({"values": {"prices": "x"}}, ["values.prices"]),
        ({"values": 5, "overwrite": ["items"]}, ["overwrite"]),
    ],
)
def test_a_refused_edit_names_its_fields_and_changes_nothing(body: dict[str, Any], paths: list[str]) -> None:
    async def run() -> None:
        served = catalog()
        graph = StateGraph(Basket).add_node("fill", lambda _: {"items": ["a"], "prices": [1], "total": 1})
        served.serve("basket", graph.add_edge("__start__", "fill"))
        async with serving(service=Service(served)) as api:
            started = await api.post("/workflow-runs?wait=10", {"graph": "basket"}, 201)
            path = f"/threads/{started['threadId']}/state"
            before = await api.get(path)
            error = await api.post(path, body, 400)
            assert sorted(problem["path"] for problem in error["details"]["problems"]) == paths
            assert await api.get(path) == before

    asyncio.run(run())


def test_the_messages_of_a_conversation_are_replaced() -> None:
    async def run() -> None:
        async with serving() as api:
            started = await api.post("/workflow-runs?wait=10", {"graph": "greeter", "input": {"messages": "hi"}}, 201)
            path = f"/threads/{started['threadId']}/state"
            for value in (5, [5], [{"role": "user"}]):
                error = await api.post(path, {"values": {"messages": value}, "overwrite": ["messages"]}, 400)
                assert [problem["path"] for problem in error["details"]["problems"]] == ["values.messages"]
            messages = [{"role": "user", "content": "good day"}]
            state = await api.post(path, {"values": {"messages": messages}, "overwrite": ["messages"]})
            assert [message["content"] for message in state["values"]["messages"]] == ["good day"]
            await api.post(path, {"values": {}, "overwrite": "messages"}, 400)

    asyncio.run(run())


def test_threads_are_listed_with_their_newest_runs():
    async def run() -> None:
        async with two_workspaces() as (api, other):
            for thread in ("order-1", "order-2", "other"):
                await api.start(LEAD, threadId=thread)
            newest = await api.start(LEAD, threadId="order-1")
            await other.start(LEAD, threadId="order-3")
            listed = await api.get("/threads?prefix=order-")
            assert [(thread["threadId"], thread["runCount"]) for thread in listed] == [("order-1", 2), ("order-2", 1)]
            assert (listed[0]["runId"], listed[0]["graph"]) == (newest["id"], "lead")
            assert listed[0]["status"] == "completed"
            assert len(await api.get("/threads?limit=1")) == 1
            await api.get("/threads?limit=101", 400)

    asyncio.run(run())

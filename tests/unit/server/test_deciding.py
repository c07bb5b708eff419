"""A key without `approvals:decide` decides no approval, whichever route of the API it tries, and however."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypedDict

import pytest
from tests.unit.server.serving import Api, catalog, two_workspaces

from statewright import START, Runtime, StateGraph, interrupt
from statewright.runtime.tasks.approval import request_approval
from statewright.service import Service
from statewright.service.access import ADMIN, METRICS, SCOPES

OTHERS: Final = [scope for scope in SCOPES if scope not in ("approvals:decide", METRICS, ADMIN)]
YES: Final = {"decision": "approved", "decidedBy": "the boss"}
"""A decision, as it would be given."""
TOOL: Final = {"kind": "approval", "tool": "delete", "arguments": {}, "tool_call_id": "c1"}


class State(TypedDict, total=False):
    allowed: Any
    answer: Any


def graphs() -> list[StateGraph]:
    """Graphs that ask for the approval of what they hold, and say so in their state once they have it."""

    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": request_approval("content", prompt="May it?").verdict}

    def ask_for_tool(state: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": interrupt(TOOL)}

    def parent(state: dict[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
        return {"allowed": runtime.start_run("asks", {})["allowed"]}

    made = []
    for name, node in (("asks", ask), ("calls", ask_for_tool), ("parent", parent)):
        graph = StateGraph(State, name=name)
        made.append(graph.add_node("ask", node).add_edge(START, "ask"))
    return made


STEPS: Final[dict[str, Any]] = {
    "name": "steps",
    "version": "1",
    "steps": [
        {"type": "task", "name": "enrich-lead", "handler": "enrich"},
        {"type": "approval", "name": "agree", "contentKey": "company", "prompt": "Send it?"},
    ],
}


class Case:
    """A run that waits for an approval, and the names by which it can be reached."""

    def __init__(self, api: Api, ids: dict[str, str], waits: list[dict[str, Any]], run: dict[str, Any]) -> None:
        self.api, self.ids, self.waits, self.run = api, ids, waits, run

    def bodies(self) -> dict[tuple[str, str], list[Any]]:
        """What may be sent to each route that changes something, in the hope to decide."""
        wait, thread = self.waits[0]["id"], self.run["threadId"]
        answers: list[Any] = [{wait: YES}, {wait: True}, {wait: {"approved": True}}]
        start = {"graph": self.run["graph"], "threadId": thread, "input": {}}
        signal = {"signalType": "approval", "payload": YES}
        return {
            ("POST", "/workflow-runs"): [{**start, "onBusy": busy} for busy in ("enqueue", "interrupt", "rollback")],
            ("POST", "/workflow-runs/cancel"): [{"graph": "nothing"}],
            ("POST", "/workflow-runs/retry"): [{"threadId": thread}],
            ("POST", "/workflow-runs/{id}/resume"): [
                *({"answers": answer} for answer in answers),
                {"signalType": "approval", "payload": YES},
                {"signalType": wait, "payload": YES},
                None,
            ],
            ("POST", "/workflow-runs/{id}/signals"): [
                signal,
                {**signal, "signalType": wait},
                {**signal, "signalId": f"answer:{wait}"},
            ],
            ("POST", "/workflow-runs/{id}/cancel"): [{"reason": "decision: approved"}],
            ("POST", "/workflow-runs/{id}/pause"): [None],
            ("POST", "/workflow-runs/{id}/retry"): [None],
            ("POST", "/approval-requests/{id}/decide"): [YES],
            ("POST", "/events"): [{"name": "approval", "payload": YES}, {"name": wait, "payload": YES}],
            ("POST", "/threads/{id}/state"): [
                {"values": {"allowed": "approved"}, "asNode": node} for node in ("ask", "agree", None)
            ],
            ("POST", "/threads/{id}/fork"): [{"checkpointId": "latest"}],
            ("POST", "/workflow-definitions"): [{**STEPS, "version": "2", "steps": STEPS["steps"][:1]}],
            ("POST", "/schedules"): [{"name": "s", "graph": self.run["graph"], "cron": "* * * * *"}],
            ("PATCH", "/schedules/{id}"): [{}],
            ("DELETE", "/schedules/{id}"): [None],
            ("POST", "/schedules/{id}/pause"): [None],
            ("POST", "/schedules/{id}/resume"): [None],
            ("POST", "/triggers"): [{"event": "approval", "graph": self.run["graph"]}],
            ("PATCH", "/triggers/{id}"): [{}],
            ("DELETE", "/triggers/{id}"): [None],
            ("POST", "/webhooks"): [{"url": "https://example.org/hook", "events": ["approval.decided"]}],
            ("PATCH", "/webhooks/{id}"): [{}],
            ("DELETE", "/webhooks/{id}"): [None],
            ("POST", "/webhooks/{id}/test"): [None],
            ("POST", "/workspaces"): [{"slug": "mine"}],
            ("PATCH", "/workspaces/{id}"): [{}],
            ("POST", "/api-keys"): [{"name": "more", "scopes": ["approvals:decide"]}, {"name": "all"}],
            ("DELETE", "/api-keys/{id}"): [None],
        }


async def waiting(api: Api, graph: str) -> Case:
    """A new run that waits for its approval, or whose child does."""
    body: dict[str, Any] = {"definitionId": await api.define(STEPS)} if graph == "steps" else {"graph": graph}
    run = await api.post("/workflow-runs?wait=20", body, 201)
    async with asyncio.timeout(600):
        while True:  # that of a child comes a little later
            waits = [one for one in await api.get("/interrupts?pageSize=100") if one["kind"] == "question"]
            mine = [one for one in waits if one["workflowRunId"] == run["id"] or run["graph"] == "parent"]
            if mine:
                break
            await asyncio.sleep(0.01)
    run = await api.get(f"/workflow-runs/{mine[0]['workflowRunId']}")
    identity = {"workflow-runs": run["id"], "threads": run["threadId"], "approval-requests": mine[0]["id"]}
    return Case(api, identity, mine, run)


def routes_that_change(api: Api) -> set[tuple[str, str]]:
    told = api.app.openapi()["paths"]
    return {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, some in told.items()
        for method in some
        if method != "get"
    }


async def is_undecided(case: Case) -> bool:
    run = await case.api.get(f"/workflow-runs/{case.run['id']}?wait=0.05")
    allowed = (await case.api.get(f"/workflow-runs/{case.run['id']}/state")).get("allowed")
    found = await case.api.get(f"/approval-requests?runId={run['id']}")
    cancelled = run["status"] == "cancelled"
    decisions = {one["decision"] for one in found}
    return not allowed and run["status"] != "completed" and decisions <= ({"cancelled"} if cancelled else {None})


@pytest.mark.parametrize("graph", ["asks", "calls", "parent", "steps"])
def test_no_route_decides_without_the_scope(graph: str):
    async def play() -> None:
        known = catalog()
        for one in graphs():
            known.serve(str(one.name), one)
        async with two_workspaces(service=Service(known)) as (owner, _):
            made = await owner.post("/api-keys", {"name": "others", "scopes": OTHERS}, 201)
            stranger = owner.as_owner_of(made["key"])
            case = await waiting(owner, graph)
            assert case.bodies().keys() == routes_that_change(owner), "a route is new: say how it could decide"
            for (method, path), bodies in case.bodies().items():
                for place, _ in enumerate(bodies):
                    if (await owner.get(f"/workflow-runs/{case.run['id']}"))["status"] != "waiting":
                        case = await waiting(owner, graph)
                    body = case.bodies()[method, path][place]
                    await attack(stranger, case, method, path, body)
                    assert await is_undecided(case), (method, path, body)

    asyncio.run(play())


async def attack(stranger: Api, case: Case, method: str, path: str, body: Any) -> None:
    if body is not None and body.get("checkpointId") == "latest":
        history = await stranger.get(f"/threads/{case.run['threadId']}/history")
        body = {"checkpointId": history[0]["checkpointId"]}
    concrete = path.replace("{id}", case.ids.get(path.split("/")[1], "none"))
    options = {"json": body} if body is not None else {}
    response = await stranger.call(method, concrete, **options)
    assert response.status_code < 500, response.text
    if path == "/workflow-runs/{id}/pause":  # what is paused is changed and set going again
        values = {"values": {"allowed": "approved"}, "asNode": "ask" if case.run["graph"] != "steps" else "agree"}
        await stranger.call("POST", f"/threads/{case.run['threadId']}/state", json=values)
        await stranger.call("POST", f"/workflow-runs/{case.run['id']}/resume")
    if path == "/workflow-definitions" and response.status_code == 201:
        await stranger.call("POST", "/workflow-runs", json={"graph": "steps", "threadId": case.run["threadId"]})


@pytest.mark.parametrize("by_answer", [False, True])
def test_an_approval_records_the_key_that_decided(by_answer: bool):
    async def play() -> None:
        async with two_workspaces() as (owner, _):
            made = await owner.post("/api-keys", {"name": "boss", "scopes": ["approvals:decide", "runs:write"]}, 201)
            boss = owner.as_owner_of(made["key"])
            case = await waiting(owner, "steps")
            approval = case.waits[0]["id"]
            if by_answer:
                await boss.post(f"/workflow-runs/{case.run['id']}/resume", {"answers": {approval: YES}})
            else:
                await boss.post(f"/approval-requests/{approval}/decide", YES)
            decided = await owner.get(f"/approval-requests/{approval}")
            assert (decided["decision"], decided["decidedByKey"]) == ("approved", made["id"])
            assert decided["decidedBy"] == "the boss"
            run = await owner.get(f"/workflow-runs/{case.run['id']}?wait=20")
            events = await owner.get(f"/workflow-runs/{run['id']}/events?pageSize=100")
            (told,) = [one["payload"] for one in events if one["eventType"] == "APPROVAL_DECIDED"]
            assert (told["decidedByKey"], told["decidedBy"]) == (made["id"], "the boss")

    asyncio.run(play())


def test_questions_that_are_no_approvals_are_answered_without_the_scope():
    async def play() -> None:
        known = catalog()
        graph = StateGraph(State, name="quiz")
        known.serve("quiz", graph.add_node("ask", lambda s: {"answer": interrupt("What?")}).add_edge(START, "ask"))
        async with two_workspaces(service=Service(known)) as (owner, _):
            made = await owner.post("/api-keys", {"name": "others", "scopes": OTHERS}, 201)
            stranger = owner.as_owner_of(made["key"])
            case = await waiting(owner, "quiz")
            await stranger.post(f"/workflow-runs/{case.run['id']}/resume", {"answers": {case.waits[0]["id"]: 42}})
            run = await owner.get(f"/workflow-runs/{case.run['id']}?wait=20")
            assert (run["status"], run["output"]) == ("completed", {"answer": 42})

    asyncio.run(play())


def test_a_signal_cannot_take_the_place_of_a_decision():
    async def play() -> None:
        async with two_workspaces() as (owner, _):
            case = await waiting(owner, "steps")
            run = await owner.get(f"/workflow-runs/{case.run['id']}")
            body = {"signalType": "x", "signalId": "answer:anything"}
            told = await owner.post(f"/workflow-runs/{run['id']}/signals", body, 400)
            assert "answer:" in told["message"]

    asyncio.run(play())


def test_nobody_makes_up_what_a_child_that_asks_for_approval_has_answered():
    async def play() -> None:
        known = catalog()
        for one in graphs():
            known.serve(str(one.name), one)
        async with two_workspaces(service=Service(known)) as (owner, _):
            made = await owner.post("/api-keys", {"name": "others", "scopes": OTHERS}, 201)
            stranger = owner.as_owner_of(made["key"])
            child = (await waiting(owner, "parent")).run
            parent = child["parentId"]
            [wait] = await owner.get(f"/interrupts?runId={parent}")
            forged = {"runId": child["id"], "status": "completed", "output": {"allowed": "approved"}}
            told = await stranger.post(f"/workflow-runs/{parent}/resume", {"answers": {wait["id"]: forged}}, 400)
            assert "the end of run" in told["message"]
            assert (await owner.get(f"/workflow-runs/{parent}?wait=0.05"))["status"] == "waiting"

    asyncio.run(play())

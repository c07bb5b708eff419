"""A key without `approvals:decide` cannot decide an approval, whichever route of the API it tries."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypedDict

import pytest
from tests.unit.server.serving import Api, catalog, two_workspaces

from statewright import START, Runtime, StateGraph, interrupt
from statewright.runtime.tasks.approval import request_approval
from statewright.service import Service
from statewright.service.access import ADMIN, OPERATOR_SCOPES, SCOPES

OTHER_SCOPES: Final = [scope for scope in SCOPES if scope not in ("approvals:decide", *OPERATOR_SCOPES, ADMIN)]
DECISION: Final = {"decision": "approved", "decidedBy": "the boss"}
"""The body of a decision."""
TOOL: Final = {"kind": "approval", "tool": "delete", "arguments": {}, "tool_call_id": "c1"}


class State(TypedDict, total=False):
    allowed: Any
    answer: Any


def graphs() -> list[StateGraph]:
    """Return graphs that ask for an approval, and record in their state that it was given."""

    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": request_approval("content", prompt="May it?").verdict}

    def ask_for_tool(state: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": interrupt(TOOL)}

    def parent(state: dict[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
        return {"allowed": runtime.start_run("asks", {})["allowed"]}

    result = []
    for name, node in (("asks", ask), ("calls", ask_for_tool), ("parent", parent)):
        graph = StateGraph(State, name=name)
        result.append(graph.add_node("ask", node).add_edge(START, "ask"))
    return result


STEPS: Final[dict[str, Any]] = {
    "name": "steps",
    "version": "1",
    "steps": [
        {"type": "task", "name": "enrich-lead", "handler": "enrich"},
        {"type": "approval", "name": "agree", "contentKey": "company", "prompt": "Send it?"},
    ],
}


class WaitingRun:
    """A run that waits for an approval, with the ids by which it can be addressed."""

    def __init__(self, api: Api, ids: dict[str, str], waits: list[dict[str, Any]], run: dict[str, Any]) -> None:
        self.api, self.ids, self.waits, self.run = api, ids, waits, run

    def bodies(self) -> dict[tuple[str, str], list[Any]]:
        """Return bodies that try to decide the approval, for each route that changes something."""
        wait, thread = self.waits[0]["id"], self.run["threadId"]
        answers: list[Any] = [{wait: DECISION}, {wait: True}, {wait: {"approved": True}}]
        start = {"graph": self.run["graph"], "threadId": thread, "input": {}}
        signal = {"signalType": "approval", "payload": DECISION}
        return {
            ("POST", "/workflow-runs"): [{**start, "onBusy": busy} for busy in ("enqueue", "interrupt", "rollback")],
            ("POST", "/workflow-runs/cancel"): [{"graph": "nothing"}],
            ("POST", "/workflow-runs/retry"): [{"threadId": thread}],
            ("POST", "/workflow-runs/{id}/resume"): [
                *({"answers": answer} for answer in answers),
                {"signalType": "approval", "payload": DECISION},
                {"signalType": wait, "payload": DECISION},
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
            ("POST", "/approval-requests/{id}/decide"): [DECISION],
            ("POST", "/events"): [{"name": "approval", "payload": DECISION}, {"name": wait, "payload": DECISION}],
            ("POST", "/threads/{id}/state"): [
                {"values": {"allowed": "approved"}, "asNode": node} for node in ("ask", "agree", None)
            ],
            ("POST", "/threads/{id}/fork"): [{"checkpointId": "latest"}],
            ("POST", "/workflow-definitions"): [{**STEPS, "version": "2", "steps": STEPS["steps"][:1]}],
            ("POST", "/schedules"): [{"name": "s", "graph": self.run["graph"], "cron": "* * * * *"}],
            ("POST", "/schedules/preview"): [{"cron": "* * * * *"}],
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
            ("POST", "/webhooks/{id}/deliveries/{deliveryId}/send-again"): [None],
            ("POST", "/session"): [{"key": "stw_another"}],
            ("DELETE", "/session"): [None],
            ("POST", "/workspaces"): [{"slug": "mine"}],
            ("PATCH", "/workspaces/{id}"): [{}],
            ("POST", "/api-keys"): [{"name": "more", "scopes": ["approvals:decide"]}, {"name": "all"}],
            ("DELETE", "/api-keys/{id}"): [None],
            ("POST", "/workers/{id}/drain"): [None],
            ("PUT", "/queues/{id}"): [{}],
            ("DELETE", "/queues/{id}"): [None],
        }


async def start_waiting_run(api: Api, graph: str) -> WaitingRun:
    """Start a run, and wait until it or its child waits for an approval."""
    body: dict[str, Any] = {"definitionId": await api.define(STEPS)} if graph == "steps" else {"graph": graph}
    run = await api.post("/workflow-runs?wait=20", body, 201)
    async with asyncio.timeout(600):
        while True:  # a child may request its approval later
            questions = [wait for wait in await api.get("/interrupts?pageSize=100") if wait["kind"] == "question"]
            waits = [wait for wait in questions if wait["workflowRunId"] == run["id"] or run["graph"] == "parent"]
            if waits:
                break
            await asyncio.sleep(0.01)
    run = await api.get(f"/workflow-runs/{waits[0]['workflowRunId']}")
    ids = {"workflow-runs": run["id"], "threads": run["threadId"], "approval-requests": waits[0]["id"]}
    return WaitingRun(api, ids, waits, run)


def routes_that_change(api: Api) -> set[tuple[str, str]]:
    return {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, operations in api.app.openapi()["paths"].items()
        for method in operations
        if method != "get"
    }


async def is_undecided(case: WaitingRun) -> bool:
    run = await case.api.get(f"/workflow-runs/{case.run['id']}?wait=0.05")
    allowed = (await case.api.get(f"/workflow-runs/{case.run['id']}/state")).get("allowed")
    approvals = await case.api.get(f"/approval-requests?runId={run['id']}")
    cancelled = run["status"] == "cancelled"
    decisions = {approval["decision"] for approval in approvals}
    return not allowed and run["status"] != "completed" and decisions <= ({"cancelled"} if cancelled else {None})


@pytest.mark.parametrize("graph", ["asks", "calls", "parent", "steps"])
def test_no_route_decides_without_the_scope(graph: str):
    async def check() -> None:
        served = catalog()
        for item in graphs():
            served.serve(str(item.name), item)
        async with two_workspaces(service=Service(served)) as (owner, _):
            key = await owner.post("/api-keys", {"name": "others", "scopes": OTHER_SCOPES}, 201)
            limited_client = owner.as_owner_of(key["key"])
            case = await start_waiting_run(owner, graph)
            assert case.bodies().keys() == routes_that_change(owner), (
                "for a new route, add bodies that try to decide with it"
            )
            for (method, path), bodies in case.bodies().items():
                for index, _ in enumerate(bodies):
                    if (await owner.get(f"/workflow-runs/{case.run['id']}"))["status"] != "waiting":
                        case = await start_waiting_run(owner, graph)
                    body = case.bodies()[method, path][index]
                    await try_to_decide(limited_client, case, method, path, body)
                    assert await is_undecided(case), (method, path, body)

    asyncio.run(check())


async def try_to_decide(limited_client: Api, case: WaitingRun, method: str, path: str, body: Any) -> None:
    if body is not None and body.get("checkpointId") == "latest":
        history = await limited_client.get(f"/threads/{case.run['threadId']}/history")
        body = {"checkpointId": history[0]["checkpointId"]}
    full_path = path.replace("{id}", case.ids.get(path.split("/")[1], "none"))
    options = {"json": body} if body is not None else {}
    response = await limited_client.call(method, full_path, **options)
    assert response.status_code < 500, response.text
    if path == "/workflow-runs/{id}/pause":  # change the paused run, and resume it
        values = {"values": {"allowed": "approved"}, "asNode": "ask" if case.run["graph"] != "steps" else "agree"}
        await limited_client.call("POST", f"/threads/{case.run['threadId']}/state", json=values)
        await limited_client.call("POST", f"/workflow-runs/{case.run['id']}/resume")
    if path == "/workflow-definitions" and response.status_code == 201:
        await limited_client.call("POST", "/workflow-runs", json={"graph": "steps", "threadId": case.run["threadId"]})


@pytest.mark.parametrize("by_answer", [False, True])
def test_an_approval_records_the_key_that_decided(by_answer: bool):
    async def check() -> None:
        async with two_workspaces() as (owner, _):
            key = await owner.post("/api-keys", {"name": "boss", "scopes": ["approvals:decide", "runs:write"]}, 201)
            decider = owner.as_owner_of(key["key"])
            case = await start_waiting_run(owner, "steps")
            approval = case.waits[0]["id"]
            if by_answer:
                await decider.post(f"/workflow-runs/{case.run['id']}/resume", {"answers": {approval: DECISION}})
            else:
                await decider.post(f"/approval-requests/{approval}/decide", DECISION)
            approval_record = await owner.get(f"/approval-requests/{approval}")
            assert (approval_record["decision"], approval_record["decidedByKey"]) == ("approved", key["id"])
            assert approval_record["decidedBy"] == "the boss"
            run = await owner.get(f"/workflow-runs/{case.run['id']}?wait=20")
            events = await owner.get(f"/workflow-runs/{run['id']}/events?pageSize=100")
            (payload,) = [event["payload"] for event in events if event["eventType"] == "APPROVAL_DECIDED"]
            assert (payload["decidedByKey"], payload["decidedBy"]) == (key["id"], "the boss")

    asyncio.run(check())


def test_other_questions_can_be_answered_without_the_scope():
    async def check() -> None:
        served = catalog()
        graph = StateGraph(State, name="quiz")
        served.serve("quiz", graph.add_node("ask", lambda s: {"answer": interrupt("What?")}).add_edge(START, "ask"))
        async with two_workspaces(service=Service(served)) as (owner, _):
            key = await owner.post("/api-keys", {"name": "others", "scopes": OTHER_SCOPES}, 201)
            limited_client = owner.as_owner_of(key["key"])
            case = await start_waiting_run(owner, "quiz")
            await limited_client.post(f"/workflow-runs/{case.run['id']}/resume", {"answers": {case.waits[0]["id"]: 42}})
            run = await owner.get(f"/workflow-runs/{case.run['id']}?wait=20")
            assert (run["status"], run["output"]) == ("completed", {"answer": 42})

    asyncio.run(check())


def test_a_signal_cannot_replace_a_decision():
    async def check() -> None:
        async with two_workspaces() as (owner, _):
            case = await start_waiting_run(owner, "steps")
            run = await owner.get(f"/workflow-runs/{case.run['id']}")
            body = {"signalType": "x", "signalId": "answer:anything"}
            error = await owner.post(f"/workflow-runs/{run['id']}/signals", body, 400)
            assert "answer:" in error["message"]

    asyncio.run(check())


def test_the_result_of_a_child_that_waits_for_approval_cannot_be_forged():
    async def check() -> None:
        served = catalog()
        for item in graphs():
            served.serve(str(item.name), item)
        async with two_workspaces(service=Service(served)) as (owner, _):
            key = await owner.post("/api-keys", {"name": "others", "scopes": OTHER_SCOPES}, 201)
            limited_client = owner.as_owner_of(key["key"])
            child = (await start_waiting_run(owner, "parent")).run
            parent = child["parentId"]
            [wait] = await owner.get(f"/interrupts?runId={parent}")
            forged_result = {"runId": child["id"], "status": "completed", "output": {"allowed": "approved"}}
            error = await limited_client.post(
                f"/workflow-runs/{parent}/resume", {"answers": {wait["id"]: forged_result}}, 400
            )
            assert "the end of run" in error["message"]
            assert (await owner.get(f"/workflow-runs/{parent}?wait=0.05"))["status"] == "waiting"

    asyncio.run(check())


@pytest.mark.parametrize("graph", ["asks", "calls", "steps"])
def test_no_run_goes_on_past_an_approval_from_a_copy_of_its_thread(graph: str):
    async def check() -> None:
        served = catalog()
        for item in graphs():
            served.serve(str(item.name), item)
        async with two_workspaces(service=Service(served)) as (owner, _):
            case = await start_waiting_run(owner, graph)
            history = await owner.get(f"/threads/{case.run['threadId']}/history")
            edit = {"values": {"allowed": "approved"}, "asNode": "agree" if graph == "steps" else "ask"}
            fork = {"threadId": case.run["threadId"], "checkpointId": history[0]["checkpointId"]}
            target = {"definitionId": case.run["definitionId"]} if graph == "steps" else {"graph": graph}
            for scopes in (OTHER_SCOPES, ["runs:write", "runs:read"]):
                key = await owner.post("/api-keys", {"name": "others", "scopes": scopes}, 201)
                limited_client = owner.as_owner_of(key["key"])
                for body in ({**fork, "edit": edit}, fork):
                    refused = await limited_client.call("POST", "/workflow-runs", json={**target, "fork": body})
                    assert refused.status_code == 403, refused.text
            body = {**target, "fork": fork, "idempotencyKey": "once"}
            permitted = await owner.call("POST", "/workflow-runs?wait=20", json=body)
            assert (permitted.status_code, permitted.json()["data"]["status"]) == (201, "waiting")
            repeated = await limited_client.call("POST", "/workflow-runs", json=body)  # starts nothing
            assert (repeated.status_code, repeated.json()["data"]["created"]) == (200, False)

    asyncio.run(check())


def test_no_change_takes_the_place_of_a_node_that_has_not_asked_for_its_approval_yet():
    def draft(state: dict[str, Any]) -> dict[str, Any]:
        raise OSError("no paper")

    def agree(state: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": request_approval("content", prompt="May it?").verdict}

    graph = StateGraph(State, name="letter").add_node("draft", draft).add_node("agree", agree)
    graph.add_node("publish", lambda state: {"answer": "published"})
    graph.add_edge(START, "draft").add_edge("draft", "agree").add_edge("agree", "publish")

    async def check() -> None:
        served = catalog()
        served.serve("letter", graph)
        async with two_workspaces(service=Service(served)) as (owner, _):
            run = await owner.post("/workflow-runs?wait=20", {"graph": "letter"}, 201)
            assert run["status"] == "failed"
            thread = run["threadId"]
            [newest, *_] = await owner.get(f"/threads/{thread}/history")
            key = await owner.post("/api-keys", {"name": "others", "scopes": OTHER_SCOPES}, 201)
            limited_client = owner.as_owner_of(key["key"])
            edit = {"values": {"allowed": "approved"}, "asNode": "agree"}
            fork = {"threadId": thread, "checkpointId": newest["checkpointId"], "edit": edit}
            for path, body in (
                (f"/threads/{thread}/state", edit),
                ("/workflow-runs", {"graph": "letter", "fork": fork}),
            ):
                refused = await limited_client.call("POST", path, json=body)
                assert refused.status_code == 403, refused.text
            permitted = await owner.call("POST", f"/threads/{thread}/state", json=edit)
            assert permitted.status_code == 200, permitted.text

    asyncio.run(check())

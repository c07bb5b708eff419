"""Runs over HTTP: started, listed, stopped and resumed, with both ledgers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.serving import BROKEN, LEAD, PAYMENT, REVIEW, catalog, serving

from statewright.service import Service

RUNS = "/workflow-runs"


@pytest.fixture(params=["memory", "sqlite"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    if request.param == "memory":
        yield Service(catalog())
        return
    from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

    with SqliteDatabase(tmp_path / "runs.db") as database:
        yield Service(catalog(), ledger=SqliteLedger(database), saver=SqliteSaver(database))


def test_a_run_is_started_and_completed(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            run_input = {"leadEmail": "jane@example.com"}
            started = await api.start(LEAD, input=run_input, tags=["vip"], metadata={"customer": "acme", "n": 3})
            assert (started["status"], started["created"]) == ("completed", True)
            assert started["output"] == {"leadName": "Jane Smith", "company": "Acme Inc", "messageId": "msg_789"}
            assert started["input"] == run_input
            details = await api.get(f"{RUNS}/{started['id']}")
            assert [step["stepName"] for step in details["stepRuns"]] == ["enrich-lead", "send-email"]
            assert {step["status"] for step in details["stepRuns"]} == {"completed"}
            assert details["stepRuns"][0]["output"] == {"found": True}
            assert (details["tags"], details["metadata"]) == (["vip"], {"customer": "acme", "n": 3})
            assert details["completedAt"] >= details["startedAt"] >= details["createdAt"]

    asyncio.run(run())


def test_a_start_without_wait_returns_at_once(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            definition_id = await api.define(PAYMENT)
            started = await api.post(RUNS, {"definitionId": definition_id}, 201)
            assert started["status"] in ("pending", "running", "waiting")
            assert started["input"] == {}

    asyncio.run(run())


def test_a_graph_is_run_by_its_name(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            body = {"graph": "greeter", "input": {"messages": [{"role": "user", "content": "hi"}]}}
            started = await api.post(f"{RUNS}?wait=10", body, 201)
            assert started["status"] == "completed", started
            assert (started["graph"], started["source"]) == ("greeter", "api")
            error = await api.post(RUNS, {"graph": "greter"}, 404)
            assert "Did you mean 'greeter'" in error["message"]

    asyncio.run(run())


def test_an_input_with_an_unknown_key_is_answered_with_400_and_starts_no_run(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            for path in (RUNS, f"{RUNS}?wait=5"):
                error = await api.post(path, {"graph": "greeter", "input": {"inptu": "hi"}}, 400)
                assert error["code"] == "VALIDATION_ERROR"
                assert "Did you mean 'input'?" in error["message"]
                assert [problem["path"] for problem in error["details"]["problems"]] == ["input.inptu"]
            daily = {"name": "daily", "cron": "0 9 * * *", "graph": "greeter", "input": {"inptu": "hi"}}
            assert "Did you mean 'input'?" in (await api.post("/schedules", daily, 400))["message"]
            assert await api.get(RUNS) == []

    asyncio.run(run())


def test_the_same_idempotency_key_returns_the_same_run(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            first = await api.start(LEAD, idempotencyKey="k-1")
            body = {"definitionId": first["definitionId"], "idempotencyKey": "k-1", "input": {"other": True}}
            for path in (RUNS, f"{RUNS}?wait=5"):
                repeated = await api.post(path, body, 200)
                assert (repeated["id"], repeated["created"], repeated["input"]) == (first["id"], False, {})
            listed = await api.get(f"{RUNS}?idempotencyKey=k-1")
            assert [entry["id"] for entry in listed] == [first["id"]]

    asyncio.run(run())


def test_concurrent_starts_with_the_same_key_create_one_run(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            body = {"definitionId": await api.define(LEAD), "idempotencyKey": "k-2"}
            responses = await asyncio.gather(*(api.call("POST", f"{RUNS}?wait=5", json=body) for _ in range(20)))
            assert sorted(response.status_code for response in responses) == [200] * 19 + [201]
            assert len({response.json()["data"]["id"] for response in responses}) == 1

    asyncio.run(run())


def test_runs_are_filtered(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            done = await api.start(LEAD, tags=["a", "b"], metadata={"customer": "acme", "size": 3})
            waiting = await api.start(PAYMENT, tags=["a"], metadata={"customer": "other"}, threadId="t-1")
            failed = await api.start(BROKEN)

            async def find_ids(query: str) -> set[str]:
                return {entry["id"] for entry in await api.get(f"{RUNS}?{query}")}

            all_ids = {done["id"], waiting["id"], failed["id"]}
            assert await find_ids("") == all_ids
            assert await find_ids("status=completed") == {done["id"]}
            assert await find_ids("status=COMPLETED&status=Failed") == {done["id"], failed["id"]}
            assert await find_ids("status=waiting,failed") == {waiting["id"], failed["id"]}
            assert await find_ids("tag=a") == {done["id"], waiting["id"]}
            assert await find_ids("tag=a&tag=b") == {done["id"]}
            assert await find_ids("metadata.customer=acme") == {done["id"]}
            assert await find_ids("metadata[customer]=other") == {waiting["id"]}
            assert await find_ids("metadata.size=3") == {done["id"]}
            assert await find_ids("threadId=t-1") == {waiting["id"]}
            assert await find_ids("graph=broken") == {failed["id"]}
            assert await find_ids(f"definitionId={done['definitionId']}&status=waiting") == set()
            assert await find_ids(f"createdFrom={waiting['createdAt']}") == {waiting["id"], failed["id"]}
            assert await find_ids(f"createdTo={waiting['createdAt']}") == {done["id"]}
            assert await find_ids("parentId=run_0") == set()

    asyncio.run(run())


def test_runs_are_listed_in_pages(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            runs = [(await api.start(LEAD))["id"] for _ in range(5)]
            first = (await api.call("GET", f"{RUNS}?pageSize=2")).json()
            assert [entry["id"] for entry in first["data"]] == [runs[4], runs[3]]
            assert first["meta"] == {"page": 1, "pageSize": 2, "total": 5, "totalPages": 3}
            last = (await api.call("GET", f"{RUNS}?pageSize=2&page=3&sort=createdAt")).json()
            assert [entry["id"] for entry in last["data"]] == [runs[4]]
            assert await api.get(f"{RUNS}?page=9") == []

    asyncio.run(run())


def test_a_signal_resumes_a_run(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            started = await api.start(PAYMENT)
            path = f"{RUNS}/{started['id']}"
            assert started["status"] == "waiting"
            error = await api.post(f"{path}/resume", {"signalType": "payment_refused"}, 409)
            assert (error["code"], error["details"]) == ("SIGNAL_MISMATCH", {"waitsFor": ["payment_confirmed"]})
            body = {"signalType": "payment_confirmed", "payload": {"amount": 5}}
            await api.post(f"{path}/resume", body)
            ended = await _wait_until_ended(api, path)
            assert (ended["status"], ended["output"]["amount"]) == ("completed", 5)
            assert (await api.post(f"{path}/resume", body, 409))["code"] == "INVALID_TRANSITION"

    asyncio.run(run())


def test_a_signal_may_arrive_early_and_twice(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            definition_id = await api.define(PAYMENT)
            started = await api.post(RUNS, {"definitionId": definition_id, "after": "2999-01-01T00:00:00Z"}, 201)
            path = f"{RUNS}/{started['id']}"
            body = {"signalType": "payment_confirmed", "payload": {"n": 1}, "signalId": "s-1"}
            for _ in range(2):
                assert (await api.post(f"{path}/signals", body))["status"] == "pending"
            await api.post(f"{path}/signals", {"signalType": "x", "payload": {"__hidden": 1}}, 400)
            assert (await api.post(f"{path}/resume", body | {"signalId": "s-2"}, 409))["code"] == "INVALID_TRANSITION"

    asyncio.run(run())


def test_questions_are_answered_by_their_ids(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            started = await api.start(REVIEW)
            (wait,) = await api.get("/interrupts")
            assert (wait["workflowRunId"], wait["kind"]) == (started["id"], "question")
            path = f"{RUNS}/{started['id']}"
            error = await api.post(f"{path}/resume", {"answers": {"nothing": 1}}, 404)
            assert error["code"] == "NOT_FOUND"
            decision = {"decision": "approved", "content": "Acme Inc", "decidedBy": "me"}
            await api.post(f"{path}/resume", {"answers": {wait["id"]: decision}})
            assert (await _wait_until_ended(api, path))["status"] == "completed"
            assert await api.get("/interrupts") == []

    asyncio.run(run())


def test_cancelling_is_final_and_idempotent(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            started = await api.start(PAYMENT)
            path = f"{RUNS}/{started['id']}"
            cancelled = await api.post(f"{path}/cancel", {"reason": "no longer wanted"})
            assert cancelled["status"] == "cancelled"
            assert (await api.post(f"{path}/cancel"))["version"] == cancelled["version"]
            for action in ("pause", "retry", "resume"):
                error = await api.post(f"{path}/{action}", status=409)
                assert error["code"] == "INVALID_TRANSITION", action

    asyncio.run(run())


def test_a_failed_run_can_be_retried(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            failed = await api.start(BROKEN)
            assert (failed["status"], failed["error"]["code"]) == ("failed", "NO_LUCK")
            path = f"{RUNS}/{failed['id']}"
            retried = await api.post(f"{path}/retry")
            assert retried["status"] in ("running", "failed")
            ended = await _wait_until_ended(api, path)
            events = [event["eventType"] for event in await api.get(f"{path}/events?pageSize=100")]
            assert ended["status"] == "failed"
            assert events.count("WORKFLOW_FAILED") == 2
            assert "WORKFLOW_RETRIED" in events

    asyncio.run(run())


def test_runs_are_cancelled_and_retried_by_a_filter(service: Service):
    async def run() -> None:
        async with serving(service=service) as api:
            tagged = [(await api.start(PAYMENT, tags=["old"]))["id"] for _ in range(3)]
            other = await api.start(PAYMENT)
            failed = await api.start(BROKEN, metadata={"batch": "7"})
            assert sorted((await api.post(f"{RUNS}/cancel", {"tags": ["old"]}))["runIds"]) == sorted(tagged)
            assert (await api.get(f"{RUNS}/{other['id']}"))["status"] == "waiting"
            retried = await api.post(f"{RUNS}/retry", {"metadata": {"batch": "7"}, "status": ["FAILED"]})
            assert retried == {"runIds": [failed["id"]]}
            for action in ("cancel", "retry"):
                error = await api.post(f"{RUNS}/{action}", {}, 400)
                assert "empty filter" in error["message"]
                await api.post(f"{RUNS}/{action}", {"tag": "old"}, 400)

    asyncio.run(run())


INVALID_BODIES: dict[str, Any] = {
    "nothing": {},
    "both": {"definitionId": "a", "graph": "b"},
    "a list": [],
    "a text": "x",
    "a number": 1,
    "null": None,
    "unknown field": {"graph": "greeter", "inptu": {}},
    "snake case": {"definition_id": "x"},
    "empty id": {"graph": ""},
    "number for a name": {"graph": 1},
    "long key": {"graph": "greeter", "idempotencyKey": "x" * 256},
    "a thread that no path can name": {"graph": "greeter", "threadId": "a/b"},
    "a thread with a line end": {"graph": "greeter", "threadId": "a\n"},
    "empty key": {"graph": "greeter", "idempotencyKey": ""},
    "on busy": {"graph": "greeter", "onBusy": "panic"},
    "naive instant": {"graph": "greeter", "after": "2026-01-01T00:00:00"},
    "instant before all": {"graph": "greeter", "after": "0001-01-01T00:00:00+14:00"},
    "instant after all": {"graph": "greeter", "after": "9999-12-31T23:59:59-14:00"},
    "instant as a number": {"graph": "greeter", "after": 1e300},
    "timeout below zero": {"graph": "greeter", "timeout": -1},
    "timeout too long": {"graph": "greeter", "timeout": 1e12},
    "timeout as text": {"graph": "greeter", "timeout": "5"},
    "timeout as boolean": {"graph": "greeter", "timeout": True},
    "limit as text": {"graph": "greeter", "concurrencyKey": "k", "concurrencyLimit": "1"},
    "limit as boolean": {"graph": "greeter", "concurrencyKey": "k", "concurrencyLimit": True},
    "instant as a text of digits": {"graph": "greeter", "after": "1700000000"},
    "tags": {"graph": "greeter", "tags": "vip"},
    "tags of numbers": {"graph": "greeter", "tags": [1]},
    "too many tags": {"graph": "greeter", "tags": [str(n) for n in range(51)]},
    "long tag": {"graph": "greeter", "tags": ["x" * 101]},
    "metadata": {"graph": "greeter", "metadata": []},
    "limit without key": {"graph": "greeter", "concurrencyLimit": 1},
    "limit of zero": {"graph": "greeter", "concurrencyKey": "k", "concurrencyLimit": 0},
    "settings": {"graph": "greeter", "settings": {"recursionLimit": 0}},
    "unknown setting": {"graph": "greeter", "settings": {"recursion_limit": 5}},
    "durability": {"graph": "greeter", "settings": {"durability": "exit"}},
}


def test_invalid_bodies_are_refused_with_the_path_of_each_problem():
    async def run() -> None:
        async with serving() as api:
            for name, body in INVALID_BODIES.items():
                response = await api.call("POST", RUNS, json=body)
                assert response.status_code == 400, (name, response.text)
                error = response.json()["error"]
                assert error["code"] == "VALIDATION_ERROR", name
                assert error["details"]["problems"], name
            assert await api.get(RUNS) == []

    asyncio.run(run())


def test_all_problems_are_reported_together():
    async def run() -> None:
        async with serving() as api:
            body = {"graph": "", "tags": ["a", 5], "timeout": "x", "settings": {"maxConcurrency": 0}}
            error = await api.post(RUNS, body, 400)
            paths = {problem["path"] for problem in error["details"]["problems"]}
            assert paths == {"body.graph", "body.tags[1]", "body.timeout", "body.settings.maxConcurrency"}

    asyncio.run(run())


HOSTILE_BODIES = {
    "invalid JSON": b"{",
    "NaN": b'{"graph": "greeter", "input": {"a": NaN}}',
    "infinite": b'{"graph": "greeter", "input": {"a": 1e999}}',
    "NUL": b'{"graph": "greeter", "input": {"a": "\\u0000"}}',
    "NUL in a name": b'{"graph": "gre\\u0000eter"}',
    "surrogate": b'{"graph": "greeter", "input": {"a": "\\ud800"}}',
    "invalid UTF-8": b'{"graph": "\xff"}',
    "deep": b'{"graph": "greeter", "input": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "twice": b'{"graph": "greeter", "graph": "lead"}',
    "digits": b'{"graph": "greeter", "input": ' + b"1" * 5000 + b"}",
    "many digits": b'{"graph": "greeter", "input": ' + b"1" * 500_000 + b"}",
}


@pytest.mark.parametrize("content_type", ["application/json", "application/problem+json; charset=utf-8"])
def test_hostile_bodies_are_refused(content_type: str):
    async def run() -> None:
        async with serving() as api:
            for name, body in HOSTILE_BODIES.items():
                response = await api.call("POST", RUNS, content=body, headers={"content-type": content_type})
                assert (response.status_code, response.json()["error"]["code"]) == (400, "VALIDATION_ERROR"), name

    asyncio.run(run())


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "a/b/c"]
)
def test_bodies_with_another_content_type_are_refused(content_type: str):
    async def run() -> None:
        async with serving() as api:
            response = await api.call(
                "POST", RUNS, content=b'{"graph": "greeter"}', headers={"content-type": content_type}
            )
            assert response.status_code == 400
            assert "content-type: application/json" in response.json()["error"]["message"]

    asyncio.run(run())


def test_an_input_with_unusual_values_is_returned_unchanged():
    async def run() -> None:
        async with serving() as api:
            run_input = {
                "big": 2**64,
                "bigger": -(2**200),
                "small": 5e-324,
                "text": "\u2028\U0001f600 \x7f",
                "": {"": []},
            }
            started = await api.start(LEAD, input=run_input)
            assert (started["status"], started["input"]) == ("completed", run_input)

    asyncio.run(run())


INVALID_QUERIES = [
    "page=0",
    "page=-1",
    "page=x",
    "page=99999999999999999999",
    "page=1e3",
    "pageSize=0",
    "pageSize=101",
    "pagesize=5",
    "sort=id",
    "sort=--createdAt",
    "status=done",
    "status=",
    "createdFrom=yesterday",
    "createdFrom=2026-01-01T00:00:00",
    "createdTo=0001-01-01T00:00:00%2B14:00",
    "metadata=x",
    "tags=a",
    "limit=5",
]


def test_invalid_queries_are_refused():
    async def run() -> None:
        async with serving() as api:
            for query in INVALID_QUERIES:
                error = await api.get(f"{RUNS}?{query}", 400)
                assert error["code"] == "VALIDATION_ERROR", query
                assert error["details"]["problems"][0]["path"].startswith("query."), query
            for wait in ("-1", "301", "x", "nan", "inf"):
                await api.post(f"{RUNS}?wait={wait}", {"graph": "greeter"}, 400)

    asyncio.run(run())


@pytest.mark.parametrize("run_id", ["nothing", "run_0", "%00", "%F0%9F%98%80", "..%2F..", "a" * 200, "%FF", "'--"])
def test_unknown_ids_are_not_found(run_id: str):
    async def run() -> None:
        async with serving() as api:
            for part in ("", "/steps", "/state", "/events", "/stream", "/llm-calls", "/logs", "/cost"):
                response = await api.call("GET", f"{RUNS}/{run_id}{part}")
                assert response.status_code == 404, (part, response.text)

    asyncio.run(run())


def test_unsupported_methods_and_unknown_paths_are_refused():
    async def run() -> None:
        async with serving() as api:
            refused = await api.call("DELETE", RUNS)
            assert (refused.status_code, refused.headers["allow"]) == (405, "GET, POST")
            assert refused.json()["error"]["code"] == "METHOD_NOT_ALLOWED"
            missing = await api.call("GET", "/workflow-run")
            assert (missing.status_code, missing.json()["error"]["code"]) == (404, "NOT_FOUND")

    asyncio.run(run())


def test_a_pending_run_cannot_be_paused_or_resumed():
    async def run() -> None:
        async with serving() as api:
            definition_id = await api.define(LEAD)
            started = await api.post(RUNS, {"definitionId": definition_id, "after": "2999-01-01T00:00:00Z"}, 201)
            path = f"{RUNS}/{started['id']}"
            assert (await api.post(f"{path}/pause", status=409))["code"] == "INVALID_TRANSITION"
            assert (await api.post(f"{path}/resume", status=409))["code"] == "INVALID_TRANSITION"

    asyncio.run(run())


async def _wait_until_ended(api: Any, path: str) -> dict[str, Any]:
    """Wait until a run has ended, and return it."""
    for _ in range(200):
        run = await api.get(path)
        if run["status"] in ("completed", "failed", "cancelled"):
            return run
        await asyncio.sleep(0.01)
    raise AssertionError(f"The run has not ended: {run}")


@pytest.mark.parametrize("value", [[1, 2], "text", 7, True])
def test_the_input_of_a_workflow_of_steps_must_be_an_object(value: Any):
    async def run() -> None:
        async with serving() as api:
            body = {"definitionId": await api.define(LEAD), "input": value}
            assert "Give an object" in (await api.post("/workflow-runs", body, 400))["message"]
            assert await api.get("/workflow-runs") == []

    asyncio.run(run())

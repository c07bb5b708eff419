"""Lists of runs: what each of them is doing, filters, counts over time, and the stream of their changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from tests.unit.server.serving import BASE, BROKEN, LEAD, PAYMENT, REVIEW, Api, catalog, serving

from statewright import RetryPolicy, Send, StateGraph, interrupt
from statewright.service import Service


class State(TypedDict, total=False):
    answer: str


async def activities(api: Api) -> dict[str, Any]:
    return {run["graph"]: run["activity"] for run in await api.get("/workflow-runs?brief=true")}


def test_a_list_says_what_each_run_is_doing() -> None:
    def ask(state: State) -> State:
        return {"answer": interrupt({"question": "Which of the two\ncustomers named   Park?"})}

    async def run() -> None:
        served = catalog()
        served.serve("asking", StateGraph(State).add_node(ask).add_edge("__start__", "ask"))
        async with serving(service=Service(served)) as api:
            for definition in (LEAD, PAYMENT, REVIEW, BROKEN):
                await api.start(definition)
            await api.post("/workflow-runs?wait=10", {"graph": "asking"}, 201)
            later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
            await api.post("/workflow-runs", {"graph": "greeter", "after": later}, 201)
            found = await activities(api)
            assert (found["lead"]["kind"], found["greeter"]["kind"]) == ("completed", "scheduled")
            assert (found["payment"]["kind"], found["payment"]["text"]) == ("event", "Waits for payment_confirmed")
            assert (found["review"]["kind"], found["review"]["text"]) == ("approval", "Send it?")
            assert (found["broken"]["kind"], found["broken"]["text"]) == ("failed", "try failed: no luck")
            question = found["asking"]
            assert question["text"] == "Which of the two customers named Park?"
            # The wait can be answered by the id that the list names.
            (asking,) = await api.get("/workflow-runs?graph=asking")
            body = {"answers": {question["waitId"]: "the first"}}
            await api.post(f"/workflow-runs/{asking['id']}/resume", body)
            assert (await api.get(f"/workflow-runs/{asking['id']}?wait=10"))["activity"]["kind"] == "completed"

    asyncio.run(run())


def test_a_list_shows_the_progress_of_a_fan_out_and_the_attempts_of_a_step() -> None:
    gate, tried = asyncio.Event(), asyncio.Event()

    async def migrate(item: int) -> State:
        if item >= 3:
            await gate.wait()
        return {}

    async def charge(state: State) -> State:
        tried.set()
        raise ConnectionError("gateway timed out")

    async def run() -> None:
        served = catalog()
        fan_out = (
            StateGraph(State)
            .add_node(migrate)
            .add_conditional_edges("__start__", lambda _: [Send("migrate", number) for number in range(5)], ["migrate"])
        )
        served.serve("migration", fan_out)
        policy = RetryPolicy(max_attempts=2, initial_interval=3600, jitter=False, retry_on=ConnectionError)
        served.serve("order", StateGraph(State).add_node(charge, retry_policy=policy).add_edge("__start__", "charge"))
        async with serving(service=Service(served)) as api:
            for graph in ("migration", "order"):
                await api.post("/workflow-runs", {"graph": graph}, 201)
            while True:
                found = await activities(api)
                if found["migration"]["done"] == 3 and found["order"]["kind"] == "retrying":
                    break
                await asyncio.sleep(0.02)
            assert found["migration"]["text"] == "3 / 5 migrate"
            assert found["order"]["text"] == "charge failed 1 of 2: ConnectionError: gateway timed out"
            assert datetime.fromisoformat(found["order"]["at"]) > datetime.now(UTC)
            service_loop = api.service._thread  # the gate belongs to the loop that advances runs
            service_loop.submit(_set(gate)).result()
            (migration,) = await api.get("/workflow-runs?graph=migration")
            assert (await api.get(f"/workflow-runs/{migration['id']}?wait=10"))["activity"][
                "text"
            ] == "Completed in 5 steps"

    async def _set(event: asyncio.Event) -> None:
        event.set()

    asyncio.run(run())


def test_runs_are_filtered_by_alternative_tags_and_by_texts_that_people_know() -> None:
    async def run() -> None:
        async with serving() as api:
            await api.start(LEAD, tags=["nightly", "eu"], metadata={"customer": "Acme Inc"}, threadId="order-4711")
            await api.start(LEAD, tags=["us"], idempotencyKey="import_77")
            await api.start(PAYMENT, tags=["nightly"])

            async def count(query: str) -> int:
                return len(await api.get(f"/workflow-runs?{query}"))

            assert await count("anyTag=eu&anyTag=us") == 2
            assert await count("tag=nightly&anyTag=eu&anyTag=us") == 1
            for text, expected in {
                "PAYMENT": 1,
                "4711": 1,
                "acme": 1,
                "NIGHT": 2,
                "import_77": 1,
                "import%77": 0,
                "run_": 3,
                "nowhere": 0,
            }.items():
                assert await count(f"text={text.replace('%', '%25')}") == expected, text
            assert await count("text=nightly&graph=lead") == 1
            await api.get(f"/workflow-runs?text={'x' * 201}", 400)
            cancelled = await api.post("/workflow-runs/cancel", {"text": "payment", "anyTags": ["nightly", "x"]})
            assert len(cancelled["runIds"]) == 1

    asyncio.run(run())


def test_a_brief_list_leaves_out_what_may_be_large() -> None:
    async def run() -> None:
        async with serving() as api:
            await api.start(LEAD, input={"leadEmail": "x" * 1000})
            (full,) = await api.get("/workflow-runs")
            (brief,) = await api.get("/workflow-runs?brief=true")
            assert full["input"] is not None
            assert full["output"] is not None
            assert {**full, "input": None, "output": None} == brief

    asyncio.run(run())


def test_runs_are_counted_over_time_under_the_filters_of_the_list() -> None:
    async def run() -> None:
        async with serving() as api:
            before = datetime.now(UTC) - timedelta(hours=23)
            for definition in (LEAD, LEAD, BROKEN, PAYMENT):
                await api.start(definition)

            async def histogram(query: str = "", status: int = 200) -> Any:
                end = before + timedelta(days=1)
                path = f"/workflow-runs/histogram?from={before.isoformat()}&to={end.isoformat()}{query}"
                return await api.get(path.replace("+", "%2B"), status)

            counts = await histogram("&periods=24")
            assert len(counts) == 24
            assert counts[23]["byStatus"] == {"completed": 2, "failed": 1, "waiting": 1}
            assert sum(count["total"] for count in counts) == 4
            assert datetime.fromisoformat(counts[1]["start"]) - before == timedelta(hours=1)
            assert (await histogram("&periods=1&graph=lead"))[0]["byStatus"] == {"completed": 2}
            assert sum(count["total"] for count in await histogram("&status=failed")) == 1
            await histogram("&periods=501", 400)
            await api.get("/workflow-runs/histogram", 400)
            now = "2026-01-01T00:00:00Z"
            await api.get(f"/workflow-runs/histogram?from={now}&to={now}", 400)

    asyncio.run(run())


# -- the stream


async def messages(api: Api, position: str | None = None) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of the stream of all runs, as parsed from the application's own response."""
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    headers = [(b"host", b"127.0.0.1:8123")] + ([(b"last-event-id", position.encode())] if position else [])
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{BASE}/workflow-runs/stream",
        "raw_path": b"",
        "query_string": b"",
        "headers": headers,
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8123),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    disconnected = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not getattr(receive, "sent", False):
            receive.sent = True  # type: ignore[attr-defined]
            return {"type": "http.request", "body": b"", "more_body": False}
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        await queue.put(message.get("body", b""))

    task = asyncio.ensure_future(api.app(scope, receive, send))
    try:
        buffer = b""
        while True:
            buffer += await queue.get()
            *complete, buffer = buffer.split(b"\n\n")
            for text in complete:
                fields = dict(line.split(": ", 1) for line in text.decode().splitlines() if ": " in line)
                if "data" in fields:
                    yield {**fields, "data": json.loads(fields["data"])}
    finally:
        disconnected.set()
        await task


async def until(stream: AsyncIterator[dict[str, Any]], run_id: str, status: str) -> list[dict[str, Any]]:
    """Read until a run has a status. Return the messages."""
    read: list[dict[str, Any]] = []
    async for message in stream:
        read.append(message)
        if message["event"] == "run" and (message["data"]["id"], message["data"]["status"]) == (run_id, status):
            return read
    raise AssertionError("the stream has ended")


def test_the_list_is_streamed_and_continued_after_a_break_without_losing_a_change() -> None:
    async def run() -> None:
        async with serving() as api:
            async with aclosing(messages(api)) as stream:
                first = await anext(stream)
                assert (first["event"], first["id"].isdigit()) == ("position", True)
                payment = await api.start(PAYMENT)
                read = await until(stream, payment["id"], "waiting")
                shown = read[-1]["data"]
                assert shown["activity"]["text"] == "Waits for payment_confirmed"
                assert (shown["input"], shown["output"]) == (None, None)
                position = next(message["id"] for message in reversed(read) if "id" in message)
            # Nobody reads while the run ends and another one begins.
            signal = {"signalType": "payment_confirmed", "payload": {"amount": 5}}
            await api.post(f"/workflow-runs/{payment['id']}/resume", signal)
            await api.get(f"/workflow-runs/{payment['id']}?wait=10")
            failed = await api.start(BROKEN)
            async with aclosing(messages(api, position)) as stream:
                missed = [await anext(stream), await anext(stream)]
                states = {message["data"]["id"]: message["data"]["status"] for message in missed}
                assert states == {payment["id"]: "completed", failed["id"]: "failed"}

    asyncio.run(run())


def test_readers_of_a_workspace_share_the_queries_and_see_no_other_workspace() -> None:
    async def run() -> None:
        async with serving() as api:
            feeds = api.service.context.feeds
            streams = [messages(api) for _ in range(20)]
            for stream in streams:
                await anext(stream)
            (feed,) = feeds._feeds[asyncio.get_running_loop()].values()
            assert len(feed._readers) == 20
            asked: list[Any] = []
            ledger, find = api.service.context.ledger, api.service.context.ledger.find

            def count(kind: Any, *args: Any, **options: Any) -> Any:
                asked.append(kind)
                return find(kind, *args, **options)

            feed._ledger = type("Counting", (), {"find": staticmethod(count)})()
            feed._interval = 0.05
            feed.wake()
            while len(asked) < 3 * 7:
                await asyncio.sleep(0.01)
            begun = len(asked) // 7
            assert len(asked) <= 7 * (begun + 1)  # seven queries a round, however many read
            feed._ledger = ledger
            lead = await api.start(LEAD)
            for stream in streams:
                await until(stream, lead["id"], "completed")
                await stream.aclose()
            assert feeds._feeds[asyncio.get_running_loop()] == {}

    asyncio.run(run())


def test_a_position_that_is_too_old_asks_to_read_the_list_again() -> None:
    async def run() -> None:
        async with serving() as api:
            async with aclosing(messages(api, "1000")) as stream:
                assert (await anext(stream))["event"] == "reset"
                assert (await anext(stream))["event"] == "position"
            for wrong in ("x", "-2", "9" * 30):
                response = await api.call("GET", "/workflow-runs/stream", headers={"last-event-id": wrong})
                assert response.status_code == 400

    asyncio.run(run())


def test_two_processes_on_one_database_see_each_others_runs(tmp_path: Any) -> None:
    from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

    async def run() -> None:
        with SqliteDatabase(tmp_path / "runs.db") as first, SqliteDatabase(tmp_path / "runs.db") as second:
            services = [Service(catalog(), ledger=SqliteLedger(one), saver=SqliteSaver(one)) for one in (first, second)]
            async with (
                serving(service=services[0]) as writer,
                serving(service=services[1]) as reader,
                aclosing(messages(reader)) as stream,
            ):
                await anext(stream)
                lead = await writer.start(LEAD)
                await until(stream, lead["id"], "completed")

    asyncio.run(run())

"""A service in the process of a test: work is done at once, and years take no time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

import httpx
import pytest
from tests.stream_server import listening

from statewright import START, RetryPolicy, StateGraph, TimeoutPolicy, interrupt, sleep, wait_for_event
from statewright.agents import tool
from statewright.errors import InvalidRequest, NotFound
from statewright.messages import Message, ToolCall
from statewright.models import ModelResponse, ScriptedModel, Usage
from statewright.runs import RunStatus
from statewright.service import ServiceSettings
from statewright.service.webhooks import WebhookSettings
from statewright.testing import TestService

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = 365 * 86_400


class State(TypedDict, total=False):
    log: list[str]


def graph(function: Callable[..., Any], **options: Any) -> StateGraph:
    return StateGraph(State).add_node("node", function, **options).add_edge(START, "node")


def nap(state: State) -> State:
    sleep(100 * YEAR)
    return {"log": ["wait_until_idle"]}


def ask(state: State) -> State:
    return {"log": [str(interrupt("Who?"))]}


REVIEW: dict[str, Any] = {
    "name": "review",
    "version": "1",
    "steps": [
        {"type": "task", "name": "write", "handler": "write"},
        {"type": "approval", "name": "agree", "contentKey": "text", "timeoutMs": 3_600_000},
    ],
}
PAYMENT: dict[str, Any] = {
    "name": "payment",
    "version": "1",
    "steps": [
        {"type": "wait", "name": "nap", "durationMs": 60_000},
        {
            "type": "external_event",
            "name": "pay",
            "signalType": "paid",
            "timeoutMs": 3_600_000,
            "retry": {"maxAttempts": 1},
        },
    ],
}
HANDLERS = {"write": lambda ctx: {"status": "completed", "stateUpdates": {"text": "draft"}}}


@pytest.fixture(params=["memory", "sqlite"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "runs.db"


def test_skipping_a_century_takes_no_time(path: Path | None) -> None:
    with TestService({"nap": graph(nap)}, path=path) as service:
        run = service.start("nap")
        assert run.status is RunStatus.WAITING
        assert service.skip_to_next_timer() == BEGIN + timedelta(seconds=100 * YEAR)
        assert service.run(run).output == {"log": ["wait_until_idle"]}
        assert service.skip_to_next_timer() is None


def test_time_passes_only_when_advanced(path: Path | None) -> None:
    with TestService(definitions=[PAYMENT], handlers=HANDLERS, path=path, start=BEGIN) as service:
        run = service.start("payment")
        service.advance(59)
        assert [wait.kind for wait in service.waits(run)] == ["timer"]
        service.advance(timedelta(seconds=1))
        assert [wait.event for wait in service.waits(run)] == ["paid"]
        assert service.clock.now() == BEGIN + timedelta(minutes=1)
        service.advance(3599)
        assert service.run(run).status is RunStatus.WAITING
        service.advance(1)
        assert service.run(run).status is RunStatus.FAILED
        with pytest.raises(ValueError, match="Time cannot go back"):
            service.advance(-1)


def test_run_to_rest_skips_timers_and_stops_at_signals(path: Path | None) -> None:
    with TestService(definitions=[PAYMENT], handlers=HANDLERS, path=path) as service:
        run = service.run_to_rest(service.start("payment"))
        assert run.status is RunStatus.WAITING
        assert service.clock.now() == BEGIN + timedelta(minutes=1)
        assert service.signal(run, "paid", {"amount": 3}).output == {"amount": 3}


def test_approvals_and_questions_of_a_run_are_answered(path: Path | None) -> None:
    with TestService({"ask": graph(ask)}, definitions=[REVIEW], handlers=HANDLERS, path=path) as service:
        assert service.approve(service.start("review"), by="Ada").status is RunStatus.COMPLETED
        assert service.reject(service.start("review")).status is RunStatus.FAILED
        assert service.edit(service.start("review"), "final").output["text"] == "final"  # pyright: ignore
        run = service.start("ask")
        assert service.answer(run, "Ada").output == {"log": ["Ada"]}
        run = service.start("ask")
        by_id = {wait.id: "Bo" for wait in service.waits(run)}
        assert service.answer(run, by_id).output == {"log": ["Bo"]}
        with pytest.raises(InvalidRequest, match="is waiting for 0 approvals"):
            service.approve(run)
        with pytest.raises(NotFound):
            service.start("none")


def test_a_retry_waits_for_the_clock(path: Path | None) -> None:
    attempts: list[datetime] = []

    def flaky(state: State) -> State:
        attempts.append(service.clock.now())
        if len(attempts) < 3:
            raise ConnectionError("again")
        return {"log": ["done"]}

    policy = RetryPolicy(max_attempts=5, initial_interval=60, backoff_factor=2, max_interval=1000, jitter=False)
    with TestService({"flaky": graph(flaky, retry_policy=policy)}, path=path) as service:
        run = service.start("flaky")
        assert (run.status, len(attempts)) == (RunStatus.RUNNING, 1)
        service.advance(59)
        assert len(attempts) == 1
        assert service.run_to_rest(run).status is RunStatus.COMPLETED
        assert [(attempt - BEGIN).total_seconds() for attempt in attempts] == pytest.approx([0, 60, 180], abs=0.001)


def test_closing_does_not_wait_for_runs_that_wait_for_the_clock(path: Path | None) -> None:
    def fail(state: State) -> State:
        raise ConnectionError("again")

    policy, settings = RetryPolicy(initial_interval=60), ServiceSettings(drain=86_400)
    with TestService({"fail": graph(fail, retry_policy=policy)}, path=path, settings=settings) as service:
        assert service.start("fail").status is RunStatus.RUNNING


def test_the_service_waits_for_a_node_that_takes_real_time() -> None:
    def slow(state: State) -> State:
        time.sleep(0.3)
        return {"log": ["slow"]}

    async def slow_async(state: State) -> State:
        await asyncio.sleep(0.3)
        return {"log": ["slow"]}

    with TestService({"thread": graph(slow), "loop": graph(slow_async)}) as service:
        assert service.start("thread").status is RunStatus.COMPLETED
        assert service.start("loop").status is RunStatus.COMPLETED


def test_the_service_does_not_wait_for_a_node_that_waits_for_the_clock() -> None:
    """It hangs until its timeout, which depends on the clock."""

    async def hang(state: State) -> State:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    with TestService({"hang": graph(hang, timeout=TimeoutPolicy(run_timeout=3600))}) as service:
        run = service.start("hang")
        assert run.status is RunStatus.RUNNING
        assert service.run_to_rest(run).status is RunStatus.FAILED
        assert service.clock.now() == BEGIN + timedelta(hours=1)


def test_a_tool_call_of_a_model_needs_approval(path: Path | None) -> None:
    paid: list[int] = []

    @tool(approve=lambda arguments, context: arguments["amount"] > 100)
    def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return f"paid {amount}"

    step = {"type": "llm", "name": "ask", "model": "m", "messages": [{"role": "user", "content": "Go."}]}
    definition = {"name": "till", "version": "1", "steps": [{**step, "tools": [{"name": "pay"}]}]}
    calls = [ToolCall("1", "pay", {"amount": 50}), ToolCall("2", "pay", {"amount": 200})]
    model = ScriptedModel([ModelResponse(Message("", "assistant", tool_calls=calls), Usage(1, 1, 0.25)), "done"])
    with TestService(definitions=[definition], models=model, tools=[pay], path=path) as service:
        run = service.start("till")
        (wait,) = service.client.interrupts.list().items
        assert (wait.workflow_run_id, wait.value["arguments"], paid) == (run.id, {"amount": 200}, [50])
        ended = service.answer(run, {"approved": True, "arguments": {"amount": 150}})
        assert (ended.status, ended.output) == ("completed", {"ask": "done"})
        assert paid == [50, 150]
        assert (len(model.requests), ended.total_cost) == (2, 0.25)
        (step_run,) = service.client.runs.steps(run.id)
        events = service.client.runs.events(run.id).items
        calls_logged = [event for event in events if event.event_type in ("TOOL_CALLED", "LLM_CALL_COMPLETED")]
        assert [event.event_type[:4] for event in calls_logged] == ["LLM_", "TOOL", "TOOL", "LLM_"]
        assert {event.step_run_id for event in calls_logged} == {step_run.id}


def test_schedules_start_their_runs_in_order(path: Path | None) -> None:
    with TestService({"ask": graph(ask)}, path=path) as service:
        service.client.schedules.add("daily", "0 9 * * *", graph="ask", overlap="allow", input={})
        service.advance(timedelta(days=3))
        started = [run.created_at for run in service.client.runs.iterate(graph="ask", sort="createdAt")]
        assert started == [BEGIN + timedelta(days=day, hours=9) for day in range(3)]


def test_enqueued_runs_of_a_schedule_start_after_the_previous_run(path: Path | None) -> None:
    with TestService({"ask": graph(ask)}, path=path) as service:
        service.client.schedules.add("daily", "0 9 * * *", graph="ask", overlap="enqueue", input={})
        service.advance(timedelta(days=3))
        first, second, third = [run.id for run in service.client.runs.iterate(graph="ask", sort="createdAt")]
        assert [service.run(run).status for run in (first, second, third)] == ["waiting", "pending", "pending"]
        assert service.answer(first, "Ada").status is RunStatus.COMPLETED
        assert [service.run(run).status for run in (second, third)] == ["waiting", "pending"]
        service.client.runs.cancel(second)
        assert service.answer(third, "Eve").status is RunStatus.COMPLETED


def test_enqueued_runs_of_one_thread_run_one_after_another(path: Path | None) -> None:
    with TestService({"ask": graph(ask)}, path=path) as service:
        runs = [service.start("ask", thread_id="one", on_busy="enqueue") for _ in range(3)]
        assert [service.run(run).status for run in runs] == ["waiting", "pending", "pending"]
        for run in runs:
            assert service.answer(run, "Ada").status is RunStatus.COMPLETED


def test_more_runs_than_capacity_all_complete() -> None:
    settings = ServiceSettings(capacity=2)
    with TestService({"nap": graph(nap), "ask": graph(ask)}, settings=settings) as service:
        runs = [service.start("nap") for _ in range(5)]
        service.advance(100 * YEAR)
        assert {service.run(run).status for run in runs} == {"completed"}


def test_an_event_wakes_runs_and_starts_triggered_ones(path: Path | None) -> None:
    def listen(state: State) -> State:
        return {"log": [wait_for_event("rain")["where"]]}

    with TestService({"listen": graph(listen)}, definitions=[PAYMENT], handlers=HANDLERS, path=path) as service:
        run = service.start("listen")
        service.client.triggers.add("rain", graph="payment")
        sent = service.send_event("rain", {"where": "here"})
        assert len(sent.started) == 1
        assert service.run(sent.started[0]).status is RunStatus.WAITING
        assert sent.woken == [run.id]
        assert service.run(run).output == {"log": ["here"]}


def test_a_run_is_cancelled_and_events_and_steps_are_listed() -> None:
    with TestService({"nap": graph(nap), "ask": graph(ask)}) as service:
        run = service.cancel(service.start("nap"), "changed my mind")
        assert run.status is RunStatus.CANCELLED
        assert service.skip_to_next_timer() is None
        assert [event.type for event in service.events(run)][-1] == "WORKFLOW_CANCELLED"
        assert [step.name for step in service.steps(service.start("ask"))] == ["node"]


def test_the_client_needs_no_socket(path: Path | None) -> None:
    with TestService(definitions=[PAYMENT], handlers=HANDLERS, path=path) as service:
        client = service.client
        run = client.runs.start("payment", {"a": 1})
        assert client.runs.get(run.id).status == "waiting"  # the run was waiting when `start` returned
        service.advance(60)
        assert client.runs.signal(run.id, "paid").id == run.id
        assert client.runs.get(run.id).status == "completed"
        events = list(client.runs.follow(run.id))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_a_stream_of_the_client_is_live() -> None:
    with TestService(definitions=[PAYMENT], handlers=HANDLERS) as service:
        run = service.start("payment")
        event_types: list[str] = []
        client = service.client

        def follow() -> None:
            event_types.extend(event.event_type for event in client.runs.follow(run.id))

        follower = threading.Thread(target=follow)
        follower.start()
        service.advance(60)
        service.signal(run, "paid")
        follower.join(600)
        assert event_types[-1] == "WORKFLOW_COMPLETED"


def test_a_stream_can_be_closed_early() -> None:
    with TestService(definitions=[PAYMENT], handlers=HANDLERS) as service:
        run = service.start("payment")
        events = service.client.runs.follow(run.id)
        assert next(events).event_type == "WORKFLOW_STARTED"
        events.close()
        assert service.client.health().is_well


class Receiver:
    """Answers the first deliveries of webhooks with an error."""

    def __init__(self, errors: int) -> None:
        self.errors = errors
        self.received: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(httpx.Headers(dict(_parse_header(line) for line in head.split(b"\r\n")[1:-2]))["content-length"])
        self.received.append(httpx.Response(200, content=await reader.readexactly(length)).json())
        status = b"500 Bad" if len(self.received) <= self.errors else b"200 OK"
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


def _parse_header(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode().partition(":")
    return name, value.strip()


def test_webhook_deliveries_are_retried_by_the_clock() -> None:
    async def use() -> None:
        receiver = Receiver(errors=2)
        settings = WebhookSettings(allow_hosts=["127.0.0.1"], retry_after=(60, 3600))
        async with (
            listening(receiver.serve) as port,
            TestService({"ask": graph(ask)}, webhooks=settings) as service,
        ):
            hook = await service._call(_add_webhook(service, f"http://127.0.0.1:{port}/"))  # pyright: ignore
            run = await service.start("ask")
            await service.answer(run, "Ada")
            counts = [len(receiver.received)]
            for seconds in (70, 4000):
                await service.advance(seconds)
                counts.append(len(receiver.received))
            assert counts == [1, 2, 3]
            assert len({message["id"] for message in receiver.received}) == 1
            page = await service.client.webhooks.deliveries(hook)
            assert [(delivery.status, delivery.attempts) for delivery in page.items] == [("delivered", 3)]

    asyncio.run(use())


async def _add_webhook(service: Any, url: str) -> str:
    from statewright.service.webhooks import add_webhook

    core = service._parts
    ledger, now = core.service.context.ledger, core.clock.now()
    settings = WebhookSettings(allow_hosts=["127.0.0.1"])
    added = await add_webhook(ledger, "default", url, ["workflow.completed"], "", now=now, settings=settings)
    return added.webhook.id


def test_every_method_can_be_awaited(path: Path | None) -> None:
    async def use() -> None:
        async with TestService({"nap": graph(nap), "ask": graph(ask)}, path=path) as service:
            run = await service.start("nap")
            assert await service.skip_to_next_timer() == BEGIN + timedelta(seconds=100 * YEAR)
            assert (await service.run(run)).status is RunStatus.COMPLETED
            run = await service.client.runs.start("ask")
            assert (await service.answer(run.id, "Ada")).status is RunStatus.COMPLETED
            assert [event.seq async for event in service.client.runs.follow(run.id)][:2] == [1, 2]

    asyncio.run(use())


def test_the_next_service_continues_the_runs_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with TestService({"nap": graph(nap)}, path=path) as service:
        run = service.start("nap")
    with TestService({"nap": graph(nap)}, path=path, start=BEGIN + timedelta(days=1)) as service:
        assert service.run_to_rest(run).status is RunStatus.COMPLETED

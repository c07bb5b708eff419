"""Runs of a service, from input to end: stopped, answered, retried, and isolated."""

from __future__ import annotations

import asyncio
import json
import operator
import threading
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import (
    PATIENCE,
    WS,
    RunStorage,
    events_of,
    run_until_idle,
    serving,
    types_of,
    wait_until,
    wait_until_idle,
)

from statewright import (
    END,
    START,
    Command,
    RetryPolicy,
    Runtime,
    StateGraph,
    interrupt,
    request_approval,
    sleep,
    wait_for_event,
)
from statewright.checkpoint import LeaseRequest
from statewright.errors import (
    InvalidRequest,
    InvalidTransition,
    NotFound,
    PayloadTooLarge,
    RecordConflict,
    RequestConflict,
    SignalMismatch,
)
from statewright.runs import Advance, Condition, NewEvent, Run, RunStatus, StepStatus
from statewright.service import LiveEvent, RunFilter, Service, ServiceSettings, StartRun
from statewright.testing import FakeClock
from statewright.workflow.steps import Handlers, StepResult

pytestmark = pytest.mark.anyio


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[Any], operator.add]


def chain(name: str, *nodes: Any, **options: Any) -> StateGraph:
    """Build a graph of consecutive nodes."""
    graph = StateGraph(State, name=name)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node, **options)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    graph.add_edge(before, END)
    return graph


def first(state: State) -> State:
    return {"n": state.get("n", 0) + 1, "log": ["first"]}


def second(state: State) -> State:
    return {"log": ["second"]}


def third(state: State) -> State:
    return {"log": ["third"]}


def asks(state: State) -> State:
    return {"log": [interrupt({"question": "go on?"})]}


def waits_for_payment(state: State) -> State:
    return {"log": [wait_for_event("payment_confirmed")]}


def sleeps(state: State) -> State:
    sleep(timedelta(hours=1))
    return {"log": ["slept"]}


# -- input, output and failures


async def test_a_run_computes_its_output_and_reports_each_step(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("three", first, second, third)) as service:
        run = await run_until_idle(service, "three", {"n": 1})
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"n": 2, "log": ["first", "second", "third"]})
        assert (run.input, run.claim, run.due_at) == ({"n": 1}, None, None)
        assert run.completed_at is not None
        assert await types_of(service, run) == [
            "WORKFLOW_STARTED",
            *["STEP_STARTED", "STEP_COMPLETED"] * 3,
            "WORKFLOW_COMPLETED",
        ]
        steps = await service.steps(WS, run.id)
        assert [(step.name, step.status, step.attempt) for step in steps] == [
            (name, StepStatus.COMPLETED, 1) for name in ("first", "second", "third")
        ]


async def test_a_failed_run_names_its_step_and_a_retry_continues_there(run_storage: RunStorage) -> None:
    healthy, calls = threading.Event(), list[str]()

    def before(state: State) -> State:
        calls.append("before")
        return {"log": ["before"]}

    def breaks(state: State) -> State:
        if not healthy.is_set():
            raise ValueError("not yet")
        return {"log": ["fixed"]}

    async with serving(run_storage, chain("fragile", before, breaks)) as service:
        run = await run_until_idle(service, "fragile")
        assert run.status is RunStatus.FAILED
        assert run.error == {"message": "ValueError: not yet", "code": "ValueError", "step": "breaks"}
        [_, step] = await service.steps(WS, run.id)
        assert (step.name, step.status, step.error["message"]) == ("breaks", StepStatus.FAILED, "ValueError: not yet")
        healthy.set()
        await service.retry(WS, run.id)
        done = await wait_until_idle(service, run)
        assert (done.status, done.output, done.error) == (
            RunStatus.COMPLETED,
            {"log": ["before", "fixed"]},
            None,
        )
        assert calls == ["before"]
        assert (await types_of(service, run))[-4:] == [
            "WORKFLOW_FAILED",
            "WORKFLOW_RETRIED",
            "STEP_COMPLETED",
            "WORKFLOW_COMPLETED",
        ]


async def test_attempts_are_counted_and_reported(run_storage: RunStorage) -> None:
    tries: list[int] = []

    def flaky(state: State) -> State:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("again")
        return {"log": ["through"]}

    policy = RetryPolicy(max_attempts=3, initial_interval=0.01, jitter=False)
    async with serving(run_storage, chain("flaky", flaky, retry_policy=policy)) as service:
        run = await run_until_idle(service, "flaky")
        assert run.status is RunStatus.COMPLETED
        scheduled = await events_of(service, run, "STEP_RETRY_SCHEDULED")
        assert [event.payload["attempt"] for event in scheduled] == [2, 3]
        failed = await events_of(service, run, "STEP_FAILED")
        assert [event.payload["error"]["message"] for event in failed] == ["ConnectionError: again"] * 2
        [step] = await service.steps(WS, run.id)
        assert (step.attempt, step.status, step.error) == (3, StepStatus.COMPLETED, None)


async def test_invalid_input_fails_the_run_with_a_message(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("three", first)) as service:
        run = await run_until_idle(service, "three", {"n": "many"})
        assert run.status is RunStatus.FAILED
        assert "'n'" in run.error["message"]
        assert await types_of(service, run) == ["WORKFLOW_STARTED", "WORKFLOW_FAILED"]


# -- waiting


async def test_a_question_is_saved_and_its_answer_resumes_the_run(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("asks", asks, second)) as service:
        run = await run_until_idle(service, "asks")
        assert (run.status, run.claim, run.due_at) == (RunStatus.WAITING, None, None)
        [wait] = (await service.waits(WS)).items
        assert (wait.run_id, wait.kind, wait.value) == (run.id, "question", {"question": "go on?"})
        with pytest.raises(NotFound, match="no open question"):
            await service.answer(WS, run.id, {"unknown": 1})
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert (await wait_until_idle(service, run)).output == {"log": ["yes", "second"]}
        assert (await service.waits(WS)).total == 0


async def test_a_signal_of_another_type_is_refused(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("pays", waits_for_payment)) as service:
        run = await run_until_idle(service, "pays")
        with pytest.raises(SignalMismatch, match="payment_confirmed"):
            await service.signal(WS, run.id, "payment_failed", {}, must_wait=True)
        assert (await service.run(WS, run.id)).status is RunStatus.WAITING
        await service.signal(WS, run.id, "payment_confirmed", {"amount": 3}, must_wait=True)
        done = await wait_until_idle(service, run)
        assert (done.status, done.output) == (RunStatus.COMPLETED, {"log": [{"amount": 3}]})
        assert len(await events_of(service, run, "SIGNAL_RECEIVED")) == 1


async def test_an_early_signal_is_kept_for_the_step_that_waits_for_it(run_storage: RunStorage) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def slow(state: State) -> State:
        begun.set()
        go_on.wait(PATIENCE)
        return {"log": ["slow"]}

    async with serving(run_storage, chain("early", slow, waits_for_payment)) as service:
        started = await service.start(WS, StartRun(graph="early"))
        await asyncio.to_thread(begun.wait, PATIENCE)
        await service.signal(WS, started.run.id, "payment_confirmed", {"amount": 1}, key="once")
        await service.signal(WS, started.run.id, "payment_confirmed", {"amount": 2}, key="once")
        go_on.set()
        run = await wait_until(lambda: ended_run(service, started.run.id))
        assert run.output == {"log": ["slow", {"amount": 1}]}


async def ended_run(service: Any, run_id: str) -> Any:
    run = await service.run(WS, run_id)
    return run if run.status in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED) else None


async def test_a_timer_fires_on_time_after_a_restart(run_storage: RunStorage) -> None:
    clock = FakeClock()
    async with serving(run_storage, chain("sleepy", sleeps), clock=clock) as service:
        run = await run_until_idle(service, "sleepy")
        assert (run.status, run.due_at) == (RunStatus.WAITING, clock.now() + timedelta(hours=1))
    async with serving(run_storage, chain("sleepy", sleeps), clock=clock) as service:
        assert (await service.run(WS, run.id)).status is RunStatus.WAITING
        clock.advance(timedelta(minutes=59))
        service.wake_background_tasks()  # the clock may have advanced before an alarm was set
        await asyncio.sleep(0.05)
        assert (await service.run(WS, run.id)).status is RunStatus.WAITING
        clock.advance(timedelta(minutes=1))
        service.wake_background_tasks()
        done = await wait_until(lambda: ended_run(service, run.id))
        assert done.output == {"log": ["slept"]}
        assert [event.type for event in await events_of(service, run, "TIMER_FIRED")] == ["TIMER_FIRED"]


@pytest.mark.parametrize("payload", [None, 1, "text", ["list"], {"__nextStep": "x"}])
async def test_a_signal_payload_must_be_a_map_without_reserved_keys(run_storage: RunStorage, payload: Any) -> None:
    async with serving(run_storage, chain("pays", waits_for_payment)) as service:
        run = await run_until_idle(service, "pays")
        with pytest.raises(InvalidRequest):
            await service.signal(WS, run.id, "payment_confirmed", payload)
        assert (await service.run(WS, run.id)).status is RunStatus.WAITING


async def test_payloads_are_limited_in_size(run_storage: RunStorage) -> None:
    settings = ServiceSettings(max_input=100, max_payload=100)
    async with serving(run_storage, chain("pays", waits_for_payment), settings=settings) as service:
        with pytest.raises(PayloadTooLarge):
            await service.start(WS, StartRun(graph="pays", input={"text": "x" * 100}))
        run = await run_until_idle(service, "pays")
        with pytest.raises(PayloadTooLarge):
            await service.signal(WS, run.id, "payment_confirmed", {"text": "x" * 100})


# -- cancelling, pausing, timeouts


async def test_a_cancelled_run_ends_at_once_and_its_late_results_are_dropped(run_storage: RunStorage) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def slow(state: State) -> State:
        begun.set()
        go_on.wait(PATIENCE)
        return {"log": ["too late"]}

    async with serving(run_storage, chain("slow", slow, second)) as service:
        started = await service.start(WS, StartRun(graph="slow"))
        await asyncio.to_thread(begun.wait, PATIENCE)
        run = await service.cancel(WS, started.run.id, "enough")
        assert (run.status, run.claim) == (RunStatus.CANCELLED, None)
        go_on.set()
        assert service.worker is not None
        await wait_until(lambda: is_idle(service))
        run = await service.run(WS, started.run.id)
        assert (run.status, run.output) == (RunStatus.CANCELLED, None)
        assert (await types_of(service, run))[-1] == "WORKFLOW_CANCELLED"
        assert [step.status for step in await service.steps(WS, run.id)] == [StepStatus.CANCELLED]
        assert (await service.cancel(WS, run.id)).version == run.version  # cancelling again changes nothing


async def is_idle(service: Any) -> bool:
    return service.worker.active_runs == 0


async def test_a_cancelled_run_takes_no_answer(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("asks", asks)) as service:
        run = await run_until_idle(service, "asks")
        [wait] = (await service.waits(WS)).items
        await service.cancel(WS, run.id)
        with pytest.raises(InvalidTransition):
            await service.answer(WS, run.id, {wait.id: "late"})
        with pytest.raises(InvalidTransition):
            await service.signal(WS, run.id, "anything", {})
        assert (await service.waits(WS)).total == 0


async def test_a_paused_run_stays_between_two_steps_until_it_is_resumed(run_storage: RunStorage) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def slow(state: State) -> State:
        begun.set()
        go_on.wait(PATIENCE)
        return {"log": ["slow"]}

    async with serving(run_storage, chain("slow", slow, second)) as service:
        started = await service.start(WS, StartRun(graph="slow"))
        await asyncio.to_thread(begun.wait, PATIENCE)
        await service.pause(WS, started.run.id)
        go_on.set()
        run = await wait_until_idle(service, started.run)
        assert (run.status, run.claim) == (RunStatus.PAUSED, None)
        assert [step.status for step in await service.steps(WS, run.id)] == [StepStatus.COMPLETED, StepStatus.PENDING]
        with pytest.raises(InvalidTransition):
            await service.retry(WS, run.id)
        await service.resume(WS, run.id)
        done = await wait_until(lambda: ended_run(service, run.id))
        assert done.output == {"log": ["slow", "second"]}
        assert (await types_of(service, run))[-5:] == [
            "WORKFLOW_PAUSED",
            "WORKFLOW_RESUMED",
            "STEP_STARTED",
            "STEP_COMPLETED",
            "WORKFLOW_COMPLETED",
        ]


@pytest.mark.parametrize("operation", ["pause", "resume", "retry"])
async def test_invalid_operations_on_a_completed_run_are_refused(run_storage: RunStorage, operation: str) -> None:
    async with serving(run_storage, chain("three", first)) as service:
        run = await run_until_idle(service, "three")
        with pytest.raises(InvalidTransition, match="completed"):
            await getattr(service, operation)(WS, run.id)
        assert (await service.run(WS, run.id)).version == run.version


async def test_a_run_that_exceeds_its_timeout_fails(run_storage: RunStorage) -> None:
    clock = FakeClock()
    async with serving(run_storage, chain("asks", asks), clock=clock) as service:
        run = await run_until_idle(service, "asks", timeout=60)
        clock.advance(61)
        service.wake_background_tasks()
        done = await wait_until(lambda: ended_run(service, run.id))
        assert (done.status, done.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")
        assert (await service.waits(WS)).total == 0


# -- idempotency and claims


async def test_the_same_idempotency_key_gives_the_same_run(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("three", first)) as service:
        request = StartRun(graph="three", idempotency_key="k-1")
        one, two = await service.start(WS, request), await service.start(WS, request)
        assert (one.created, two.created, one.run.id) == (True, False, two.run.id)
        starts = await asyncio.gather(
            *(service.start(WS, StartRun(graph="three", idempotency_key="k-2")) for _ in range(20))
        )
        assert sum(start.created for start in starts) == 1
        assert len({start.run.id for start in starts}) == 1


async def test_only_the_worker_with_the_valid_claim_changes_a_run(run_storage: RunStorage) -> None:
    go_on, begun = threading.Event(), threading.Event()

    def slow(state: State) -> State:
        begun.set()
        go_on.wait(PATIENCE)
        return {"log": ["slow"]}

    async with serving(run_storage, chain("slow", slow, second)) as service:
        started = await service.start(WS, StartRun(graph="slow"))
        await asyncio.to_thread(begun.wait, PATIENCE)
        run = await service.run(WS, started.run.id)
        # Another worker considers the first one dead, and takes over the run, as `RunWorker` does.
        takeover = Advance(run.id, service.clock.now(), {"claim": "other", "worker_id": "other"}, (), [])
        await service.context.write([takeover])
        before = await service.run(WS, run.id)
        events = len(await service.events(WS, run.id))
        go_on.set()
        await wait_until(lambda: is_idle(service))
        after = await service.run(WS, run.id)
        assert (after.version, after.status, after.claim) == (before.version, before.status, "other")
        assert len(await service.events(WS, run.id)) == events
        stale = Advance(run.id, service.clock.now(), {}, [NewEvent("X", {})], [Condition("version", "=", run.version)])
        with pytest.raises(RecordConflict):
            await service.context.write([stale])


async def test_many_concurrent_runs_complete_once_each(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("three", first, second, third)) as service:
        runs = await asyncio.gather(*(run_until_idle(service, "three", {"n": n}) for n in range(60)))
        assert [run.output["n"] for run in runs] == list(range(1, 61))
        for run in runs[::10]:
            assert (await types_of(service, run)).count("WORKFLOW_COMPLETED") == 1


# -- workspaces


async def test_objects_of_other_workspaces_are_not_found(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("asks", asks)) as service:
        run = await run_until_idle(service, "asks")
        for operation in (service.run, service.cancel, service.pause, service.retry, service.steps, service.cost):
            with pytest.raises(NotFound):
                await operation("other", run.id)
        with pytest.raises(NotFound):
            await service.signal("other", run.id, "x", {})
        assert (await service.runs("other", RunFilter())).total == 0
        assert (await service.waits("other")).total == 0
        with pytest.raises(NotFound):
            await service.threads.state("other", run.thread_id)


async def test_threads_of_two_workspaces_may_have_the_same_id(run_storage: RunStorage) -> None:
    def talks(state: State) -> State:
        return {"log": [len(state.get("log", ()))]}

    async with serving(run_storage, chain("asks", asks), chain("talks", talks)) as service:
        waiting = await run_until_idle(service, "asks", thread_id="t")
        with pytest.raises(NotFound):
            await service.threads.history("other", "t")
        started = [
            await service.start_and_wait("other", StartRun(graph="talks", thread_id="t"), PATIENCE) for _ in range(2)
        ]
        assert [start.run.output["log"] for start in started] == [[0], [0, 1]]
        assert (await service.threads.state("other", "t"))["values"]["log"] == [0, 1]
        assert (await service.threads.state(WS, "t"))["tasks"][0]["name"] == "asks"
        await service.threads.update("other", "t", {"log": ["edited"]}, as_node="talks")
        assert len(await service.threads.history("other", "t")) > len(await service.threads.history(WS, "t"))
        assert (await service.state("other", started[0].run.id))["log"] == [0]
        assert (await service.run(WS, waiting.id)).status is RunStatus.WAITING
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, waiting.id, {wait.interrupt_id: "yes"})
        assert (await wait_until(lambda: ended_run(service, waiting.id))).status is RunStatus.COMPLETED


async def test_a_retry_is_independent_of_another_workspaces_thread_of_that_id(
    run_storage: RunStorage,
) -> None:
    broken = [True]

    def fails(state: State) -> State:
        if broken[0]:
            raise ValueError("failed")
        return {"log": ["fixed"]}

    async with serving(run_storage, chain("fails", fails), chain("three", first)) as service:
        failed = await run_until_idle(service, "fails", thread_id="t")
        assert failed.status is RunStatus.FAILED
        await service.start_and_wait("other", StartRun(graph="three", thread_id="t"), PATIENCE)
        broken.clear()
        broken.append(False)
        await service.retry(WS, failed.id)
        assert (await wait_until(lambda: ended_run(service, failed.id))).output["log"] == ["fixed"]


async def test_runs_are_found_by_their_attributes(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("three", first), chain("asks", asks)) as service:
        one = await run_until_idle(service, "three", tags=["red", "big"], metadata={"customer": "ann", "n": 1})
        two = await run_until_idle(service, "asks", tags=["red"], metadata={"customer": "bob"})

        async def find(**criteria: Any) -> list[str]:
            return [run.id for run in (await service.runs(WS, RunFilter(**criteria))).items]

        assert await find() == [two.id, one.id]
        assert await find(tags=["red"]) == [two.id, one.id]
        assert await find(tags=["red", "big"]) == [one.id]
        assert await find(metadata={"customer": "bob"}) == [two.id]
        assert await find(metadata={"n": "1"}) == [one.id]
        assert await find(status=[RunStatus.WAITING]) == [two.id]
        assert await find(graph="three") == [one.id]
        assert await find(created_to=one.created_at) == []
        assert await service.cancel_all(WS, RunFilter(tags=["red"])) == [two.id]


async def test_an_unknown_graph_is_refused_with_the_nearest_name(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("three", first)) as service:
        with pytest.raises(NotFound, match="Did you mean 'three'"):
            await service.start(WS, StartRun(graph="thre"))
        with pytest.raises(InvalidRequest, match="graph or definitionId"):
            await service.start(WS, StartRun())


# -- shared threads


async def test_a_second_run_on_a_thread_is_refused_or_enqueued(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("asks", asks)) as service:
        one = await run_until_idle(service, "asks", thread_id="shared")
        with pytest.raises(RequestConflict, match="busy"):
            await service.start(WS, StartRun(graph="asks", thread_id="shared"))
        two = (await service.start(WS, StartRun(graph="asks", thread_id="shared", on_busy="enqueue"))).run
        await asyncio.sleep(0.05)
        assert (await service.run(WS, two.id)).status is RunStatus.PENDING
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, one.id, {wait.id: "first"})
        await wait_until_idle(service, one)
        waiting = await wait_until(lambda: waiting_run(service, two.id))
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, waiting.id, {wait.id: "second"})
        done = await wait_until(lambda: ended_run(service, two.id))
        assert done.output == {"log": ["first", "second"]}


async def waiting_run(service: Any, run_id: str) -> Any:
    run = await service.run(WS, run_id)
    return run if run.status is RunStatus.WAITING else None


@pytest.mark.parametrize(("on_busy", "log"), [("interrupt", ["first", "again"]), ("rollback", ["again"])])
async def test_a_run_may_take_over_a_busy_thread(run_storage: RunStorage, on_busy: str, log: list[str]) -> None:
    def again(state: State) -> State:
        return {"log": ["again"]}

    def routed(state: State) -> Command[Any]:
        return Command(goto="again" if state.get("n") == 5 else "first")

    graph = StateGraph(State, name="over")
    graph.add_node("routed", routed, destinations=["first", "again"])
    graph.add_node("first", first)
    graph.add_node("asks", asks)
    graph.add_node("again", again)
    graph.add_edge(START, "routed")
    graph.add_edge("first", "asks")
    graph.add_edge("asks", END)
    graph.add_edge("again", END)
    async with serving(run_storage, graph) as service:
        one = await run_until_idle(service, "over", thread_id="shared")
        assert one.status is RunStatus.WAITING
        two = await run_until_idle(service, "over", {"n": 5}, thread_id="shared", on_busy=on_busy)
        assert (two.status, two.output["log"]) == (RunStatus.COMPLETED, log)
        assert (await service.run(WS, one.id)).status is RunStatus.CANCELLED


# -- child runs


async def test_a_run_waits_for_its_child(run_storage: RunStorage) -> None:
    def parent(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.start_run("three", {"n": 41})["n"]]}

    async with serving(run_storage, chain("parent", parent), chain("three", first, second)) as service:
        run = await run_until_idle(service, "parent")
        done = await wait_until(lambda: ended_run(service, run.id))
        assert done.output == {"log": [42]}
        [child] = (await service.runs(WS, RunFilter(parent_id=run.id))).items
        assert (child.status, child.source) == (RunStatus.COMPLETED, f"run:{run.id}")


async def test_a_child_uses_the_thread_of_its_own_workspace(run_storage: RunStorage) -> None:
    def parent(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.start_run("three", {"n": 41}, thread_id="same")["n"]]}

    async with serving(
        run_storage, chain("parent", parent), chain("three", first, second), chain("asks", asks)
    ) as service:
        held = (await service.start_and_wait("other", StartRun(graph="asks", thread_id="same"), PATIENCE)).run
        run = await run_until_idle(service, "parent")
        assert (await wait_until(lambda: ended_run(service, run.id))).output == {"log": [42]}
        [child] = (await service.runs(WS, RunFilter(parent_id=run.id))).items
        assert (child.workspace_id, child.thread_id) == (WS, "same")
        assert (await service.run("other", held.id)).status is RunStatus.WAITING


async def test_a_failed_child_fails_its_parent_with_its_error(run_storage: RunStorage) -> None:
    def parent(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.start_run("breaks")]}

    def breaks(state: State) -> State:
        raise ValueError("failed")

    async with serving(run_storage, chain("parent", parent), chain("breaks", breaks)) as service:
        run = await run_until_idle(service, "parent")
        done = await wait_until(lambda: ended_run(service, run.id))
        assert done.status is RunStatus.FAILED
        assert "failed" in done.error["message"]


class FailingChild:
    """A child whose node fails until it is fixed, and its parent."""

    def __init__(self) -> None:
        self.is_fixed, self.calls = False, 0

    def child(self, state: State) -> State:
        self.calls += 1
        if not self.is_fixed:
            raise ValueError(f"failure {self.calls}")
        return {"n": 7}

    def parent(self, state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.start_run("child")["n"]]}

    @property
    def graphs(self) -> list[StateGraph]:
        return [chain("parent", self.parent), chain("child", self.child)]

    async def run_both_to_failure(self, service: Service) -> tuple[Run, Run]:
        """Run a parent and its child until both have failed."""
        run = await run_to_end(service, "parent")
        [child] = (await service.runs(WS, RunFilter(parent_id=run.id))).items
        assert (run.status, child.status) == (RunStatus.FAILED, RunStatus.FAILED)
        return run, child

    async def retry_to_end(self, service: Service, run: Run) -> Run:
        await service.retry(WS, run.id)
        return await wait_until(lambda: ended_run(service, run.id))


async def test_a_retried_parent_uses_the_new_result_of_its_retried_child(run_storage: RunStorage) -> None:
    failing = FailingChild()
    async with serving(run_storage, *failing.graphs) as service:
        run, child = await failing.run_both_to_failure(service)
        done = await failing.retry_to_end(service, run)  # the child is still failed
        assert (done.status, failing.calls) == (RunStatus.FAILED, 1)
        assert "failure 1" in done.error["message"]
        for number in (2, 3):
            assert (await failing.retry_to_end(service, child)).status is RunStatus.FAILED
            assert failing.calls == number
        done = await failing.retry_to_end(service, run)  # the last result counts
        assert "failure 3" in done.error["message"]
        assert (await failing.retry_to_end(service, child)).status is RunStatus.FAILED
        failing.is_fixed = True
        assert (await failing.retry_to_end(service, child)).status is RunStatus.COMPLETED
        done = await failing.retry_to_end(service, run)
        assert (done.status, done.output, failing.calls) == (RunStatus.COMPLETED, {"log": [7]}, 5)
        assert (await service.runs(WS, RunFilter(parent_id=run.id))).total == 1


async def test_a_retried_parent_waits_for_its_retried_child(run_storage: RunStorage) -> None:
    failing, go_on = FailingChild(), threading.Event()

    def child(state: State) -> State:
        if failing.is_fixed:
            go_on.wait(PATIENCE)
        return failing.child(state)

    async with serving(run_storage, chain("parent", failing.parent), chain("child", child)) as service:
        run, child_run = await failing.run_both_to_failure(service)
        failing.is_fixed = True
        await service.retry(WS, child_run.id)
        await service.retry(WS, run.id)
        try:
            await wait_until(lambda: waiting_run(service, run.id))
        finally:
            go_on.set()
        done = await wait_until(lambda: ended_run(service, run.id))
        assert (done.status, done.output) == (RunStatus.COMPLETED, {"log": [7]})


async def test_a_retried_parent_does_not_repeat_completed_children(run_storage: RunStorage) -> None:
    failing = FailingChild()

    def parent(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.start_run("three", {"n": 41})["n"], runtime.start_run("child")["n"]]}

    async with serving(
        run_storage, chain("parent", parent), chain("three", first, second), failing.graphs[1]
    ) as service:
        run = await run_to_end(service, "parent")
        children = {child.graph: child for child in (await service.runs(WS, RunFilter(parent_id=run.id))).items}
        failing.is_fixed = True
        await failing.retry_to_end(service, children["child"])
        done = await failing.retry_to_end(service, run)
        assert (done.status, done.output) == (RunStatus.COMPLETED, {"log": [42, 7]})
        received = [event.payload["signalType"] for event in await events_of(service, run, "SIGNAL_RECEIVED")]
        assert received.count(f"__run_ended:{children['three'].id}") == 1


async def run_to_end(service: Any, graph: str) -> Any:
    """Run a graph to its end."""
    run = await run_until_idle(service, graph)
    return await wait_until(lambda: ended_run(service, run.id))


async def test_children_without_wait_start_once_and_are_cancelled_with_their_parent(run_storage: RunStorage) -> None:
    def parent(state: State, runtime: Runtime[Any]) -> State:
        child = runtime.start_run("asks", wait=False)
        return {"log": [child, interrupt("and now?")]}

    async with serving(run_storage, chain("parent", parent), chain("asks", asks)) as service:
        run = await run_until_idle(service, "parent")
        child = await wait_until(lambda: waiting_child(service, run.id))
        await service.cancel(WS, run.id)
        assert (await service.run(WS, child.id)).status is RunStatus.CANCELLED
        assert (await service.runs(WS, RunFilter(parent_id=run.id))).total == 1


async def waiting_child(service: Any, parent_id: str) -> Any:
    runs = (await service.runs(WS, RunFilter(parent_id=parent_id))).items
    return runs[0] if runs and runs[0].status is RunStatus.WAITING else None


async def test_a_failed_run_starts_its_on_failure_graph(run_storage: RunStorage) -> None:
    def breaks(state: State) -> State:
        raise ValueError("failed")

    class FailureInput(TypedDict, total=False):
        runId: str
        graph: str
        input: Any
        error: Any

    def tells(state: FailureInput) -> None: ...

    after = StateGraph(FailureInput, name="tells")
    after.add_node("tells", tells)
    after.add_edge(START, "tells")
    after.add_edge("tells", END)
    async with serving(run_storage, chain("breaks", breaks), after) as service:
        run = await run_until_idle(service, "breaks", {"n": 1}, settings={"onFailure": "tells"})
        received = await wait_until(lambda: completed_run_of(service, "tells"))
        assert (received.input["runId"], received.input["error"]["code"]) == (run.id, "ValueError")


async def completed_run_of(service: Any, graph: str) -> Any:
    runs = (await service.runs(WS, RunFilter(graph=graph, status=[RunStatus.COMPLETED]))).items
    return runs[0] if runs else None


# -- limits, schedules, events, approvals


async def test_runs_with_a_concurrency_key_are_limited(run_storage: RunStorage) -> None:
    running, peak = [0], [0]
    lock = threading.Lock()

    def counts(state: State) -> State:
        with lock:
            running[0] += 1
            peak[0] = max(peak[0], running[0])
        threading.Event().wait(0.01)
        with lock:
            running[0] -= 1
        return {"log": ["done"]}

    async with serving(run_storage, chain("counts", counts)) as service:
        await asyncio.gather(
            *(run_until_idle(service, "counts", concurrency_key="k", concurrency_limit=2) for _ in range(10))
        )
        assert peak[0] == 2


async def test_a_scheduled_run_begins_at_its_time(run_storage: RunStorage) -> None:
    clock = FakeClock()
    async with serving(run_storage, chain("three", first), clock=clock) as service:
        started = await service.start(WS, StartRun(graph="three", after=clock.now() + timedelta(days=30)))
        await asyncio.sleep(0.05)
        assert (await service.run(WS, started.run.id)).status is RunStatus.PENDING
        clock.advance(timedelta(days=30))
        service.wake_background_tasks()
        assert (await wait_until(lambda: ended_run(service, started.run.id))).status is RunStatus.COMPLETED


async def test_events_can_be_followed_live_from_any_position(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("asks", first, asks, third)) as service:
        started = await service.start(WS, StartRun(graph="asks"))

        async def followed(after: int) -> list[int]:
            return [event.seq async for event in service.follow(WS, started.run.id, after=after)]

        following = [asyncio.create_task(followed(after)) for after in (0, 2)]
        await wait_until_idle(service, started.run)
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, started.run.id, {wait.id: "yes"})
        whole, part = await asyncio.gather(*following)
        assert whole == list(range(1, whole[-1] + 1))
        assert part == whole[2:]
        assert await followed(0) == whole


async def test_runs_of_a_dead_worker_continue_in_another_service(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("three", first, second)) as service:
        run = await run_until_idle(service, "three", thread_id="mine")
        thread = "left"
        started = await service.start(
            WS, StartRun(graph="three", thread_id=thread, after=service.clock.now() + timedelta(days=1))
        )
        # The state that a process leaves when it is killed after its first superstep.
        app = service.context.catalog.require("three").app.with_services(checkpointer=service.context.saver)
        await app.ainvoke({"n": 1}, thread_id=thread, run_id=started.run.id, interrupt_after="first")
        lease = LeaseRequest(
            f"{started.run.id}/gone", service.clock.now(), service.clock.now() + timedelta(hours=1), claims=True
        )
        answer: Any = service.context.saver.renew(thread, lease)
        if hasattr(answer, "result"):
            await asyncio.to_thread(answer.result)
        values = {
            "status": RunStatus.RUNNING,
            "begun": True,
            "claim": "gone",
            "worker_id": "gone",
            "due_at": None,
            "started_at": service.clock.now(),
        }
        await service.context.write([Advance(started.run.id, service.clock.now(), values)])
        assert run.status is RunStatus.COMPLETED
    from statewright.runs import Insert, Worker

    views = run_storage.views()
    dead = Worker(
        id="gone", place="elsewhere", pid=1, process_started="", capacity=1,
        until=service.clock.now() - timedelta(seconds=1), started_at=service.clock.now(),
    )  # fmt: skip
    answer = views["ledger"].write([Insert(dead)])
    if hasattr(answer, "result"):
        await asyncio.to_thread(answer.result)
    async with serving(run_storage, chain("three", first, second)) as service:
        done = await wait_until(lambda: ended_run(service, started.run.id))
        assert (done.status, done.output) == (RunStatus.COMPLETED, {"n": 2, "log": ["first", "second"]})


async def test_an_answer_of_the_wrong_type_is_refused(run_storage: RunStorage) -> None:
    def asks_for_a_number(state: State) -> State:
        return {"n": interrupt("how many?", schema=int)}

    def waits_for_a_number(state: State) -> State:
        return {"n": wait_for_event("count", schema=dict[str, int])["n"]}

    async with serving(run_storage, chain("asks", asks_for_a_number), chain("hears", waits_for_a_number)) as service:
        run = await run_until_idle(service, "asks")
        [wait] = (await service.waits(WS)).items
        with pytest.raises(InvalidRequest, match="does not fit"):
            await service.answer(WS, run.id, {wait.id: "many"})
        await service.answer(WS, run.id, {wait.id: 3})
        assert (await wait_until_idle(service, run)).output["n"] == 3
        run = await run_until_idle(service, "hears")
        await service.signal(WS, run.id, "count", {"n": "many"})
        await wait_until(lambda: events_of(service, run, "SIGNAL_IGNORED"))
        assert (await wait_until_idle(service, run)).status is RunStatus.WAITING
        await service.signal(WS, run.id, "count", {"n": 4})
        assert (await wait_until(lambda: ended_run(service, run.id))).output["n"] == 4


async def test_an_approval_is_decided_once(run_storage: RunStorage) -> None:
    def approved(state: State) -> State:
        return {"log": [request_approval("a letter").verdict]}

    async with serving(run_storage, chain("letter", approved)) as service:
        run = await run_until_idle(service, "letter", timeout=60)
        [request] = (await service.approvals(WS, pending=True)).items
        with pytest.raises(InvalidRequest, match="is an approval"):
            await service.answer(WS, run.id, {request.id: "yes"})
        decided = await asyncio.gather(
            *(service.decide(WS, request.id, "approved", decided_by=name) for name in ("ann", "bob")),
            return_exceptions=True,
        )
        assert sum(isinstance(result, InvalidTransition) for result in decided) == 1
        assert (await wait_until_idle(service, run)).output == {"log": ["approved"]}
        assert len(await events_of(service, run, "APPROVAL_DECIDED")) == 1


async def test_an_open_approval_expires_with_its_run(run_storage: RunStorage) -> None:
    clock = FakeClock()

    def approved(state: State) -> State:
        return {"log": [request_approval("a letter").verdict]}

    async with serving(run_storage, chain("letter", approved), clock=clock) as service:
        run = await run_until_idle(service, "letter", timeout=60)
        clock.advance(61)
        service.wake_background_tasks()
        assert (await wait_until(lambda: ended_run(service, run.id))).status is RunStatus.FAILED
        [request] = (await service.approvals(WS)).items
        assert request.decision == "expired"


async def test_an_oversized_output_fails_the_run(run_storage: RunStorage) -> None:
    def writes(state: State) -> State:
        return {"log": ["x" * 500]}

    async with serving(run_storage, chain("large", writes), settings=ServiceSettings(max_output=400)) as service:
        run = await run_until_idle(service, "large")
        assert (run.status, run.error["code"], run.output) == (RunStatus.FAILED, "OUTPUT_TOO_LARGE", None)


async def test_live_followers_receive_events_that_are_not_stored(run_storage: RunStorage) -> None:
    def talks(state: State, runtime: Runtime[Any]) -> State:
        runtime.stream_writer({"half": "way"})
        return {"log": ["done"]}

    async with serving(run_storage, chain("talks", asks, talks)) as service:
        run = await run_until_idle(service, "talks")
        [wait] = (await service.waits(WS)).items

        async def followed(live: bool) -> list[Any]:
            return [event async for event in service.follow(WS, run.id, live=live)]

        following = [asyncio.create_task(followed(live)) for live in (True, False)]
        while service.hub.listener_count < 2:
            await asyncio.sleep(0.005)
        await service.answer(WS, run.id, {wait.id: "yes"})
        live, durable = await asyncio.gather(*following)
        received = [event for event in live if isinstance(event, LiveEvent)]
        assert [(event.type, event.payload, event.step) for event in received] == [("custom", {"half": "way"}, "talks")]
        assert [event for event in live if not isinstance(event, LiveEvent)] == durable


# -- versions


def definition_of(version: str, last: str) -> dict[str, Any]:
    return {
        "name": "order",
        "version": version,
        "steps": [
            {"type": "external_event", "name": "paid", "signalType": "paid"},
            {"type": "task", "name": last, "handler": last},
        ],
    }


HANDLERS = Handlers(
    {name: lambda context: StepResult(state_updates={"by": context.step_name}) for name in ("old", "new")}
)


@pytest.mark.parametrize("is_stored", [True, False], ids=["added by the API", "served by the project"])
async def test_a_run_keeps_the_version_that_it_began_with(run_storage: RunStorage, is_stored: bool) -> None:
    async with serving(run_storage, *([] if is_stored else [definition_of("1", "old")]), handlers=HANDLERS) as service:
        if is_stored:
            await service.add_definition(WS, definition_of("1", "old"))
        before = await run_until_idle(service, "order")
        assert before.status is RunStatus.WAITING
        if is_stored:
            await service.add_definition(WS, definition_of("2", "new"))
    async with serving(run_storage, *([] if is_stored else [definition_of("2", "new")]), handlers=HANDLERS) as service:
        after = await run_until_idle(service, "order")
        assert before.definition_id != after.definition_id
        for run, name in ((before, "old"), (after, "new")):
            await service.signal(WS, run.id, "paid", {"sum": 1})
            assert (await wait_until(lambda run=run: ended_run(service, run.id))).output == {"sum": 1, "by": name}


async def test_a_version_of_a_definition_is_immutable(run_storage: RunStorage) -> None:
    async with serving(run_storage, handlers=HANDLERS) as service:
        one = await service.add_definition(WS, definition_of("1", "old"))
        same = await service.add_definition(WS, definition_of("1", "old"))
        assert (one.created, same.created, same.definition.id) == (True, False, one.definition.id)
        with pytest.raises(RequestConflict, match="another version"):
            await service.add_definition(WS, definition_of("1", "new"))
        elsewhere = await service.add_definition("other", definition_of("1", "new"))
        assert elsewhere.definition.id != one.definition.id
        with pytest.raises(NotFound):
            await service.start(WS, StartRun(definition_id=elsewhere.definition.id))


async def test_a_run_is_postponed_until_its_graph_is_served_again(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain("pays", waits_for_payment)) as service:
        run = await run_until_idle(service, "pays")
    clock = FakeClock(run.created_at + timedelta(hours=1))
    async with serving(run_storage, clock=clock) as service:
        await service.signal(WS, run.id, "payment_confirmed", {"amount": 1})
        postponed = await wait_until(lambda: postponed_run(service, run.id))
        assert postponed.status is RunStatus.WAITING
    clock.advance(60)
    async with serving(run_storage, chain("pays", waits_for_payment), clock=clock) as service:
        assert (await wait_until(lambda: ended_run(service, run.id))).output == {"log": [{"amount": 1}]}


async def postponed_run(service: Any, run_id: str) -> Any:
    run = await service.run(WS, run_id)
    return run if run.claim is None and run.due_at is not None and run.due_at > service.clock.now() else None


async def test_secrets_are_redacted_in_events_but_not_in_run_data(run_storage: RunStorage) -> None:
    def breaks(state: State) -> State:
        raise ValueError("the key sk-123 is wrong")

    def redact(value: Any) -> Any:
        return json.loads(json.dumps(value).replace("sk-123", "[redacted]"))

    async with serving(run_storage, chain("breaks", breaks), redact=redact) as service:
        run = await run_until_idle(service, "breaks", {"log": ["sk-123"]})
        assert run.error["message"] == "ValueError: the key [redacted] is wrong"
        assert "sk-123" not in str(await service.events(WS, run.id)) + str(await service.steps(WS, run.id))
        assert (run.input, await service.state(WS, run.id)) == ({"log": ["sk-123"]}, {"log": ["sk-123"]})


@pytest.mark.sampled(2)
async def test_a_stopping_service_does_not_wait_for_scheduled_retries(run_storage: RunStorage) -> None:
    healthy, calls = threading.Event(), list[int]()

    def flaky(state: State) -> State:
        calls.append(1)
        if not healthy.is_set():
            raise ConnectionError("again")
        return {"log": ["through"]}

    policy = RetryPolicy(max_attempts=3, initial_interval=4.0, jitter=False)
    async with serving(run_storage, chain("flaky", flaky, retry_policy=policy)) as service:
        started = await service.start(WS, StartRun(graph="flaky"))
        await wait_until(lambda: events_of(service, started.run, "STEP_RETRY_SCHEDULED"))
    assert len(calls) == 1  # the service did not wait for the next attempt
    healthy.set()
    async with serving(run_storage, chain("flaky", flaky, retry_policy=policy)) as service:
        done = await wait_until(lambda: ended_run(service, started.run.id))
        assert done.output == {"log": ["through"]}
        [step] = await service.steps(WS, done.id)
        assert (step.status, step.attempt) == (StepStatus.COMPLETED, 2)


async def test_a_node_may_cancel_its_run(run_storage: RunStorage) -> None:
    async def gives_up(state: State, runtime: Runtime[Any]) -> State:
        runtime.control.request_cancel("no use")
        await asyncio.sleep(PATIENCE)
        return {}

    async with serving(run_storage, chain("hopeless", gives_up)) as service:
        run = await run_until_idle(service, "hopeless")
        assert run.status is RunStatus.CANCELLED
        [event] = await events_of(service, run, "WORKFLOW_CANCELLED")
        assert "no use" in event.payload["reason"]

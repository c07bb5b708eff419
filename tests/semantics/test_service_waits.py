"""Runs with several waits at once, at any level of their graphs: each question is asked and answered once."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections import Counter
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
)

from statewright import (
    END,
    START,
    Command,
    RetryPolicy,
    Send,
    StateGraph,
    entrypoint,
    interrupt,
    sleep,
    task,
    wait_for_event,
)
from statewright.errors import InvalidRequest, NotFound
from statewright.graph import NodeError
from statewright.runs import ENDED, RunStatus, StepStatus
from statewright.service import Catalog, Service, ServiceSettings
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(poll_interval=0.02, drain=0.2)
HOUR = timedelta(hours=1)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def side_by_side(name: str, *nodes: Any, then: Any = None) -> StateGraph:
    graph = StateGraph(State, name=name)
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(START, node.__name__)
    if then is None:
        for node in nodes:
            graph.add_edge(node.__name__, END)
    else:
        graph.add_node("then", then)
        graph.add_edge([node.__name__ for node in nodes], "then")
        graph.add_edge("then", END)
    return graph


def asking(name: str, question: Any = None) -> Any:
    """Return a node of this name that asks a question, by default its name."""

    def ask(state: State) -> State:
        return {"log": [f"{name}: {interrupt(question or name)}"]}

    ask.__name__ = name
    return ask


def await_approval(state: State) -> State:
    answer = interrupt({"type": "approval", "contentKey": None, "content": "a letter", "prompt": "send it?"})
    return {"log": [answer["decision"]]}


def nap(state: State) -> State:
    sleep(HOUR)
    return {"log": ["slept"]}


def await_payment(state: State) -> State:
    return {"log": [wait_for_event("paid")["amount"]]}


def finish(state: State) -> State:
    return {"log": ["end"]}


async def waits_of(service: Any, run: Any) -> dict[str, Any]:
    """Return the open waits of a run by their question, or by the name of their step."""
    items = (await service.waits(WS, page_size=100)).items
    waits = [wait for wait in items if wait.run_id == run.id]
    return {wait.value if isinstance(wait.value, str) else wait.step_name: wait for wait in waits}


async def answer(service: Any, run: Any, question: str, value: Any = "yes") -> Any:
    """Answer a question, and return the run once it is idle."""
    await service.answer(WS, run.id, {(await waits_of(service, run))[question].id: value})
    return await settled(service, run)


async def settled(service: Any, run: Any) -> Any:
    """Return the run once it has ended, is paused, or waits for input or a later time."""
    async with asyncio.timeout(600):
        while True:
            current = await service.run(WS, run.id)
            if current.claim is None and (current.status in ENDED or current.status is RunStatus.PAUSED):
                return current
            is_idle = current.due_at is None or current.due_at > service.clock.now()
            if current.claim is None and current.status is RunStatus.WAITING and is_idle:
                return current
            await asyncio.sleep(0.005)


async def statuses(service: Any, run: Any) -> dict[str, str]:
    return {step.name: str(step.status) for step in await service.steps(WS, run.id)}


# -- several waits at once


async def test_waits_of_all_kinds_end_independently(run_storage: RunStorage) -> None:
    clock = FakeClock()
    graph = side_by_side("all", asking("one"), asking("two"), nap, await_payment, then=finish)
    async with serving(run_storage, graph, clock=clock, settings=QUICK) as service:
        run = await run_until_idle(service, "all")
        assert len(await waits_of(service, run)) == 4
        assert run.due_at == clock.now() + HOUR
        run = await answer(service, run, "two")
        assert (run.status, run.due_at) == (RunStatus.WAITING, clock.now() + HOUR)
        assert await statuses(service, run) == {
            "one": "waiting", "two": "completed", "nap": "waiting", "await_payment": "waiting",
        }  # fmt: skip
        clock.advance(HOUR)
        service.wake_background_tasks()
        await wait_until(lambda: events_of(service, run, "TIMER_FIRED"))
        run = await settled(service, run)
        assert (run.status, run.due_at) == (RunStatus.WAITING, None)
        await service.signal(WS, run.id, "paid", {"amount": 5}, must_wait=True)
        await wait_until(lambda: events_of(service, run, "SIGNAL_RECEIVED"))
        run = await settled(service, run)
        assert list(await waits_of(service, run)) == ["one"]
        run = await answer(service, run, "one")
        assert run.output == {"log": ["one: yes", "two: yes", "slept", 5, "end"]}
        types = Counter(await types_of(service, run))
        assert (types["STEP_WAITING"], types["TIMER_FIRED"], types["SIGNAL_RECEIVED"]) == (4, 1, 3)
        assert (types["STEP_STARTED"], types["STEP_COMPLETED"]) == (5, 5)


async def test_several_answers_in_one_call_are_all_taken(run_storage: RunStorage) -> None:
    graph = side_by_side("all", asking("one"), asking("two"), asking("three"))
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await run_until_idle(service, "all")
        waits = await waits_of(service, run)
        with pytest.raises(NotFound):
            await service.answer(WS, run.id, {waits["one"].id: 1, "missing": 2})
        assert len(await waits_of(service, run)) == 3
        await service.answer(WS, run.id, {wait.id: name for name, wait in waits.items()})
        assert (await settled(service, run)).output == {"log": ["one: one", "two: two", "three: three"]}


async def test_consecutive_services_can_answer_the_waits_of_a_run(run_storage: RunStorage) -> None:
    names = ("one", "two", "three")
    graph = side_by_side("all", *(asking(name) for name in names), then=finish)
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await run_until_idle(service, "all")
    for name in names:
        async with serving(run_storage, graph, settings=QUICK) as service:
            run = await answer(service, run, name)
    assert run.output == {"log": ["one: yes", "two: yes", "three: yes", "end"]}


async def test_one_event_ends_every_wait_for_its_type(run_storage: RunStorage) -> None:
    graph = StateGraph(State, name="all")
    for name in ("one", "two"):
        graph.add_node(name, await_payment)
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    async with serving(run_storage, graph, settings=QUICK) as service:
        runs = [await run_until_idle(service, "all") for _ in range(3)]
        event = await service.send_event(WS, "paid", {"amount": 2}, key="k")
        again = await service.send_event(WS, "paid", {"amount": 3}, key="k")
        assert sorted(event.woken) == sorted(run.id for run in runs)
        assert again.id == event.id
        for run in runs:
            assert (await settled(service, run)).output == {"log": [2, 2]}


# -- a failure next to a wait


def failing_while(broken: list[bool]) -> Any:
    """Return a node that fails while `broken` is not empty."""

    def fail(state: State) -> State:
        if broken:
            raise ValueError("no luck")
        return {"log": ["fixed"]}

    return fail


async def test_retrying_a_run_repeats_the_question_next_to_the_failed_step(run_storage: RunStorage) -> None:
    broken = [True]
    graph = side_by_side("mixed", asking("one"), failing_while(broken))
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await run_until_idle(service, "mixed")
        assert run.status is RunStatus.FAILED
        assert (await service.waits(WS)).total == 0
        assert await statuses(service, run) == {"one": "failed", "fail": "failed"}
        broken.clear()
        await service.retry(WS, run.id)
        run = await settled(service, run)
        assert run.status is RunStatus.WAITING
        assert await statuses(service, run) == {"one": "waiting", "fail": "completed"}
        run = await answer(service, run, "one")
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"log": ["one: yes", "fixed"]})


async def test_a_failed_run_has_no_pending_approval(run_storage: RunStorage) -> None:
    async with serving(
        run_storage, side_by_side("mixed", await_approval, failing_while([True])), settings=QUICK
    ) as service:
        run = await run_until_idle(service, "mixed")
        assert run.status is RunStatus.FAILED
        assert (await service.approvals(WS, pending=True)).total == 0


async def test_retrying_a_run_reopens_the_approval_next_to_the_failed_step(run_storage: RunStorage) -> None:
    broken = [True]
    async with serving(
        run_storage, side_by_side("mixed", await_approval, failing_while(broken)), settings=QUICK
    ) as service:
        run = await run_until_idle(service, "mixed")
        broken.clear()
        await service.retry(WS, run.id)
        run = await settled(service, run)
        [pending] = (await service.approvals(WS, pending=True)).items
        await service.decide(WS, pending.id, "approved")
        assert (await settled(service, run)).output == {"log": ["approved", "fixed"]}


async def test_an_approval_decided_before_its_run_failed_stays_decided(run_storage: RunStorage) -> None:
    broken, begun, go = [True], threading.Event(), threading.Event()

    def fail_late(state: State) -> State:
        answer = interrupt("how?")
        begun.set()
        go.wait(PATIENCE)
        if broken:
            raise ConnectionError("away")
        return {"log": [answer]}

    async with serving(run_storage, side_by_side("mixed", await_approval, fail_late), settings=QUICK) as service:
        run = await run_until_idle(service, "mixed")
        await service.answer(WS, run.id, {(await waits_of(service, run))["how?"].id: "well"})
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        [pending] = (await service.approvals(WS, pending=True)).items
        try:
            decided = await service.decide(WS, pending.id, "rejected", decided_by="Ann")
        finally:
            go.set()
        assert (await settled(service, run)).status is RunStatus.FAILED
        assert await service.approval(WS, pending.id) == decided
        broken.clear()
        await service.retry(WS, run.id)
        assert (await settled(service, run)).output == {"log": ["rejected", "well"]}
        assert await service.approval(WS, pending.id) == decided
        assert (await service.approvals(WS, pending=True)).total == 0
        assert len(await events_of(service, run, "APPROVAL_REQUESTED")) == 1


# -- answers that violate the schema


async def test_an_answer_that_violates_the_schema_is_refused_and_the_question_stays_open(
    run_storage: RunStorage,
) -> None:
    def ask_for_number(state: State) -> State:
        return {"log": [interrupt("how many?", schema=int)]}

    async with serving(run_storage, side_by_side("ask_for_number", ask_for_number), settings=QUICK) as service:
        run = await run_until_idle(service, "ask_for_number")
        [wait] = (await service.waits(WS)).items
        assert wait.schema == {"type": "integer"}
        with pytest.raises(InvalidRequest):
            await service.answer(WS, run.id, {wait.id: "many"})
        await service.answer(WS, run.id, {wait.id: 3})
        assert (await settled(service, run)).output == {"log": [3]}


# -- waits in nested graphs


def nested(*nodes: Any) -> StateGraph:
    graph = StateGraph(State, name="nested")
    graph.add_node("inner", side_by_side("inner", *nodes).compile())
    graph.add_node("finish", finish)
    graph.add_edge(START, "inner")
    graph.add_edge("inner", "finish")
    graph.add_edge("finish", END)
    return graph


async def test_a_question_in_a_nested_graph_is_a_wait_of_the_run(run_storage: RunStorage) -> None:
    async with serving(run_storage, nested(asking("one")), settings=QUICK) as service:
        run = await run_until_idle(service, "nested")
        assert await statuses(service, run) == {"inner": "waiting"}
        run = await answer(service, run, "one")
        assert run.output == {"log": ["one: yes", "end"]}
        assert [step.type for step in await service.steps(WS, run.id)] == ["subgraph", "node"]


async def test_questions_in_a_nested_graph_can_be_answered_one_by_one(run_storage: RunStorage) -> None:
    async with serving(run_storage, nested(asking("one"), asking("two")), settings=QUICK) as service:
        run = await run_until_idle(service, "nested")
        run = await answer(service, run, "one")
        assert list(await waits_of(service, run)) == ["two"]
        run = await answer(service, run, "two")
        assert run.output == {"log": ["one: yes", "two: yes", "end"]}
        assert len(await events_of(service, run, "STEP_WAITING")) == 2


async def test_an_approval_in_a_nested_graph_can_be_decided_before_other_answers(run_storage: RunStorage) -> None:
    async with serving(run_storage, nested(await_approval, asking("two")), settings=QUICK) as service:
        run = await run_until_idle(service, "nested")
        [pending] = (await service.approvals(WS, pending=True)).items
        await service.decide(WS, pending.id, "approved")
        run = await settled(service, run)
        run = await answer(service, run, "two")
        assert run.output == {"log": ["approved", "two: yes", "end"]}


# -- many tasks of one node


class Item(TypedDict):
    i: int


async def test_fifty_sends_complete_though_some_wait_and_some_fail_once(run_storage: RunStorage) -> None:
    broken = [True]

    def fan(state: State) -> Command[Any]:
        return Command(goto=[Send("work", {"i": i}) for i in range(50)])

    def work(item: Item) -> State:
        if item["i"] % 10 == 3:
            return {"log": [interrupt(f"q{item['i']}")]}
        if item["i"] % 10 == 7 and broken:
            raise ValueError(f"no {item['i']}")
        return {"log": [item["i"]]}

    graph = StateGraph(State, name="fan")
    graph.add_node("fan", fan, destinations=["work"])
    graph.add_node("work", work, input_schema=Item)
    graph.add_node("join", finish, defer=True)
    graph.add_edge(START, "fan")
    graph.add_edge("work", "join")
    graph.add_edge("join", END)
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await run_until_idle(service, "fan")
        assert (run.status, run.error["step"]) == (RunStatus.FAILED, "work")
        assert len(await service.steps(WS, run.id)) == 51
        broken.clear()
        await service.retry(WS, run.id)
        run = await settled(service, run)
        while run.status is RunStatus.WAITING:
            waits = await waits_of(service, run)
            some = sorted(waits)[:2]
            await service.answer(WS, run.id, {waits[name].id: name for name in some})
            run = await settled(service, run)
        assert (run.status, len(run.output["log"])) == (RunStatus.COMPLETED, 51)
        assert run.output["log"][-1] == "end"
        assert run.output["log"][:5] == [0, 1, 2, "q3", 4]
        types = Counter(await types_of(service, run))
        assert (types["STEP_STARTED"], types["STEP_COMPLETED"], types["WORKFLOW_COMPLETED"]) == (52, 52, 1)
        positions = [step.position for step in await service.steps(WS, run.id) if step.name == "work"]
        assert positions == list(range(50))


# -- retries while other nodes continue


async def test_attempts_are_reported_once_while_parallel_tasks_finish(run_storage: RunStorage) -> None:
    tries: list[int] = []

    def flaky(state: State) -> State:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("again")
        return {"log": ["flaky"]}

    def finishing_after(seconds: float) -> Any:
        async def finish_later(state: State) -> State:
            await asyncio.sleep(seconds)
            return {}

        return finish_later

    graph = StateGraph(State, name="mixed")
    policy = RetryPolicy(max_attempts=3, initial_interval=0.03, jitter=False)
    graph.add_node("flaky", flaky, retry_policy=policy)
    for number, seconds in enumerate((0.01, 0.02, 0.05, 0.07)):
        graph.add_node(f"later{number}", finishing_after(seconds))
    for name in ("flaky", *(f"later{n}" for n in range(4))):
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await run_until_idle(service, "mixed")
        assert run.status is RunStatus.COMPLETED
        types = Counter(await types_of(service, run))
        assert (types["STEP_FAILED"], types["STEP_RETRY_SCHEDULED"], types["STEP_COMPLETED"]) == (2, 2, 5)


async def test_a_handled_error_does_not_fail_the_run(run_storage: RunStorage) -> None:
    def handle(state: State, error: NodeError) -> State:
        return {"log": [f"handled {error.error}"]}

    graph = StateGraph(State, name="handled")
    graph.add_node("fail", failing_while([True]), error_handler=handle)
    graph.add_node("finish", finish)
    graph.add_edge(START, "fail")
    graph.add_edge("fail", "finish")
    graph.add_edge("finish", END)
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await run_until_idle(service, "handled")
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"log": ["handled no luck", "end"]})
        assert run.error is None


# -- entrypoints as runs


async def test_an_entrypoint_can_run_as_a_durable_run(run_storage: RunStorage) -> None:
    calls: list[int] = []

    @task
    def double(number: int) -> int:
        calls.append(number)
        return 2 * number

    @entrypoint()
    def flow(number: int) -> int:
        doubled = double(number).result()
        return doubled + interrupt(f"and to {doubled}?")

    catalog = Catalog()
    catalog.serve("flow", flow)
    async with Service(catalog, **run_storage.views(), settings=QUICK) as service:
        run = await run_until_idle(service, "flow", 21)
        assert (run.status, run.input) == (RunStatus.WAITING, 21)
        run = await answer(service, run, "and to 42?", 8)
        assert (run.status, run.output, calls) == (RunStatus.COMPLETED, 50, [21])
        [step] = await service.steps(WS, run.id)
        assert step.status is StepStatus.COMPLETED


# -- timeouts of steps in JSON


def workflow_of(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"name": "flow", "version": "1", "steps": list(steps)}


async def test_an_event_that_does_not_arrive_in_time_fails_the_run(run_storage: RunStorage) -> None:
    clock = FakeClock()
    step = {
        "name": "pay",
        "type": "external_event",
        "signalType": "paid",
        "timeoutMs": 1000,
        "retry": {"maxAttempts": 1},
    }
    async with serving(run_storage, workflow_of(step), clock=clock, settings=QUICK) as service:
        run = await run_until_idle(service, "flow")
        [step_run] = await service.steps(WS, run.id)
        assert (step_run.status, step_run.signal_type) == (StepStatus.WAITING, "paid")
        assert step_run.wait_until == run.due_at == clock.now() + timedelta(seconds=1)
        clock.advance(timedelta(seconds=1))
        service.wake_background_tasks()
        await wait_until(lambda: events_of(service, run, "TIMER_FIRED"))
        run = await settled(service, run)
        assert (run.status, run.error["code"], run.error["step"]) == (RunStatus.FAILED, "SIGNAL_TIMEOUT", "pay")
        [step_run] = await service.steps(WS, run.id)
        assert (step_run.status, step_run.error["code"]) == (StepStatus.FAILED, "SIGNAL_TIMEOUT")


async def test_an_undecided_approval_expires_and_fails_the_run(run_storage: RunStorage) -> None:
    clock = FakeClock()
    handlers = {"write": lambda ctx: {"stateUpdates": {"letter": "dear"}}}
    document = workflow_of(
        {"name": "write", "type": "task", "handler": "write"},
        {"name": "agree", "type": "approval", "contentKey": "letter", "timeoutMs": 1000},
    )
    catalog = Catalog(handlers=_handlers(handlers))
    catalog.serve_steps(document)
    async with Service(catalog, **run_storage.views(), clock=clock, settings=QUICK) as service:
        run = await run_until_idle(service, "flow")
        [pending] = (await service.approvals(WS, pending=True)).items
        assert (pending.content, pending.expires_at) == ("dear", clock.now() + timedelta(seconds=1))
        clock.advance(timedelta(seconds=1))
        service.wake_background_tasks()
        await wait_until(lambda: events_of(service, run, "APPROVAL_EXPIRED"))
        run = await settled(service, run)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "APPROVAL_EXPIRED")
        assert (await service.approval(WS, pending.id)).decision == "expired"


def _handlers(functions: dict[str, Any]) -> Any:
    from statewright.workflow.steps import Handlers

    handlers = Handlers()
    for name, function in functions.items():
        handlers.register(name, function)
    return handlers

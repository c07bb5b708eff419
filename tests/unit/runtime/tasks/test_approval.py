"""Approvals in Python graphs: decisions, invalid decisions and expiry."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

from statewright import START, Command, CompiledGraph, InMemorySaver, StateGraph, request_approval
from statewright.runs import DEFAULT_WORKSPACE, Run, RunStatus
from statewright.service import Catalog, Service
from statewright.service.context.requests import StartRun
from statewright.testing import FakeClock

TIMEOUT = 600.0
"""Seconds after which a test fails."""


class State(TypedDict, total=False):
    decision: Any


def approval_app(clock: FakeClock, **options: Any) -> CompiledGraph:
    """Return a graph that requests an approval of 7."""

    def ask(state: State) -> State:
        approval = request_approval(7, prompt="Take it?", **options)
        return {"decision": [approval.verdict, approval.content, approval.decided_by, approval.is_approved]}

    return StateGraph(State).add_node(ask).add_edge(START, "ask").compile(InMemorySaver(), clock=clock)


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ({"decision": "approved", "content": 8}, ["approved", 7, None, True]),
        ({"decision": "edited", "content": 8, "decidedBy": "Ann"}, ["edited", 8, "Ann", True]),
        ({"decision": "rejected", "decidedBy": "Ann"}, ["rejected", 7, "Ann", False]),
    ],
)
def test_the_answer_of_a_request_is_its_decision(answer: Any, decision: list[Any]) -> None:
    app = approval_app(FakeClock(), content_key="price")
    [question] = app.invoke({}, thread_id="1")["__interrupt__"]
    assert question.value == {"type": "approval", "contentKey": "price", "content": 7, "prompt": "Take it?"}
    assert app.invoke(Command(resume=answer), thread_id="1") == {"decision": decision}


@pytest.mark.parametrize("answer", ["yes", {}, {"decision": "perhaps"}, {"decision": "edited"}, {"decision": ["x"]}])
def test_an_invalid_decision_is_requested_again(answer: Any) -> None:
    app = approval_app(FakeClock(), key="price")
    [first] = app.invoke({}, thread_id="1")["__interrupt__"]
    [again] = app.invoke(Command(resume={first.id: answer}), thread_id="1")["__interrupt__"]
    assert (again.value, again.id == first.id) == (first.value, False)
    assert app.invoke(Command(resume={"decision": "approved"}), thread_id="1")["decision"][0] == "approved"


def test_an_approval_expires_after_its_timeout() -> None:
    clock = FakeClock()
    app = approval_app(clock, timeout=60)
    app.invoke({}, thread_id="1")
    clock.advance(60)
    assert app.resume_due(thread_id="1") == {"decision": ["expired", 7, None, False]}


def test_a_retried_run_requests_a_rejected_approval_again() -> None:
    def ask(state: State) -> State:
        approval = request_approval(7)
        if not approval.is_approved:
            raise ValueError("It was rejected.")
        return {"decision": approval.verdict}

    graph = StateGraph(State, name="approval").add_node(ask).add_edge(START, "ask")

    async def decide(service: Service, run: Run, decision: str) -> Run:
        [request] = (await service.approvals(DEFAULT_WORKSPACE, pending=True)).items
        await service.decide(DEFAULT_WORKSPACE, request.id, decision)
        return await service.wait(DEFAULT_WORKSPACE, run.id, TIMEOUT)

    async def reject_and_approve() -> Run:
        catalog = Catalog()
        catalog.serve("approval", graph)
        async with Service(catalog) as service:
            request = StartRun(graph="approval", input={})
            started = await service.start_and_wait(DEFAULT_WORKSPACE, request, TIMEOUT)
            run = await decide(service, started.run, "rejected")
            assert run.error["message"] == "ValueError: It was rejected."
            await service.retry(DEFAULT_WORKSPACE, run.id)
            run = await service.wait(DEFAULT_WORKSPACE, run.id, TIMEOUT)
            assert run.status is RunStatus.WAITING
            return await decide(service, run, "approved")

    assert asyncio.run(reject_and_approve()).output == {"decision": "approved"}

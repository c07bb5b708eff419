"""Approvals in Python graphs: what somebody decides, and what is no decision."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

from statewright import START, Command, CompiledGraph, InMemorySaver, StateGraph, request_approval
from statewright.runs import DEFAULT_WORKSPACE, Run, RunStatus
from statewright.service import Catalog, Service
from statewright.service.context.requests import StartRun
from statewright.testing import FakeClock

PATIENCE = 600.0
"""Seconds after which a test gives up."""


class Asking(TypedDict, total=False):
    decision: Any


def asking(clock: FakeClock, **options: Any) -> CompiledGraph:
    """A graph that asks for an approval of 7."""

    def ask(state: Asking) -> Asking:
        found = request_approval(7, prompt="Take it?", **options)
        return {"decision": [found.verdict, found.content, found.decided_by, found.is_approved]}

    return StateGraph(Asking).add_node(ask).add_edge(START, "ask").compile(InMemorySaver(), clock=clock)


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ({"decision": "approved", "content": 8}, ["approved", 7, None, True]),
        ({"decision": "edited", "content": 8, "decidedBy": "Ann"}, ["edited", 8, "Ann", True]),
        ({"decision": "rejected", "decidedBy": "Ann"}, ["rejected", 7, "Ann", False]),
    ],
)
def test_a_decision_is_what_somebody_has_answered(answer: Any, decision: list[Any]) -> None:
    app = asking(FakeClock(), content_key="price")
    [question] = app.invoke({}, thread_id="1")["__interrupt__"]
    assert question.value == {"type": "approval", "contentKey": "price", "content": 7, "prompt": "Take it?"}
    assert app.invoke(Command(resume=answer), thread_id="1") == {"decision": decision}


@pytest.mark.parametrize("answer", ["yes", {}, {"decision": "perhaps"}, {"decision": "edited"}, {"decision": ["x"]}])
def test_what_is_no_decision_is_asked_for_again(answer: Any) -> None:
    app = asking(FakeClock(), key="price")
    [first] = app.invoke({}, thread_id="1")["__interrupt__"]
    [again] = app.invoke(Command(resume={first.id: answer}), thread_id="1")["__interrupt__"]
    assert (again.value, again.id == first.id) == (first.value, False)
    assert app.invoke(Command(resume={"decision": "approved"}), thread_id="1")["decision"][0] == "approved"


def test_an_approval_that_nobody_gives_expires() -> None:
    clock = FakeClock()
    app = asking(clock, timeout=60)
    app.invoke({}, thread_id="1")
    clock.advance(60)
    assert app.resume_due(thread_id="1") == {"decision": ["expired", 7, None, False]}


def test_a_run_that_was_rejected_and_is_tried_again_asks_anew() -> None:
    def ask(state: Asking) -> Asking:
        found = request_approval(7)
        if not found.is_approved:
            raise ValueError("It was rejected.")
        return {"decision": found.verdict}

    graph = StateGraph(Asking, name="asking").add_node(ask).add_edge(START, "ask")

    async def decided(service: Service, run: Run, decision: str) -> Run:
        [request] = (await service.approvals(DEFAULT_WORKSPACE, pending=True)).items
        await service.decide(DEFAULT_WORKSPACE, request.id, decision)
        return await service.wait(DEFAULT_WORKSPACE, run.id, PATIENCE)

    async def rejected_and_approved() -> Run:
        catalog = Catalog()
        catalog.serve("asking", graph)
        async with Service(catalog) as service:
            wanted = StartRun(graph="asking", input={})
            started = await service.start_and_wait(DEFAULT_WORKSPACE, wanted, PATIENCE)
            run = await decided(service, started.run, "rejected")
            assert run.error["message"] == "ValueError: It was rejected."
            await service.retry(DEFAULT_WORKSPACE, run.id)
            run = await service.wait(DEFAULT_WORKSPACE, run.id, PATIENCE)
            assert run.status is RunStatus.WAITING
            return await decided(service, run, "approved")

    assert asyncio.run(rejected_and_approved()).output == {"decision": "approved"}

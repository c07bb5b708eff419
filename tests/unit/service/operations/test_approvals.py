"""Approvals: visible to their workspace, and decided once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidRequest, InvalidTransition, NotFound
from statewright.runs import Approval, Insert, Ledger, Run, RunStatus, Signal, Wait
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.operations.approvals import ApprovalOperations
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def context(storage: tuple[Ledger, Checkpointer]) -> ServiceContext:
    return ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_payload=1000))


async def request_approval(
    context: ServiceContext, run: Run, *, waits: bool = True, status: RunStatus = RunStatus.WAITING, wait_id: str = "w"
) -> Approval:
    run.status = status
    fields = {
        "run_id": run.id,
        "workspace_id": run.workspace_id,
        "step_id": "s",
        "step_name": "agree",
        "created_at": context.now(),
    }
    approval = Approval(id=wait_id, content={"text": "dear"}, content_key="letter", **fields)
    wait = Wait(id=wait_id, interrupt_id=f"i-{wait_id}", kind="question", **fields)
    await context.write([Insert(run), Insert(approval), *([Insert(wait)] if waits else [])])
    return approval


@pytest.mark.parametrize(
    ("decision", "edited_content", "content"),
    [("approved", None, {"text": "dear"}), ("rejected", None, {"text": "dear"}), ("edited", "better", "better")],
)
async def test_a_decision_answers_its_question(
    context: ServiceContext, new_run: Callable[..., Run], decision: str, edited_content: Any, content: Any
) -> None:
    run = new_run()
    await request_approval(context, run)
    decided = await ApprovalOperations(context).decide(
        "default", "w", decision, edited_content=edited_content, decided_by="ann"
    )
    assert (decided.decision, decided.decided_by, decided.decided_at) == (decision, "ann", context.now())
    assert (decided.edited_content, decided.content) == (edited_content, {"text": "dear"})
    [signal] = await aresolve(context.ledger.find(Signal))
    assert signal.payload == {"decision": decision, "content": content, "decidedBy": "ann", "decidedByKey": None}
    result = await context.records.run("default", run.id)
    assert result.due_at == context.now()
    [event] = await aresolve(context.ledger.events(run.id))
    assert (event.type, event.step_id) == ("APPROVAL_DECIDED", "s")
    decider = {"decidedBy": "ann", "decidedByKey": None}
    assert event.payload == {"stepName": "agree", "approvalId": "w", "decision": decision, **decider}
    with pytest.raises(InvalidTransition):
        await ApprovalOperations(context).decide("default", "w", "approved")


@pytest.mark.parametrize(
    ("decision", "edited_content", "message"),
    [
        ("aproved", None, "Did you mean 'approved'"),
        ("edited", None, "no editedContent"),
        ("edited", "x" * 2000, "bytes"),
    ],
)
async def test_invalid_decisions_are_refused(
    context: ServiceContext, new_run: Callable[..., Run], decision: str, edited_content: Any, message: str
) -> None:
    await request_approval(context, new_run())
    with pytest.raises(InvalidRequest, match=message):
        await ApprovalOperations(context).decide("default", "w", decision, edited_content=edited_content)
    assert (await ApprovalOperations(context).approval("default", "w")).decision is None


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.PAUSED])
async def test_a_decision_is_accepted_while_another_branch_runs(
    context: ServiceContext, new_run: Callable[..., Run], status: RunStatus
) -> None:
    """The decision is stored until the run waits again."""
    run = new_run(claim="c")
    await request_approval(context, run, status=status)
    decided = await ApprovalOperations(context).decide("default", "w", "approved")
    result = await context.records.run("default", run.id)
    assert (decided.decision, result.status, result.claim, result.due_at) == ("approved", status, "c", None)
    [signal] = await aresolve(context.ledger.find(Signal))
    assert (signal.interrupt_id, signal.taken) == ("i-w", False)
    assert [event.type for event in await aresolve(context.ledger.events(run.id))] == ["APPROVAL_DECIDED"]


@pytest.mark.parametrize(
    ("status", "waits"),
    [(RunStatus.FAILED, False), (RunStatus.CANCELLED, True), (RunStatus.COMPLETED, True), (RunStatus.PENDING, True)],
)
async def test_an_approval_whose_run_no_longer_waits_is_closed(
    context: ServiceContext, new_run: Callable[..., Run], status: RunStatus, waits: bool
) -> None:
    await request_approval(context, new_run(), status=status, waits=waits)
    with pytest.raises(InvalidTransition, match="closed"):
        await ApprovalOperations(context).decide("default", "w", "approved")
    assert (await ApprovalOperations(context).approval("default", "w")).decision is None
    assert await aresolve(context.ledger.count(Signal)) == 0


async def test_approvals_are_filtered_by_run(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    for name in ("one", "two"):
        await request_approval(context, new_run(id=f"run_{name}"), wait_id=name)
    page = await ApprovalOperations(context).approvals("default", pending=True, run_id="run_two", page=1, page_size=10)
    assert ([item.id for item in page.items], page.total) == (["two"], 1)


async def test_other_workspaces_see_and_decide_nothing(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    await request_approval(context, new_run())
    operations = ApprovalOperations(context)
    assert (await operations.approvals("other", pending=None, run_id=None, page=1, page_size=10)).total == 0
    for call in (operations.approval("other", "w"), operations.decide("other", "w", "approved")):
        with pytest.raises(NotFound):
            await call


async def test_approvals_are_filtered_by_decision(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    await request_approval(context, new_run())
    operations = ApprovalOperations(context)
    counts = [
        (await operations.approvals("default", pending=item, run_id=None, page=1, page_size=10)).total
        for item in (True, False, None)
    ]
    assert counts == [1, 0, 1]
    await operations.decide("default", "w", "rejected")
    counts = [
        (await operations.approvals("default", pending=item, run_id=None, page=1, page_size=10)).total
        for item in (True, False, None)
    ]
    assert counts == [0, 1, 1]

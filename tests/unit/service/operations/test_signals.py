"""Signals and answers: stored until awaited, accepted once, and validated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.unit.service.conftest import Overtaken

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidRequest, InvalidTransition, NotFound, PayloadTooLarge, SignalMismatch
from statewright.runs import Approval, Delete, Insert, Ledger, Run, RunStatus, Signal, Update, Wait, where
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.engine.waits import approval_of
from statewright.service.operations.inbox import check_payload
from statewright.service.operations.signals import SignalOperations
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def context(storage: tuple[Ledger, Checkpointer]) -> ServiceContext:
    return ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_payload=1000))


def signals(context: ServiceContext) -> SignalOperations:
    return SignalOperations(context)


async def waiting(context: ServiceContext, run: Run, **more: Any) -> Wait:
    run.status = RunStatus.WAITING
    wait = Wait(
        id="w", run_id=run.id, interrupt_id="i", workspace_id=run.workspace_id, step_id="s", step_name="s",
        created_at=context.now(), **{"kind": "event", "event": "paid", **more},
    )  # fmt: skip
    await context.write([Insert(run), Insert(wait)])
    return wait


def approval() -> dict[str, Any]:
    return {"type": "approval", "contentKey": None, "content": "dear", "prompt": "send it?"}


async def inbox(context: ServiceContext) -> list[Any]:
    return list(await aresolve(context.ledger.find(Signal)))


async def test_a_signal_wakes_a_run_that_waits(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    run = new_run()
    await waiting(context, run)
    rung: list[int] = []
    context.wake_worker = lambda: rung.append(1)
    after = await signals(context).signal("default", run.id, "paid", {"a": 1}, key="k", must_wait=True)
    assert (after.due_at, after.status, bool(rung)) == (context.now(), RunStatus.WAITING, True)
    [kept] = await inbox(context)
    assert (kept.type, kept.payload, kept.key, kept.taken, kept.interrupt_id) == ("paid", {"a": 1}, "k", False, None)


async def test_a_signal_for_a_run_that_does_not_wait_is_stored(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run(status=RunStatus.PAUSED)
    await context.write([Insert(run)])
    after = await signals(context).signal("default", run.id, "paid", {})
    assert (after.due_at, after.version, len(await inbox(context))) == (None, run.version, 1)
    with pytest.raises(InvalidTransition, match="paused"):
        await signals(context).signal("default", run.id, "paid", {}, must_wait=True)


async def test_a_signal_with_a_used_key_changes_nothing_even_after_the_end(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    await waiting(context, run)
    for payload in ({"a": 1}, {"a": 2}):
        await signals(context).signal("default", run.id, "paid", payload, key="k")
    assert [item.payload for item in await inbox(context)] == [{"a": 1}]
    other = new_run()
    await context.write([Insert(other)])
    await signals(context).signal("default", other.id, "paid", {}, key="k")
    assert len(await inbox(context)) == 2


async def test_a_refused_signal_names_the_awaited_types(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    run = new_run()
    await waiting(context, run)
    with pytest.raises(SignalMismatch, match="Did you mean 'paid'") as caught:
        await signals(context).signal("default", run.id, "payd", {}, must_wait=True)
    assert (caught.value.details, caught.value.status) == ({"waitsFor": ["paid"]}, 409)
    assert await inbox(context) == []


@pytest.mark.parametrize("kind", ["", "x" * 256, "__run_ended:run_1"])
async def test_invalid_types_are_refused(context: ServiceContext, new_run: Callable[..., Run], kind: str) -> None:
    run = new_run()
    await waiting(context, run)
    with pytest.raises(InvalidRequest):
        await signals(context).signal("default", run.id, kind, {})


def test_payloads_are_maps_without_reserved_keys() -> None:
    for wrong in (None, [], "x", 1, {"__nextStep": "a"}):
        with pytest.raises(InvalidRequest):
            check_payload(wrong, 100)
    with pytest.raises(PayloadTooLarge):
        check_payload({"a": "x" * 100}, 100)
    check_payload({"_a": {"__b": 1}}, 100)


@pytest.mark.parametrize("name", ["w", "i"])
async def test_a_question_is_answered_once_by_either_of_its_ids(
    context: ServiceContext, new_run: Callable[..., Run], name: str
) -> None:
    run = new_run()
    await waiting(context, run, kind="question", event=None)
    after = await signals(context).answer("default", run.id, {name: None})
    assert after.due_at == context.now()
    [kept] = await inbox(context)
    assert (kept.type, kept.interrupt_id, kept.payload) == ("", "i", None)
    for again in ("w", "i"):
        with pytest.raises(InvalidTransition, match="answered"):
            await signals(context).answer("default", run.id, {again: 2})


async def test_an_answer_to_an_approval_decides_it(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    run = new_run()
    wait = await waiting(context, run, kind="question", event=None, value=approval())
    record = approval_of(wait)
    assert record is not None
    await context.write([Insert(record)])
    with pytest.raises(InvalidRequest, match="is an approval"):
        await signals(context).answer("default", run.id, {"i": "yes"})
    after = await signals(context).answer("default", run.id, {"i": {"decision": "edited", "content": "better"}})
    assert after.due_at == context.now()
    decided = await signals(context).approval("default", "w")
    assert (decided.decision, decided.edited_content) == ("edited", "better")
    [kept] = await inbox(context)
    assert kept.payload == {"decision": "edited", "content": "better", "decidedBy": None, "decidedByKey": None}


async def test_all_answers_are_accepted_or_none(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    run = new_run()
    await waiting(context, run, kind="question", event=None)
    with pytest.raises(NotFound, match="no open question 'x'"):
        await signals(context).answer("default", run.id, {"w": 1, "x": 2})
    with pytest.raises(PayloadTooLarge):
        await signals(context).answer("default", run.id, {"w": "x" * 2000})
    with pytest.raises(NotFound):
        await signals(context).answer("other", run.id, {"w": 1})
    assert await inbox(context) == []


@pytest.mark.parametrize(
    ("kind", "event", "message"),
    [("timer", None, "waits for a timer"), ("event", "__run_ended:run_7", "end of run run_7")],
)
async def test_timers_and_waits_for_runs_take_no_answer(
    context: ServiceContext, new_run: Callable[..., Run], kind: str, event: str | None, message: str
) -> None:
    run = new_run()
    question = await waiting(context, run, kind="question", event=None)
    await context.write([Insert(replace(question, id="w2", interrupt_id="i2", kind=kind, event=event))])
    for name in ("w2", "i2"):
        with pytest.raises(InvalidRequest, match=message):
            await signals(context).answer("default", run.id, {"w": "yes", name: {"status": "completed", "output": 1}})
    assert await inbox(context) == []
    assert (await context.records.run("default", run.id)).due_at is None


async def test_an_answer_to_an_event_is_a_valid_payload(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    run = new_run()
    await waiting(context, run)
    for wrong in (None, "yes", {"__nextStep": "a"}):
        with pytest.raises(InvalidRequest):
            await signals(context).answer("default", run.id, {"w": wrong})
    await signals(context).answer("default", run.id, {"w": {"amount": 7}})
    assert [item.payload for item in await inbox(context)] == [{"amount": 7}]


async def test_of_several_approvals_all_are_decided_or_none(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    first = await waiting(context, run, kind="question", event=None, value=approval())
    second = replace(first, id="w2", interrupt_id="i2")
    question = replace(first, id="w3", interrupt_id="i3", value="how many?")
    records = [Insert(record) for wait in (first, second) if (record := approval_of(wait)) is not None]
    await context.write([Insert(second), Insert(question), *records])
    yes = {"decision": "approved"}

    for wrong in ("yes", {"decision": "perhaps"}, {"decision": "edited"}):
        with pytest.raises(InvalidRequest):
            await signals(context).answer("default", run.id, {"i": yes, "i3": 3, "i2": wrong})
    with pytest.raises(PayloadTooLarge):
        await signals(context).answer("default", run.id, {"i": yes, "i3": "x" * 2000, "i2": yes})
    assert await inbox(context) == []
    assert [item.decision for item in await aresolve(context.ledger.find(Approval))] == [None, None]

    await signals(context).answer("default", run.id, {"i": yes, "i3": 3, "i2": yes})
    assert sorted(str(item.interrupt_id) for item in await inbox(context)) == ["i", "i2", "i3"]
    assert [item.decision for item in await aresolve(context.ledger.find(Approval))] == ["approved", "approved"]
    told = [event.type for event in await aresolve(context.ledger.events(run.id))]
    assert told.count("APPROVAL_DECIDED") == 2


@pytest.mark.parametrize("way", ["signal", "answer"])
async def test_answers_to_a_wait_that_has_just_ended_are_refused(
    context: ServiceContext, new_run: Callable[..., Run], way: str
) -> None:
    run = new_run()
    wait = await waiting(context, run)
    lapsed = [Delete(Wait, where(id=wait.id)), Update(Run, run.id, {"status": RunStatus.RUNNING})]
    context.ledger = cast(Any, Overtaken(context.ledger, *lapsed))
    taker = signals(context)
    calls = {
        "signal": lambda: taker.signal("default", run.id, "paid", {}, must_wait=True),
        "answer": lambda: taker.answer("default", run.id, {wait.id: {}}),
    }
    with pytest.raises(InvalidTransition):
        await calls[way]()
    assert await inbox(context) == []


async def test_an_early_signal_is_stored_for_the_next_wait(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    wait = await waiting(context, run)
    lapsed = [Delete(Wait, where(id=wait.id)), Update(Run, run.id, {"status": RunStatus.RUNNING})]
    context.ledger = cast(Any, Overtaken(context.ledger, *lapsed))
    await signals(context).signal("default", run.id, "paid", {"a": 1})
    assert [item.taken for item in await inbox(context)] == [False]


async def test_a_signal_for_a_run_that_has_just_ended_is_refused(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    await waiting(context, run)
    context.ledger = cast(Any, Overtaken(context.ledger, Update(Run, run.id, {"status": RunStatus.FAILED})))
    with pytest.raises(InvalidTransition, match="failed"):
        await signals(context).signal("default", run.id, "paid", {"a": 1})
    assert await inbox(context) == []

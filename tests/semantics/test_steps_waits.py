"""Waiting steps, in memory and in a file that another process opens: case 21, and approvals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from statewright import Command, InMemorySaver
from statewright.errors import InvalidResume
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock
from statewright.workflow.steps import StepContext, StepFailed, StepResult, compile_steps

THREAD = {"thread_id": "1"}


class Storage:
    """A clock and a saver that all graphs of a test share."""

    def __init__(self, path: Path | None) -> None:
        self.clock = FakeClock()
        self._path = path
        self._saver: Any = InMemorySaver()

    def app(self, *steps: dict[str, Any], **options: Any) -> Any:
        """Compile the graph as a newly started process would."""
        if self._path is not None:
            self.close()
            self._saver = SqliteSaver(self._path)
        document = {"name": "flow", "version": "1", "steps": [{"type": "task", **step} for step in steps]}
        return compile_steps(document, checkpointer=self._saver, clock=self.clock, **options)

    def close(self) -> None:
        if isinstance(self._saver, SqliteSaver):
            self._saver.close()


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    storage = Storage(tmp_path / "runs.db" if request.param == "sqlite" else None)
    yield storage
    storage.close()


def waits_of(app: Any) -> list[Any]:
    return list(app.get_state(THREAD).interrupts)


def resume_due(app: Any, driver: Any) -> Any:
    import asyncio

    return asyncio.run(app.aresume_due(**THREAD)) if driver.name == "async" else app.resume_due(**THREAD)


def send(app: Any, driver: Any, name: str, payload: Any) -> Any:
    import asyncio

    if driver.name == "async":
        return asyncio.run(app.asend_event(name, payload, **THREAD))
    return app.send_event(name, payload, **THREAD)


# -- tasks that return `waiting`


def paying(storage: Storage, calls: list[str], **more: Any) -> Any:
    def order(ctx: StepContext) -> StepResult:
        calls.append(ctx.idempotency_key)
        return StepResult("waiting", output={"order": 7}, state_updates={"order": 7, "amount": 1}, **more)

    return storage.app(
        {"name": "order", "handler": "order"},
        {"name": "after", "handler": "after"},
        handlers={"order": order, "after": lambda ctx: {"stateUpdates": {"seen": ctx.workflow_state.get("amount")}}},
    )


def test_case_21_a_task_waits_for_an_instant(driver: Any, storage: Storage) -> None:
    calls: list[str] = []
    instant = storage.clock.now() + timedelta(hours=1)
    app = paying(storage, calls, wait_until=instant)
    waiting = driver.invoke(app, {}, **THREAD)
    (timer,) = waiting.pop("__interrupt__")
    assert (waiting, timer.kind, timer.due_at) == ({}, "timer", instant)

    app = paying(storage, calls, wait_until=instant + timedelta(days=1))
    assert resume_due(app, driver) is None
    storage.clock.advance(3600)
    assert resume_due(app, driver) == {"order": 7, "amount": 1, "seen": 1}
    assert len(calls) == 1


def test_case_21_a_task_waits_for_a_signal(driver: Any, storage: Storage) -> None:
    calls: list[str] = []
    app = paying(storage, calls, signal_type="payment_confirmed")
    driver.invoke(app, {}, **THREAD)

    app = paying(storage, calls, signal_type="payment_confirmed")
    with pytest.raises(InvalidResume, match="payment_refused"):
        send(app, driver, "payment_refused", {"amount": 30})
    assert [wait.event for wait in waits_of(app)] == ["payment_confirmed"]
    assert send(app, driver, "payment_confirmed", {"amount": 30}) == {"order": 7, "amount": 30, "seen": 30}
    assert len(calls) == 1


@pytest.mark.parametrize("first", ["signal", "timer"])
def test_case_21_a_task_continues_with_the_first_of_signal_and_timer(driver: Any, storage: Storage, first: str) -> None:
    calls: list[str] = []
    instant = storage.clock.now() + timedelta(hours=1)
    app = paying(storage, calls, signal_type="paid", wait_until=instant)
    driver.invoke(app, {}, **THREAD)
    app = paying(storage, calls, signal_type="paid", wait_until=instant)
    if first == "signal":
        assert send(app, driver, "paid", {"amount": 30})["seen"] == 30
    else:
        storage.clock.advance(3600)
        assert resume_due(app, driver)["seen"] == 1
    assert waits_of(app) == []
    assert len(calls) == 1


def test_a_waiting_step_can_name_the_next_step(driver: Any, storage: Storage) -> None:
    result = StepResult("waiting", state_updates={"__nextStep": "last"}, signal_type="go")
    app = storage.app(
        {"name": "first", "handler": "wait"},
        {"name": "skipped", "handler": "note"},
        {"name": "last", "handler": "note"},
        handlers={"wait": lambda ctx: result, "note": lambda ctx: {"stateUpdates": {ctx.step_name: 1}}},
    )
    assert driver.invoke(app, {}, **THREAD)["__interrupt__"][0].event == "go"
    assert send(app, driver, "go", {}) == {"last": 1}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_handler_that_waits_after_a_failed_attempt_is_not_called_again(
    driver: Any, storage: Storage, durability: str
) -> None:
    storage.clock = FakeClock(jumps=True)
    calls: list[str] = []

    def order(ctx: StepContext) -> StepResult:
        calls.append(ctx.step_name)
        return StepResult("failed") if len(calls) == 1 else StepResult("waiting", signal_type="paid")

    step = {"name": "order", "handler": "order", "retry": {"backoffMs": 100}}
    app = storage.app(step, handlers={"order": order})
    assert "__interrupt__" in driver.invoke(app, {}, durability=durability, **THREAD)
    assert send(storage.app(step, handlers={"order": order}), driver, "paid", {"amount": 1}) == {"amount": 1}
    assert len(calls) == 2


# -- wait


def test_a_step_waits_for_a_duration(driver: Any, storage: Storage) -> None:
    steps = [{"type": "wait", "name": "pause", "durationMs": 1500}, {"name": "after", "handler": "h"}]
    handlers = {"h": lambda ctx: {"stateUpdates": {"done": True}}}
    app = storage.app(*steps, handlers=handlers)
    (timer,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    assert (timer.kind, timer.due_at) == ("timer", storage.clock.now() + timedelta(seconds=1.5))
    app = storage.app(*steps, handlers=handlers)
    storage.clock.advance(1)
    assert resume_due(app, driver) is None
    (repeated,) = driver.invoke(app, None, **THREAD)["__interrupt__"]
    assert repeated == timer  # invoking again does not postpone it
    storage.clock.advance(0.5)
    assert resume_due(app, driver) == {"done": True}


def test_a_step_waits_for_an_instant_and_a_past_instant_is_due_at_once(driver: Any, storage: Storage) -> None:
    app = storage.app(
        {"type": "wait", "name": "new-year", "untilTimestamp": "2027-01-01T00:00:00+01:00"},
        {"type": "wait", "name": "past", "untilTimestamp": "2020-01-01T00:00:00Z"},
    )
    (timer,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    assert timer.due_at == datetime(2026, 12, 31, 23, tzinfo=UTC)
    storage.clock.advance(timedelta(days=365))
    assert "__interrupt__" in resume_due(app, driver)
    assert resume_due(app, driver) == {}


# -- external_event


def test_the_payload_of_an_external_event_is_merged_into_the_state(driver: Any, storage: Storage) -> None:
    steps = [
        {"type": "external_event", "name": "paid", "signalType": "payment_confirmed", "timeoutMs": 60_000},
        {"name": "after", "handler": "h"},
    ]
    handlers = {"h": lambda ctx: {"stateUpdates": {"seen": ctx.workflow_state}}}
    app = storage.app(*steps, handlers=handlers)
    (wait,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    assert (wait.kind, wait.event) == ("event", "payment_confirmed")
    assert wait.due_at == storage.clock.now() + timedelta(seconds=60)
    app = storage.app(*steps, handlers=handlers)
    result = send(app, driver, "payment_confirmed", {"amount": {"value": 30}})
    assert result == {"amount": {"value": 30}, "seen": {"amount": {"value": 30}}}


def test_a_payload_that_is_not_a_map_is_refused(driver: Any, storage: Storage) -> None:
    step = {"type": "external_event", "name": "paid", "signalType": "paid"}
    driver.invoke(storage.app(step), {}, **THREAD)
    app = storage.app(step)
    with pytest.raises(InvalidResume, match="does not fit"):
        send(app, driver, "paid", "yes")
    assert [wait.event for wait in waits_of(app)] == ["paid"]


def test_a_payload_with_reserved_keys_is_ignored_and_keeps_the_deadline(driver: Any, storage: Storage) -> None:
    step = {"type": "external_event", "name": "paid", "signalType": "paid", "timeoutMs": 60_000}
    app = storage.app(step)
    (first,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    for key in ("__nextStep", "__condition_x"):
        storage.clock.advance(10)
        app = storage.app(step)
        (next_wait,) = send(app, driver, "paid", {key: "x"})["__interrupt__"]
        assert (next_wait.event, next_wait.due_at) == ("paid", first.due_at)
        assert next_wait.id != first.id
    reported = [event.data["event"] for event in app.get_events(THREAD) if event.kind == "step_reported"]
    assert [event["type"] for event in reported] == ["SIGNAL_IGNORED", "SIGNAL_IGNORED"]
    assert "'__nextStep'" in reported[0]["payload"]["reason"]
    assert send(storage.app(step), driver, "paid", {"ok": True}) == {"ok": True}


def test_an_event_timeout_fails_the_attempt_and_each_attempt_waits_again(driver: Any, storage: Storage) -> None:
    step = {
        "type": "external_event",
        "name": "paid",
        "signalType": "paid",
        "timeoutMs": 1000,
        "retry": {"maxAttempts": 2, "backoffMs": 100},
    }
    storage.clock = FakeClock(jumps=True)
    app = storage.app(step)
    (first,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    storage.clock.advance(1)
    app = storage.app(step)
    (second,) = resume_due(app, driver)["__interrupt__"]
    assert second.id != first.id
    assert second.due_at > first.due_at
    storage.clock.advance(60)
    app = storage.app(step)
    with pytest.raises(StepFailed) as failed:
        resume_due(app, driver)
    assert failed.value.code == "SIGNAL_TIMEOUT"
    assert failed.value.details == {"signalType": "paid", "timeoutMs": 1000}


@pytest.mark.parametrize("retry", [None, {"backoffMs": 100}])
def test_a_wait_has_one_attempt_by_default(driver: Any, storage: Storage, retry: Any) -> None:
    step = {"type": "external_event", "name": "paid", "signalType": "paid", "timeoutMs": 1000}
    app = storage.app({**step, **({"retry": retry} if retry is not None else {})})
    driver.invoke(app, {}, **THREAD)
    storage.clock.advance(1)
    with pytest.raises(StepFailed):
        resume_due(app, driver)
    assert waits_of(app) == []


def test_retrying_a_failed_run_waits_again(driver: Any, storage: Storage) -> None:
    step = {
        "type": "external_event",
        "name": "paid",
        "signalType": "paid",
        "timeoutMs": 1000,
        "retry": {"maxAttempts": 1},
    }
    app = storage.app(step)
    driver.invoke(app, {}, **THREAD)
    storage.clock.advance(1)
    with pytest.raises(StepFailed):
        resume_due(app, driver)
    config = {"configurable": {"thread_id": "1", "retry": 1}}
    (wait,) = driver.invoke(app, None, config)["__interrupt__"]
    assert wait.due_at == storage.clock.now() + timedelta(seconds=1)
    result = driver.invoke(app, Command(resume={wait.id: {"amount": 1}}), config)
    assert result == {"amount": 1}


# -- approval


def approving(storage: Storage, **more: Any) -> Any:
    return storage.app(
        {"name": "draft", "handler": "draft"},
        {"type": "approval", "name": "ok", "contentKey": "email", "prompt": "Send to {{input.to}}?", **more},
        {"name": "send", "handler": "send"},
        handlers={
            "draft": lambda ctx: {"stateUpdates": {"email": {"text": "Hi"}}},
            "send": lambda ctx: {"stateUpdates": {"sent": ctx.workflow_state["email"]}},
        },
    )


def decide(storage: Storage, driver: Any, answer: Any, **more: Any) -> Any:
    (question,) = driver.invoke(approving(storage, **more), {"to": "Jane"}, **THREAD)["__interrupt__"]
    assert question.kind == "question"
    assert question.value == {
        "type": "approval",
        "contentKey": "email",
        "content": {"text": "Hi"},
        "prompt": "Send to Jane?",
    }
    return driver.invoke(approving(storage, **more), Command(resume=answer), **THREAD)


def test_an_approval_continues_the_run(driver: Any, storage: Storage) -> None:
    assert decide(storage, driver, {"decision": "approved", "decidedBy": "Ann"}) == {
        "email": {"text": "Hi"},
        "ok_decision": {"decision": "approved", "approved": True, "decidedBy": "Ann"},
        "sent": {"text": "Hi"},
    }


def test_an_edited_approval_replaces_the_content(driver: Any, storage: Storage) -> None:
    assert decide(storage, driver, {"decision": "edited", "content": {"text": "Dear Jane"}}) == {
        "email": {"text": "Dear Jane"},
        "ok_decision": {"decision": "edited", "approved": True, "decidedBy": None},
        "sent": {"text": "Dear Jane"},
    }


def test_a_rejection_fails_the_run_without_retries(driver: Any, storage: Storage) -> None:
    with pytest.raises(StepFailed, match="rejected in step 'ok' by Ann") as failed:
        decide(storage, driver, {"decision": "rejected", "decidedBy": "Ann"}, retry={"maxAttempts": 3})
    assert failed.value.code == "APPROVAL_REJECTED"


def test_a_rejection_continues_the_run_with_on_reject_continue(driver: Any, storage: Storage) -> None:
    state = decide(storage, driver, {"decision": "rejected"}, onReject="continue")
    assert state["ok_decision"] == {"decision": "rejected", "approved": False, "decidedBy": None}
    assert state["sent"] == {"text": "Hi"}


def test_an_approval_without_a_decision_expires(driver: Any, storage: Storage) -> None:
    app = approving(storage, timeoutMs=1000)
    driver.invoke(app, {}, **THREAD)
    storage.clock.advance(1)
    with pytest.raises(StepFailed) as failed:
        resume_due(approving(storage, timeoutMs=1000), driver)
    assert failed.value.code == "APPROVAL_EXPIRED"


def test_missing_content_of_an_approval_is_an_error(driver: Any, storage: Storage) -> None:
    app = storage.app({"type": "approval", "name": "ok", "contentKey": "emial"})
    with pytest.raises(StepFailed, match="'emial', which is not in the state") as failed:
        driver.invoke(app, {"email": 1}, **THREAD)
    assert failed.value.code == "APPROVAL_CONTENT_MISSING"


@pytest.mark.parametrize("answer", [{"decision": "maybe"}, {}, {"decision": "edited"}])
def test_an_invalid_decision_is_requested_again(driver: Any, storage: Storage, answer: Any) -> None:
    (question,) = decide(storage, driver, answer)["__interrupt__"]
    result = driver.invoke(approving(storage), Command(resume={question.id: {"decision": "approved"}}), **THREAD)
    assert result["sent"] == {"text": "Hi"}

"""Steps that wait, in memory and in a file that another process opens again: case 21, and approvals."""

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


class Place:
    """Where threads are kept: each graph that is made here finds what the one before has left."""

    def __init__(self, path: Path | None) -> None:
        self.clock = FakeClock()
        self._path = path
        self._saver: Any = InMemorySaver()

    def app(self, *steps: dict[str, Any], **options: Any) -> Any:
        """The graph, as a process makes it that has just been started."""
        if self._path is not None:
            self.close()
            self._saver = SqliteSaver(self._path)
        document = {"name": "flow", "version": "1", "steps": [{"type": "task", **step} for step in steps]}
        return compile_steps(document, checkpointer=self._saver, clock=self.clock, **options)

    def close(self) -> None:
        if isinstance(self._saver, SqliteSaver):
            self._saver.close()


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path / "runs.db" if request.param == "sqlite" else None)
    yield found
    found.close()


def waits_of(app: Any) -> list[Any]:
    return list(app.get_state(THREAD).interrupts)


def due(app: Any, driver: Any) -> Any:
    import asyncio

    return asyncio.run(app.aresume_due(**THREAD)) if driver.name == "async" else app.resume_due(**THREAD)


def send(app: Any, driver: Any, name: str, payload: Any) -> Any:
    import asyncio

    if driver.name == "async":
        return asyncio.run(app.asend_event(name, payload, **THREAD))
    return app.send_event(name, payload, **THREAD)


# -- tasks that answer `waiting`


def paying(place: Place, calls: list[str], **more: Any) -> Any:
    def order(ctx: StepContext) -> StepResult:
        calls.append(ctx.idempotency_key)
        return StepResult("waiting", output={"order": 7}, state_updates={"order": 7, "amount": 1}, **more)

    return place.app(
        {"name": "order", "handler": "order"},
        {"name": "after", "handler": "after"},
        handlers={"order": order, "after": lambda ctx: {"stateUpdates": {"seen": ctx.workflow_state.get("amount")}}},
    )


def test_case_21_a_task_waits_for_an_instant(driver: Any, place: Place) -> None:
    calls: list[str] = []
    instant = place.clock.now() + timedelta(hours=1)
    app = paying(place, calls, wait_until=instant)
    waiting = driver.invoke(app, {}, **THREAD)
    (timer,) = waiting.pop("__interrupt__")
    assert (waiting, timer.kind, timer.due_at) == ({}, "timer", instant)

    app = paying(place, calls, wait_until=instant + timedelta(days=1))
    assert due(app, driver) is None
    place.clock.advance(3600)
    assert due(app, driver) == {"order": 7, "amount": 1, "seen": 1}
    assert len(calls) == 1


def test_case_21_a_task_waits_for_a_signal(driver: Any, place: Place) -> None:
    calls: list[str] = []
    app = paying(place, calls, signal_type="payment_confirmed")
    driver.invoke(app, {}, **THREAD)

    app = paying(place, calls, signal_type="payment_confirmed")
    with pytest.raises(InvalidResume, match="payment_refused"):
        send(app, driver, "payment_refused", {"amount": 30})
    assert [wait.event for wait in waits_of(app)] == ["payment_confirmed"]
    assert send(app, driver, "payment_confirmed", {"amount": 30}) == {"order": 7, "amount": 30, "seen": 30}
    assert len(calls) == 1


@pytest.mark.parametrize("comes", ["signal", "timer"])
def test_case_21_a_task_continues_with_whichever_comes_first(driver: Any, place: Place, comes: str) -> None:
    calls: list[str] = []
    instant = place.clock.now() + timedelta(hours=1)
    app = paying(place, calls, signal_type="paid", wait_until=instant)
    driver.invoke(app, {}, **THREAD)
    app = paying(place, calls, signal_type="paid", wait_until=instant)
    if comes == "signal":
        assert send(app, driver, "paid", {"amount": 30})["seen"] == 30
    else:
        place.clock.advance(3600)
        assert due(app, driver)["seen"] == 1
    assert waits_of(app) == []
    assert len(calls) == 1


def test_a_step_that_waits_may_have_named_the_next_one(driver: Any, place: Place) -> None:
    result = StepResult("waiting", state_updates={"__nextStep": "last"}, signal_type="go")
    app = place.app(
        {"name": "first", "handler": "wait"},
        {"name": "skipped", "handler": "note"},
        {"name": "last", "handler": "note"},
        handlers={"wait": lambda ctx: result, "note": lambda ctx: {"stateUpdates": {ctx.step_name: 1}}},
    )
    assert driver.invoke(app, {}, **THREAD)["__interrupt__"][0].event == "go"
    assert send(app, driver, "go", {}) == {"last": 1}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_handler_that_failed_before_it_waited_is_not_called_again(driver: Any, place: Place, durability: str) -> None:
    place.clock = FakeClock(jumps=True)
    calls: list[str] = []

    def order(ctx: StepContext) -> StepResult:
        calls.append(ctx.step_name)
        return StepResult("failed") if len(calls) == 1 else StepResult("waiting", signal_type="paid")

    step = {"name": "order", "handler": "order", "retry": {"backoffMs": 100}}
    app = place.app(step, handlers={"order": order})
    assert "__interrupt__" in driver.invoke(app, {}, durability=durability, **THREAD)
    assert send(place.app(step, handlers={"order": order}), driver, "paid", {"amount": 1}) == {"amount": 1}
    assert len(calls) == 2


# -- wait


def test_a_step_lets_time_go_by(driver: Any, place: Place) -> None:
    steps = [{"type": "wait", "name": "pause", "durationMs": 1500}, {"name": "after", "handler": "h"}]
    handlers = {"h": lambda ctx: {"stateUpdates": {"done": True}}}
    app = place.app(*steps, handlers=handlers)
    (timer,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    assert (timer.kind, timer.due_at) == ("timer", place.clock.now() + timedelta(seconds=1.5))
    app = place.app(*steps, handlers=handlers)
    place.clock.advance(1)
    assert due(app, driver) is None
    (again,) = driver.invoke(app, None, **THREAD)["__interrupt__"]
    assert again == timer  # asking again does not put it off
    place.clock.advance(0.5)
    assert due(app, driver) == {"done": True}


def test_a_step_waits_for_an_instant_and_one_that_is_over_is_due_at_once(driver: Any, place: Place) -> None:
    app = place.app(
        {"type": "wait", "name": "new-year", "untilTimestamp": "2027-01-01T00:00:00+01:00"},
        {"type": "wait", "name": "past", "untilTimestamp": "2020-01-01T00:00:00Z"},
    )
    (timer,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    assert timer.due_at == datetime(2026, 12, 31, 23, tzinfo=UTC)
    place.clock.advance(timedelta(days=365))
    assert "__interrupt__" in due(app, driver)
    assert due(app, driver) == {}


# -- external_event


def test_an_external_event_brings_its_payload(driver: Any, place: Place) -> None:
    steps = [
        {"type": "external_event", "name": "paid", "signalType": "payment_confirmed", "timeoutMs": 60_000},
        {"name": "after", "handler": "h"},
    ]
    handlers = {"h": lambda ctx: {"stateUpdates": {"seen": ctx.workflow_state}}}
    app = place.app(*steps, handlers=handlers)
    (wait,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    assert (wait.kind, wait.event) == ("event", "payment_confirmed")
    assert wait.due_at == place.clock.now() + timedelta(seconds=60)
    app = place.app(*steps, handlers=handlers)
    done = send(app, driver, "payment_confirmed", {"amount": {"value": 30}})
    assert done == {"amount": {"value": 30}, "seen": {"amount": {"value": 30}}}


def test_a_payload_that_is_not_a_map_is_refused_and_the_step_still_waits(driver: Any, place: Place) -> None:
    step = {"type": "external_event", "name": "paid", "signalType": "paid"}
    driver.invoke(place.app(step), {}, **THREAD)
    app = place.app(step)
    with pytest.raises(InvalidResume, match="does not fit"):
        send(app, driver, "paid", "yes")
    assert [wait.event for wait in waits_of(app)] == ["paid"]


def test_keys_of_the_engine_are_refused_and_the_step_waits_on_for_as_long_as_it_had(driver: Any, place: Place) -> None:
    step = {"type": "external_event", "name": "paid", "signalType": "paid", "timeoutMs": 60_000}
    app = place.app(step)
    (first,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    for key in ("__nextStep", "__condition_x"):
        place.clock.advance(10)
        app = place.app(step)
        (again,) = send(app, driver, "paid", {key: "x"})["__interrupt__"]
        assert (again.event, again.due_at) == ("paid", first.due_at)
        assert again.id != first.id
    told = [event.data["event"] for event in app.get_events(THREAD) if event.kind == "step_reported"]
    assert [one["type"] for one in told] == ["SIGNAL_IGNORED", "SIGNAL_IGNORED"]
    assert "'__nextStep'" in told[0]["payload"]["reason"]
    assert send(place.app(step), driver, "paid", {"ok": True}) == {"ok": True}


def test_an_event_that_does_not_come_fails_the_step_and_each_attempt_waits_again(driver: Any, place: Place) -> None:
    step = {
        "type": "external_event",
        "name": "paid",
        "signalType": "paid",
        "timeoutMs": 1000,
        "retry": {"maxAttempts": 2, "backoffMs": 100},
    }
    place.clock = FakeClock(jumps=True)
    app = place.app(step)
    (first,) = driver.invoke(app, {}, **THREAD)["__interrupt__"]
    place.clock.advance(1)
    app = place.app(step)
    (second,) = due(app, driver)["__interrupt__"]
    assert second.id != first.id
    assert second.due_at > first.due_at
    place.clock.advance(60)
    app = place.app(step)
    with pytest.raises(StepFailed) as failed:
        due(app, driver)
    assert failed.value.code == "SIGNAL_TIMEOUT"
    assert failed.value.details == {"signalType": "paid", "timeoutMs": 1000}


@pytest.mark.parametrize("retry", [None, {"backoffMs": 100}])
def test_a_wait_has_one_attempt_by_default(driver: Any, place: Place, retry: Any) -> None:
    step = {"type": "external_event", "name": "paid", "signalType": "paid", "timeoutMs": 1000}
    app = place.app({**step, **({"retry": retry} if retry is not None else {})})
    driver.invoke(app, {}, **THREAD)
    place.clock.advance(1)
    with pytest.raises(StepFailed):
        due(app, driver)
    assert waits_of(app) == []


def test_retrying_a_failed_run_asks_again(driver: Any, place: Place) -> None:
    step = {
        "type": "external_event",
        "name": "paid",
        "signalType": "paid",
        "timeoutMs": 1000,
        "retry": {"maxAttempts": 1},
    }
    app = place.app(step)
    driver.invoke(app, {}, **THREAD)
    place.clock.advance(1)
    with pytest.raises(StepFailed):
        due(app, driver)
    again = {"configurable": {"thread_id": "1", "retry": 1}}
    (wait,) = driver.invoke(app, None, again)["__interrupt__"]
    assert wait.due_at == place.clock.now() + timedelta(seconds=1)
    answered = driver.invoke(app, Command(resume={wait.id: {"amount": 1}}), again)
    assert answered == {"amount": 1}


# -- approval


def approving(place: Place, **more: Any) -> Any:
    return place.app(
        {"name": "draft", "handler": "draft"},
        {"type": "approval", "name": "ok", "contentKey": "email", "prompt": "Send to {{input.to}}?", **more},
        {"name": "send", "handler": "send"},
        handlers={
            "draft": lambda ctx: {"stateUpdates": {"email": {"text": "Hi"}}},
            "send": lambda ctx: {"stateUpdates": {"sent": ctx.workflow_state["email"]}},
        },
    )


def decided(place: Place, driver: Any, answer: Any, **more: Any) -> Any:
    (asked,) = driver.invoke(approving(place, **more), {"to": "Jane"}, **THREAD)["__interrupt__"]
    assert asked.kind == "question"
    assert asked.value == {
        "type": "approval",
        "contentKey": "email",
        "content": {"text": "Hi"},
        "prompt": "Send to Jane?",
    }
    return driver.invoke(approving(place, **more), Command(resume=answer), **THREAD)


def test_an_approval_that_is_given(driver: Any, place: Place) -> None:
    assert decided(place, driver, {"decision": "approved", "decidedBy": "Ann"}) == {
        "email": {"text": "Hi"},
        "ok_decision": {"decision": "approved", "approved": True, "decidedBy": "Ann"},
        "sent": {"text": "Hi"},
    }


def test_an_approval_of_something_else(driver: Any, place: Place) -> None:
    assert decided(place, driver, {"decision": "edited", "content": {"text": "Dear Jane"}}) == {
        "email": {"text": "Dear Jane"},
        "ok_decision": {"decision": "edited", "approved": True, "decidedBy": None},
        "sent": {"text": "Dear Jane"},
    }


def test_a_rejection_ends_the_run_whatever_the_retries_say(driver: Any, place: Place) -> None:
    with pytest.raises(StepFailed, match="rejected in step 'ok' by Ann") as failed:
        decided(place, driver, {"decision": "rejected", "decidedBy": "Ann"}, retry={"maxAttempts": 3})
    assert failed.value.code == "APPROVAL_REJECTED"


def test_a_rejection_may_be_a_way_on(driver: Any, place: Place) -> None:
    state = decided(place, driver, {"decision": "rejected"}, onReject="continue")
    assert state["ok_decision"] == {"decision": "rejected", "approved": False, "decidedBy": None}
    assert state["sent"] == {"text": "Hi"}


def test_no_decision_in_time(driver: Any, place: Place) -> None:
    app = approving(place, timeoutMs=1000)
    driver.invoke(app, {}, **THREAD)
    place.clock.advance(1)
    with pytest.raises(StepFailed) as failed:
        due(approving(place, timeoutMs=1000), driver)
    assert failed.value.code == "APPROVAL_EXPIRED"


def test_there_is_nothing_to_approve(driver: Any, place: Place) -> None:
    app = place.app({"type": "approval", "name": "ok", "contentKey": "emial"})
    with pytest.raises(StepFailed, match="'emial', which is not in the state") as failed:
        driver.invoke(app, {"email": 1}, **THREAD)
    assert failed.value.code == "APPROVAL_CONTENT_MISSING"


@pytest.mark.parametrize("answer", [{"decision": "maybe"}, {}, {"decision": "edited"}])
def test_an_answer_that_is_not_a_decision_is_asked_again(driver: Any, place: Place, answer: Any) -> None:
    (again,) = decided(place, driver, answer)["__interrupt__"]
    done = driver.invoke(approving(place), Command(resume={again.id: {"decision": "approved"}}), **THREAD)
    assert done["sent"] == {"text": "Hi"}

"""Waits as records, and the matching of signals with them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from statewright.checkpoint import Interrupt
from statewright.runs import Run, Signal, StepRun, Wait
from statewright.runtime import TIMED_OUT
from statewright.service.engine.waits import approval_of, match_signals, next_due, wait_id, wait_of

HOUR = timedelta(hours=1)


def wait(name: str, now: datetime, **more: Any) -> Wait:
    fields = {"kind": "question", "workspace_id": "w", "run_id": "r", "step_id": "s", "step_name": "step", **more}
    return Wait(id=f"w-{name}", interrupt_id=name, created_at=now, **fields)


def signal(record_id: str, now: datetime, **more: Any) -> Signal:
    return Signal(id=record_id, run_id="r", created_at=now, **{"type": "", "payload": record_id, **more})


def test_an_answer_matches_only_its_question(now: datetime) -> None:
    first, second = wait("one", now), wait("two", now)
    result = match_signals([first, second], [signal("a", now, interrupt_id="two")], now)
    assert (result.answers, result.ended) == ({"two": "a"}, [second])
    assert result.signals == {"w-two": signal("a", now, interrupt_id="two")}


def test_the_oldest_signal_matches_every_wait_for_its_type(now: datetime) -> None:
    waits = [wait("one", now, event="paid"), wait("two", now, event="paid"), wait("three", now, event="sent")]
    inbox = [signal("a", now, type="paid"), signal("b", now, type="paid")]
    assert match_signals(waits, inbox, now).answers == {"one": "a", "two": "a"}


def test_a_signal_does_not_answer_a_question(now: datetime) -> None:
    assert not match_signals([wait("one", now)], [signal("a", now, type="paid"), signal("b", now)], now).ended


def test_a_wait_does_not_time_out_early(now: datetime) -> None:
    timer = wait("nap", now, due_at=now + HOUR)
    assert not match_signals([timer], [], now + HOUR - timedelta(microseconds=1)).ended
    result = match_signals([timer], [], now + HOUR)
    assert (result.ended, result.signals) == ([timer], {})
    assert result.answers["nap"] is TIMED_OUT


def test_a_signal_has_precedence_over_a_timeout(now: datetime) -> None:
    waits = [wait("one", now, event="paid", due_at=now)]
    result = match_signals(waits, [signal("a", now, type="paid")], now + HOUR)
    assert (result.answers, list(result.signals)) == ({"one": "a"}, [waits[0].id])


def test_a_waiting_run_is_due_at_its_first_timeout(now: datetime) -> None:
    waits = [wait("one", now), wait("two", now, due_at=now + 2 * HOUR), wait("three", now, due_at=now + HOUR)]
    assert next_due(waits, None) == now + HOUR
    assert next_due(waits, now) == now
    assert next_due(waits[:1], None) is None
    assert next_due([], now) == now


def test_a_wait_is_identified_by_its_run_and_interrupt(now: datetime, new_run: Callable[..., Run]) -> None:
    run = new_run(id="run_1")
    step = StepRun(id="s", run_id="run_1", task_id="t", name="ask", type="node")
    question = Interrupt(id="i", value={"at": now}, kind="question", due_at=now + HOUR, schema=int)
    result = wait_of(run, step, question, now)
    assert result.id == wait_id("run_1", "i") != wait_id("run_2", "i")
    assert (result.run_id, result.interrupt_id, result.workspace_id) == ("run_1", "i", run.workspace_id)
    assert (result.step_id, result.step_name, result.due_at) == ("s", "ask", now + HOUR)
    assert (result.value, result.schema) == ({"at": "2026-03-02T12:00:00Z"}, {"type": "integer"})


def test_an_approval_is_recognised_by_its_type(now: datetime) -> None:
    approval = {"type": "approval", "contentKey": "letter", "content": {"a": 1}, "prompt": "send?"}
    result = approval_of(wait("one", now, value=approval, due_at=now + HOUR))
    assert result is not None
    assert (result.id, result.content_key, result.content, result.prompt) == ("w-one", "letter", {"a": 1}, "send?")
    assert (result.expires_at, result.decision) == (now + HOUR, None)
    for other in (None, "approval", {"type": "question"}, ["approval"]):
        assert approval_of(wait("one", now, value=other)) is None
    minimal = approval_of(wait("one", now, value={"type": "approval"}))
    assert minimal is not None
    assert (minimal.prompt, minimal.content, minimal.content_key) == ("", None, None)

"""Records of the steps of a run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright.checkpoint import Interrupt, Task
from statewright.errors import GraphRecursionError
from statewright.graph import START
from statewright.runs import Approval, Delete, Insert, Run, StepLog, StepRun, StepStatus, Update, Wait, where
from statewright.service.engine.changeset import ChangeSet
from statewright.service.engine.progress import NO_GRAPH
from statewright.service.engine.step_records import StepRecords

SECOND = timedelta(seconds=1)
FIRST_TASK, SECOND_TASK = Task("first", None, "c1", 0), Task("second", None, "c1", 1)


@pytest.fixture
def run(new_run: Callable[..., Run]) -> Run:
    return new_run(id="run_1", claim="token")


@pytest.fixture
def steps(run: Run, now: datetime) -> StepRecords:
    """Two running steps."""
    records = StepRecords(run, NO_GRAPH, [], [])
    records.start(ChangeSet(), [FIRST_TASK, SECOND_TASK], 1, now, halts=False)
    return records


def complete(steps: StepRecords, task: Task, now: datetime) -> ChangeSet:
    changeset = ChangeSet()
    steps.complete(changeset, task, now)
    return changeset


def ask_questions(steps: StepRecords, task: Task, now: datetime, *questions: Interrupt) -> ChangeSet:
    changeset = ChangeSet()
    steps.record_waits(changeset, task.id, questions, now)
    return changeset


def retry(steps: StepRecords, task: Task, due: datetime, now: datetime) -> ChangeSet:
    changeset = ChangeSet()
    steps.retry(changeset, task.id, 1, due, now)
    return changeset


def event_types(changeset: ChangeSet) -> list[str]:
    return [event.type for event in changeset.events]


def child_insert(name: str) -> Insert:
    return Insert(StepRun(id=name, run_id="r", task_id=name, name=name, type="x"))


def test_steps_begin_once_and_later_if_the_run_halts(run: Run, now: datetime) -> None:
    steps, changeset = StepRecords(run, NO_GRAPH, [], []), ChangeSet()
    steps.start(changeset, [FIRST_TASK], 1, now, halts=True)
    assert (event_types(changeset), changeset.values) == ([], {"current_step": "first"})
    steps.start(changeset, [FIRST_TASK], 1, now, halts=False)
    [inserted] = changeset.changes
    assert isinstance(inserted, Insert)
    assert isinstance(inserted.record, StepRun)
    assert (inserted.record.status, inserted.record.started_at) == (StepStatus.PENDING, None)
    later = ChangeSet()
    steps.begin_due(later, now + SECOND)
    steps.begin_due(later, now + SECOND)
    assert (event_types(later), len(later.changes)) == (["STEP_STARTED"], 1)


def test_a_step_is_completed_once_and_the_input_is_not_a_step(steps: StepRecords, now: datetime) -> None:
    assert complete(steps, FIRST_TASK, now + SECOND).events[0].payload == {"stepName": "first", "durationMs": 1000}
    assert complete(steps, FIRST_TASK, now).changes == []
    assert complete(steps, Task(START, None, "c0", 0), now).changes == []


def test_queued_changes_are_written_once_with_the_result_of_their_task(steps: StepRecords, now: datetime) -> None:
    own, others, unknown = child_insert("mine"), child_insert("others"), child_insert("unknown")
    steps.queue([SECOND_TASK.id], [others])
    steps.queue([FIRST_TASK.id], [own])
    steps.queue(["an unknown task"], [unknown])
    assert complete(steps, FIRST_TASK, now).final_changes == [own, unknown]
    assert complete(steps, SECOND_TASK, now).final_changes == [others]
    steps.queue([FIRST_TASK.id], [own])
    assert complete(steps, SECOND_TASK, now).final_changes == []


def test_queued_changes_of_a_waiting_task_are_written_with_its_question(steps: StepRecords, now: datetime) -> None:
    child = child_insert("kid")
    steps.queue([FIRST_TASK.id], [child])
    assert ask_questions(steps, FIRST_TASK, now, Interrupt(id="i", value=None)).final_changes == [child]
    assert complete(steps, FIRST_TASK, now).final_changes == []


def test_queued_changes_of_a_failed_task_are_not_written(steps: StepRecords, now: datetime) -> None:
    steps.queue([FIRST_TASK.id], [child_insert("kid")])
    assert retry(steps, FIRST_TASK, now, now).final_changes == []
    changeset = ChangeSet()
    steps.fail(changeset, FIRST_TASK.id, "ValueError: no luck", now)
    assert (event_types(changeset), changeset.final_changes) == (["STEP_FAILED"], [])


def test_a_run_backs_off_while_all_running_steps_wait_for_a_retry(steps: StepRecords, now: datetime) -> None:
    retry(steps, FIRST_TASK, now + SECOND, now)
    assert not steps.is_backing_off(now)
    complete(steps, SECOND_TASK, now)
    assert [steps.is_backing_off(at) for at in (now, now + SECOND)] == [True, False]
    complete(steps, FIRST_TASK, now)
    assert not steps.is_backing_off(now)


def test_a_step_waits_until_its_first_timeout_and_asks_each_question_once(steps: StepRecords, now: datetime) -> None:
    one = Interrupt(id="i", value="one", due_at=now + 2 * SECOND)
    two = Interrupt(id="j", value="two", kind="event", event="paid", due_at=now + SECOND)
    changeset = ask_questions(steps, FIRST_TASK, now, one, two)
    assert event_types(changeset) == ["STEP_WAITING", "TIMER_SCHEDULED"] * 2
    assert changeset.changes[-1] == Update(
        StepRun,
        changeset.events[0].step_id or "",
        {"status": StepStatus.WAITING, "wait_until": now + SECOND, "signal_type": "paid"},
    )
    assert ask_questions(steps, FIRST_TASK, now, one, two).changes == []
    assert list(steps.waits) == ["i", "j"]


def test_a_step_without_open_waits_continues(steps: StepRecords, now: datetime) -> None:
    ask_questions(steps, FIRST_TASK, now, Interrupt(id="i", value=1), Interrupt(id="j", value=2))
    for name, changed_steps in (("i", 0), ("j", 1)):
        steps.waits.pop(name)
        changeset = ChangeSet()
        steps.wake(changeset)
        assert len(changeset.changes) == changed_steps


def test_an_approval_requested_again_is_open_again(steps: StepRecords, now: datetime) -> None:
    question = {"type": "approval", "contentKey": "letter", "content": "dear", "prompt": "send it?"}
    changeset = ask_questions(steps, FIRST_TASK, now, Interrupt(id="i", value=question))
    assert event_types(changeset) == ["STEP_WAITING", "APPROVAL_REQUESTED"]
    [wait] = [
        change.record for change in changeset.changes if isinstance(change, Insert) and isinstance(change.record, Wait)
    ]
    [new] = [
        change for change in changeset.changes if isinstance(change, Insert) and isinstance(change.record, Approval)
    ]
    before = Delete(Approval, where(id=wait.id))
    assert (new.record.id, changeset.changes.index(before) < changeset.changes.index(new)) == (wait.id, True)


def test_a_decided_approval_of_a_failed_run_is_not_requested_again(steps: StepRecords, now: datetime) -> None:
    question = {"type": "approval", "contentKey": "letter", "content": "dear", "prompt": "send it?"}
    steps.answered_ids = {"i"}
    changeset = ask_questions(steps, FIRST_TASK, now, Interrupt(id="i", value=question))
    assert event_types(changeset) == ["STEP_WAITING"]
    assert not [change for change in changeset.changes if isinstance(change, Delete)]
    assert [type(change.record) for change in changeset.changes if isinstance(change, Insert)] == [Wait]


def test_captured_lines_are_stored_by_attempt(steps: StepRecords, now: datetime) -> None:
    class Lines:
        def take(self, task_id: str) -> list[dict[str, str]]:
            return [{"line": "hello"}]

    steps.logs = Lines()
    changes = [*retry(steps, FIRST_TASK, now, now).changes, *complete(steps, FIRST_TASK, now).changes]
    logs: list[Any] = [
        change.record for change in changes if isinstance(change, Insert) and isinstance(change.record, StepLog)
    ]
    assert [(log.attempt, log.number, log.lines) for log in logs] == [
        (1, 1, [{"line": "hello"}]),
        (2, 2, [{"line": "hello"}]),
    ]


def test_an_error_is_found_by_its_text(steps: StepRecords) -> None:
    steps.failures[FIRST_TASK.id] = ValueError("no luck")
    steps.failures[SECOND_TASK.id] = KeyError("other")
    assert steps.error_of("ValueError: no luck") == {
        "message": "ValueError: no luck",
        "code": "ValueError",
        "step": "first",
    }
    assert steps.error_of("GraphRecursionError: far") == {"message": "far", "code": GraphRecursionError.code}

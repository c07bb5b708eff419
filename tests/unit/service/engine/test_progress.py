"""Commits as changes of the records of a run, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright.checkpoint import BranchKey, Checkpoint, Commit, Interrupt, Pending, Task, TaskResult
from statewright.events import Log
from statewright.graph import START
from statewright.runs import (
    Advance,
    Among,
    Change,
    Condition,
    Delete,
    Insert,
    ModelCall,
    Plus,
    Run,
    RunStatus,
    Signal,
    StepRun,
    StepStatus,
    Update,
    UpdateAll,
    Wait,
    where,
)
from statewright.service.engine.progress import Progress
from statewright.service.engine.waits import Arrivals, wait_of

SECOND = timedelta(seconds=1)


class Graph:
    """The part of a graph that is read."""

    nodes: dict[str, Any] = {}


class Step(Commit):
    """A commit with given results."""

    given: Sequence[TaskResult] = ()

    @property
    def results(self) -> Sequence[TaskResult]:
        return self.given


def task(node: str, origin: str = "c1") -> Task:
    return Task(node, None, origin, 0)


def commit(
    now: datetime, *, done: Sequence[Task] = (), then: Sequence[Task] = (), ends: str = "", source: Any = "loop",
    values: Any = None, entries: Sequence[Any] = (), namespace: str = "",
) -> Step:  # fmt: skip
    told = [*entries, *([("run_finished", 1, None, None, {"status": ends})] if ends else [])]
    made = Step(
        branch_key=BranchKey("t", namespace), expected=None, parent_id=None,
        checkpoint=Checkpoint("c2", 2, values or {}, tuple(then)), deltas=None, source=source, run_id="run_1",
        created_at=now, log=Log("run_1", now, tuple(told)) if told else None,
    )  # fmt: skip
    made.given = [TaskResult(item, {}, []) for item in done]
    return made


def finished(status: str, now: datetime, **more: Any) -> Log:
    return Log("run_1", now, (("run_finished", 1, None, None, {"status": status, **more}),))


def waiting_log(now: datetime, *questions: str) -> Log:
    """Return the log of a run that waits with open questions."""
    told = [{"id": question, "kind": "question"} for question in questions]
    entries = (("interrupted", 0, None, None, told), ("run_finished", 0, None, None, {"status": "waiting"}))
    return Log("run_1", now, entries)


@pytest.fixture
def run(new_run: Callable[..., Run]) -> Run:
    return new_run(id="run_1", claim="token", worker_id="wrk_1")


@pytest.fixture
def progress(run: Run) -> Progress:
    return Progress(run, Graph())  # type: ignore[arg-type]


def advance(changes: Sequence[Change]) -> Advance:
    assert isinstance(changes[0], Advance)
    return changes[0]


def events_of(changes: Sequence[Change]) -> list[str]:
    return [event.type for event in advance(changes).events]


def changes_of(changes: Sequence[Change], kind: Any, record: Any) -> list[Any]:
    """Return the changes of one kind, of records of one class."""
    result = [change for change in changes if isinstance(change, kind)]
    return [item for item in result if record in (type(getattr(item, "record", None)), getattr(item, "kind", None))]


def begin_step(progress: Progress, now: datetime) -> Task:
    """Begin the first step of a run, and return its task."""
    first = task("first")
    progress.commit_changes(commit(now, then=[first], source="input"))
    return first


def test_the_first_write_begins_the_run_and_its_first_steps(progress: Progress, now: datetime) -> None:
    changes = progress.commit_changes(commit(now, done=[task(START, "c0")], then=[task("first")], source="input"))
    assert events_of(changes) == ["WORKFLOW_STARTED", "STEP_STARTED"]
    assert advance(changes).expect == [Condition("claim", "=", "token")]
    assert advance(changes).values == {
        "begun": True, "status": RunStatus.RUNNING, "started_at": now, "current_step": "first",
    }  # fmt: skip
    [inserted] = changes_of(changes, Insert, StepRun)
    assert (inserted.record.name, inserted.record.status, inserted.record.started_at) == ("first", "running", now)
    assert not progress.has_settled


def test_each_superstep_completes_steps_and_begins_others(progress: Progress, now: datetime) -> None:
    first, later = begin_step(progress, now), now + SECOND
    changes = progress.commit_changes(commit(later, done=[first], then=[task("second", "c2")]))
    assert events_of(changes) == ["STEP_COMPLETED", "STEP_STARTED"]
    assert advance(changes).events[0].payload == {"stepName": "first", "durationMs": 1000}
    [update] = changes_of(changes, Update, StepRun)
    assert update.values == {"status": StepStatus.COMPLETED, "completed_at": later, "output": None, "error": None}
    assert "status" not in advance(changes).values


def test_a_saved_result_is_not_completed_twice(progress: Progress, now: datetime) -> None:
    first = begin_step(progress, now)
    assert events_of(
        progress.result_changes("", Pending(completed={first.id: TaskResult(first, {}, [])}), None, now)
    ) == ["STEP_COMPLETED"]
    assert events_of(progress.commit_changes(commit(now, done=[first], then=[task("second", "c2")]))) == [
        "STEP_STARTED"
    ]


def test_the_last_superstep_ends_the_run(progress: Progress, now: datetime) -> None:
    first = begin_step(progress, now)
    changes = progress.commit_changes(commit(now, done=[first], ends="completed", values={"a": {1}}))
    assert events_of(changes) == ["STEP_COMPLETED", "WORKFLOW_COMPLETED"]
    values = advance(changes).values
    assert (values["status"], values["output"], values["claim"]) == (RunStatus.COMPLETED, {"a": [1]}, None)
    assert progress.has_settled


def test_a_question_creates_one_wait(progress: Progress, run: Run, now: datetime) -> None:
    first = begin_step(progress, now)
    asked = Pending(interrupts={first.id: (Interrupt(id="i", value="go on?", due_at=now + SECOND),)})
    assert (
        progress.result_changes("", asked, None, now) == []
    )  # others are at work yet: it may be answered before they rest
    changes = progress.result_changes("", asked, waiting_log(now, "i"), now)
    assert events_of(changes) == ["STEP_WAITING", "TIMER_SCHEDULED", "WORKFLOW_PAUSED"]
    assert (advance(changes).values["status"], advance(changes).values["due_at"]) == (RunStatus.WAITING, now + SECOND)
    [inserted] = changes_of(changes, Insert, Wait)
    assert (inserted.record.interrupt_id, inserted.record.value, inserted.record.due_at) == (
        "i",
        "go on?",
        now + SECOND,
    )
    [update] = changes_of(changes, Update, StepRun)
    assert (update.values["status"], update.values["wait_until"]) == (StepStatus.WAITING, now + SECOND)
    assert events_of(progress.result_changes("", asked, waiting_log(now, "i"), now)) == ["WORKFLOW_PAUSED"]


def test_only_unanswered_questions_of_a_nested_graph_are_open(progress: Progress, now: datetime) -> None:
    first = begin_step(progress, now)
    both = Pending(interrupts={first.id: (Interrupt(id="i", value="one"), Interrupt(id="j", value="two"))})
    changes = progress.result_changes("", both, waiting_log(now, "j"), now)
    assert [item.record.value for item in changes_of(changes, Insert, Wait)] == ["two"]
    changes = progress.result_changes("", both, waiting_log(now, "i", "j"), now)
    assert [item.record.value for item in changes_of(changes, Insert, Wait)] == ["one"]


def test_signals_received_while_running_make_a_waiting_run_due(progress: Progress, run: Run, now: datetime) -> None:
    first = begin_step(progress, now)
    asked = Pending(interrupts={first.id: (Interrupt(id="i", value=None),)})
    changes = progress.result_changes("", asked, waiting_log(now, "i"), now)
    *_, again = changes_of(changes, UpdateAll, Run)
    early = Among(Signal, "run_id", where(run_id=run.id, taken=False))
    assert again == UpdateAll(Run, [Condition("id", "=", run.id), Condition("id", "in", early)], {"due_at": now})
    assert changes.index(again) > changes.index(advance(changes))


def waiting(run: Run, now: datetime, *, due_at: datetime | None = None) -> tuple[Progress, Wait, Task]:
    """Return the progress of a waiting run, with its wait and its task."""
    first = task("first")
    step = StepRun(id="s", run_id=run.id, task_id=first.id, name="first", type="node", status=StepStatus.WAITING)
    wait = wait_of(run, step, Interrupt(id="i", value=None, kind="event", event="paid", due_at=due_at), now)
    run.status, run.begun, run.started_at = RunStatus.WAITING, True, now
    signal = Signal(id="sig", run_id=run.id, type="paid", payload={}, key="k", created_at=now)
    came = Arrivals(answers={"i": {}}, ended=[wait], signals={} if due_at else {wait.id: signal})
    return Progress(run, Graph(), steps=[step], waits=[wait], arrivals=came), wait, first  # type: ignore[arg-type]


def test_the_first_write_takes_the_signals_that_a_run_waited_for(run: Run, now: datetime) -> None:
    progress, wait, first = waiting(run, now)
    changes = progress.commit_changes(commit(now, done=[first], ends="completed"))
    assert events_of(changes) == ["SIGNAL_RECEIVED", "WORKFLOW_RESUMED", "STEP_COMPLETED", "WORKFLOW_COMPLETED"]
    assert [item.values for item in changes_of(changes, Update, Signal)] == [{"taken": True}]
    assert Delete(Wait, [Condition("id", "in", [wait.id])]) in changes


def test_the_first_write_of_a_waiting_run_expects_its_version(run: Run, now: datetime) -> None:
    run.version = 7
    progress, _, first = waiting(run, now)
    claim, version = Condition("claim", "=", "token"), Condition("version", "=", 7)
    opens = progress.commit_changes(commit(now, done=[first], then=[task("second", "c2")]))
    assert advance(opens).expect == [claim, version]
    assert advance(progress.commit_changes(commit(now, done=[task("second", "c2")], ends="completed"))).expect == [
        claim
    ]


def test_a_writer_without_a_claim_gives_its_own_guard(run: Run, now: datetime) -> None:
    run.claim, run.deadline_at = None, now
    progress = Progress(run, Graph())  # type: ignore[arg-type]
    progress.stopping = "timeout"
    guard = [Condition("version", "=", run.version)]
    changes = progress.failure_changes(TimeoutError(), now, guard=guard)
    assert (advance(changes).expect, advance(changes).values["error"]["code"]) == (guard, "RUN_TIMEOUT")


def test_a_wait_that_times_out_is_recorded(run: Run, now: datetime) -> None:
    progress, _, first = waiting(run, now, due_at=now)
    changes = progress.commit_changes(commit(now, done=[first], ends="completed"))
    assert events_of(changes)[:2] == ["TIMER_FIRED", "WORKFLOW_RESUMED"]
    assert advance(changes).events[1].payload == {"reason": "timer"}


def test_a_failure_is_recorded_with_its_details(progress: Progress, now: datetime) -> None:
    first = begin_step(progress, now)
    progress.steps.failures[first.id] = ValueError("no luck")
    text = "ValueError: no luck"
    changes = progress.result_changes("", Pending(errors={first.id: text}), finished("failed", now, error=text), now)
    assert events_of(changes) == ["STEP_FAILED", "WORKFLOW_FAILED"]
    assert advance(changes).values["error"] == {"message": text, "code": "ValueError", "step": "first"}
    assert [item.values["status"] for item in changes_of(changes, UpdateAll, StepRun)] == [StepStatus.FAILED]


def test_a_failed_attempt_is_counted_and_recorded(progress: Progress, now: datetime) -> None:
    first = begin_step(progress, now)
    progress.steps.failures[first.id] = ConnectionError("again")
    changes = progress.result_changes("", Pending(attempts={first.id: 1}, retries={first.id: now + SECOND}), None, now)
    assert events_of(changes) == ["STEP_FAILED", "STEP_RETRY_SCHEDULED"]
    assert [event.payload["attempt"] for event in advance(changes).events] == [1, 2]


DRAINED = {"status": "failed", "error": "GraphDrained: stop", "drained": True}
CANCELLED = {"status": "cancelled", "error": "RunCancelled: stop"}
FAILED = {"status": "failed", "error": "ValueError: no"}


@pytest.mark.parametrize(
    ("end", "stopping", "is_cancelled", "becomes"),
    [
        (DRAINED, "pause", False, RunStatus.PAUSED),
        (DRAINED, "release", False, None),
        (DRAINED, "timeout", False, RunStatus.FAILED),
        (DRAINED, None, False, RunStatus.FAILED),
        ({"status": "paused"}, "pause", False, RunStatus.PAUSED),
        ({"status": "paused"}, "release", False, RunStatus.PAUSED),
        ({"status": "waiting"}, "pause", False, RunStatus.PAUSED),
        ({"status": "waiting"}, "release", False, RunStatus.WAITING),
        (FAILED, "pause", False, RunStatus.FAILED),
        (FAILED, "release", False, RunStatus.FAILED),
        (FAILED, "release", True, None),
        (CANCELLED, "release", True, None),
        (CANCELLED, "timeout", True, RunStatus.FAILED),
        (CANCELLED, "pause", False, RunStatus.CANCELLED),
        (CANCELLED, "release", False, RunStatus.CANCELLED),
        ({"status": "cancelled"}, None, False, None),
        ({"status": "completed"}, "pause", False, RunStatus.COMPLETED),
        ({"status": "completed"}, "release", True, RunStatus.COMPLETED),
    ],
)
def test_the_outcome_of_a_run_that_is_being_stopped(
    progress: Progress, now: datetime, end: dict[str, Any], stopping: Any, is_cancelled: bool, becomes: Any
) -> None:
    begin_step(progress, now)
    progress.stopping, progress.is_cancelled = stopping, is_cancelled
    values = advance(progress.result_changes("", Pending(), finished(now=now, **end), now)).values
    assert (values.get("status"), values["claim"]) == (becomes, None)
    if becomes is None:  # the next worker goes on at once
        assert values["due_at"] == now


def test_a_step_that_is_due_when_the_run_stops_begins_later(progress: Progress, now: datetime) -> None:
    first = begin_step(progress, now)
    progress.stopping = "pause"
    changes = progress.commit_changes(commit(now, done=[first], then=[task("second", "c2")]))
    assert events_of(changes) == ["STEP_COMPLETED"]
    assert [item.record.status for item in changes_of(changes, Insert, StepRun)] == [StepStatus.PENDING]


def test_a_step_reports_its_output_and_skipped_steps(progress: Progress, now: datetime) -> None:
    first = begin_step(progress, now)
    data = {"output": {"a": 1}, "skipped": ["second"], "event": {"type": "GUARDRAIL_FAILED", "payload": {"why": "x"}}}
    note = ("step_reported", 1, "first", first.id, data)
    changes = progress.commit_changes(commit(now, done=[first], ends="completed", entries=[note]))
    assert events_of(changes) == ["GUARDRAIL_FAILED", "STEP_COMPLETED", "STEP_SKIPPED", "WORKFLOW_COMPLETED"]
    assert changes_of(changes, Update, StepRun)[0].values["output"] == {"a": 1}
    [skipped] = changes_of(changes, Insert, StepRun)
    assert (skipped.record.name, skipped.record.status) == ("second", StepStatus.SKIPPED)


def test_model_calls_are_counted_in_nested_graphs_too(progress: Progress, now: datetime) -> None:
    first = begin_step(progress, now)
    data = {"model": "m", "input_tokens": 3, "output_tokens": 4, "cost": 0.5}
    notes = [("model_called", 1, "first", first.id, data)] * 2
    changes = progress.commit_changes(commit(now, entries=notes, namespace="first:t1"))
    assert events_of(changes) == ["LLM_CALL_COMPLETED"] * 2
    assert advance(changes).values == {"total_cost": Plus(1.0)}
    calls = [item.record for item in changes_of(changes, Insert, ModelCall)]
    assert len({call.id for call in calls}) == 2
    assert [(call.model, call.cost, call.input_tokens) for call in calls] == [("m", 0.5, 3)] * 2


def test_commits_of_nested_calls_change_no_step(progress: Progress, now: datetime) -> None:
    begin_step(progress, now)
    assert progress.commit_changes(commit(now, done=[task("inner")], then=[task("other")], namespace="first:t1")) == []


@pytest.mark.parametrize("settings", [{"interruptBefore": ["second"]}, {"interruptAfter": ["first"]},
                                      {"interruptBefore": "*"}, {"interruptAfter": ["*"]}])  # fmt: skip
def test_a_step_behind_a_breakpoint_is_pending(progress: Progress, now: datetime, settings: dict[str, Any]) -> None:
    first = begin_step(progress, now)
    progress.run.settings = settings
    changes = progress.commit_changes(commit(now, done=[first], then=[task("second", "c2")]))
    assert events_of(changes) == ["STEP_COMPLETED"]
    assert [item.record.status for item in changes_of(changes, Insert, StepRun)] == [StepStatus.PENDING]


def test_secrets_are_removed_from_events_but_not_from_results(progress: Progress, now: datetime) -> None:
    first = begin_step(progress, now)
    progress.redact = lambda told: {} if isinstance(told, dict) else told
    progress.steps.failures[first.id] = ValueError("the key is 1234")
    text = "ValueError: the key is 1234"
    changes = progress.result_changes("", Pending(errors={first.id: text}), finished("failed", now, error=text), now)
    assert "1234" not in repr(changes)
    done = progress.commit_changes(commit(now, ends="completed", values={"a": 1}))
    assert advance(done).values["output"] == {"a": 1}


def test_a_run_is_postponed_by_its_worker(progress: Progress, now: datetime) -> None:
    [change] = progress.postpone_changes(now + SECOND, now)
    assert isinstance(change, Advance)
    assert change.values == {"claim": None, "worker_id": None, "due_at": now + SECOND}
    assert change.expect == [Condition("claim", "=", "token")]

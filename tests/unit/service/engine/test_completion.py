"""The ends of runs, and their consequences for webhooks and parents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from statewright.runs import Announce, Insert, Run, RunStatus, Signal, UpdateAll
from statewright.service.engine.completion import Ending, completion_changes

ERROR = {"message": "no luck", "code": "LUCK"}


def test_each_end_sets_its_columns_and_releases_the_run(now: datetime) -> None:
    released = {"claim": None, "worker_id": None, "due_at": None, "deadline_at": None}
    assert Ending.completed({"a": 1}).values(now) == {
        "status": RunStatus.COMPLETED, "completed_at": now, "error": None,
        "output": {"a": 1}, "current_step": None, **released,
    }  # fmt: skip
    assert Ending.failed(ERROR).values(now) == {
        "status": RunStatus.FAILED, "failed_at": now, "error": ERROR, **released,
    }  # fmt: skip
    assert Ending.cancelled("why").values(now) == {
        "status": RunStatus.CANCELLED, "cancelled_at": now, "error": None, **released,
    }  # fmt: skip


def test_each_end_has_its_event() -> None:
    ends = [Ending.completed({}), Ending.failed(ERROR), Ending.cancelled("why")]
    assert [(end.event, end.payload) for end in ends] == [
        ("WORKFLOW_COMPLETED", {}),
        ("WORKFLOW_FAILED", {"error": ERROR}),
        ("WORKFLOW_CANCELLED", {"reason": "why"}),
    ]


def test_an_end_is_announced_to_webhooks(now: datetime, new_run: Callable[..., Run]) -> None:
    run = new_run(metadata={"customer": "ann"})
    [announcement] = completion_changes(run, Ending.failed(ERROR), now)
    assert isinstance(announcement, Announce)
    assert (announcement.workspace_id, announcement.event_type, announcement.run_id, announcement.at) == (
        "default",
        "workflow.failed",
        run.id,
        now,
    )
    assert announcement.data == {
        "workflowRunId": run.id, "graph": "report", "definitionId": None, "metadata": {"customer": "ann"},
        "status": "failed", "output": None, "error": ERROR, "endedAt": "2026-03-02T12:00:00Z",
    }  # fmt: skip


def changes_at_end(run: Run, ending: Ending, now: datetime) -> list[Any]:
    return [change for change in completion_changes(run, ending, now) if not isinstance(change, Announce)]


def test_a_waiting_parent_receives_a_signal_and_is_woken(now: datetime, new_run: Callable[..., Run]) -> None:
    run = new_run(parent_id="run_p", parent_waits=True)
    insert, wake = changes_at_end(run, Ending.completed({"a": 1}), now)
    assert isinstance(insert, Insert)
    signal = insert.record
    assert isinstance(signal, Signal)
    assert (signal.run_id, signal.type) == ("run_p", f"__run_ended:{run.id}")
    assert signal.payload == {"runId": run.id, "status": "completed", "output": {"a": 1}, "error": None}
    assert isinstance(wake, UpdateAll)
    assert wake.values == {"due_at": now}


def test_a_parent_that_does_not_wait_receives_no_signal(now: datetime, new_run: Callable[..., Run]) -> None:
    assert changes_at_end(new_run(parent_id="run_p"), Ending.completed({}), now) == []


def test_each_end_of_a_retried_run_is_a_new_signal(now: datetime, new_run: Callable[..., Run]) -> None:
    run = new_run(parent_id="run_p", parent_waits=True)
    ids = {changes_at_end(run, Ending.failed(ERROR), at)[0].record.id for at in (now, now, now + timedelta(seconds=1))}
    assert len(ids) == 2

"""Text about runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.cli.runs.text import format_event, format_run_error, format_wait, next_commands, short_json
from statewright.client import Event, Run, Wait

AT = "2026-01-02T03:04:05.678Z"


def run(status: str = "waiting", **more: Any) -> Run:
    texts = dict.fromkeys(("workspaceId", "graph", "threadId", "onBusy", "source"), "")
    numbers = dict.fromkeys(("totalCostCents", "totalCostUsd", "version"), 0)
    times = {"createdAt": AT, "updatedAt": AT}
    others = {"tags": [], "metadata": {}, "settings": {}, "input": None}
    return Run.from_json({"id": "run_1", "status": status, **texts, **numbers, **times, **others, **more})


def wait(kind: str, **more: Any) -> Wait:
    fields = {"id": "w1", "workflowRunId": "run_1", "stepRunId": "s1", "stepName": "ask", "createdAt": AT}
    return Wait.from_json({**fields, "kind": kind, "value": None, **more})


APPROVAL = {"type": "approval", "prompt": "Send it?"}


def test_an_event_is_one_line() -> None:
    event = Event.from_json(
        {
            "id": "e",
            "seq": 1,
            "workflowRunId": "run_1",
            "eventType": "STEP_FAILED",
            "payload": {"stepName": "a", "error": {"message": "no\nluck"}, "none": None},
            "createdAt": AT,
        }
    )
    at = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
    assert format_event(event).split() == [at, "STEP_FAILED", "a", 'error={"message":', '"no\\nluck"}']


def test_the_error_of_an_event_is_not_shortened_as_other_details_are() -> None:
    long = "far too much of it " * 20
    event = Event.from_json(
        {
            "id": "e",
            "seq": 1,
            "workflowRunId": "run_1",
            "eventType": "WORKFLOW_FAILED",
            "payload": {"error": {"message": f"{long}and then what to do"}, "output": long},
            "createdAt": AT,
        }
    )
    line = format_event(event)
    assert f"{long}and then what to do" in line
    assert line.count(long) == 1


@pytest.mark.parametrize(
    ("waits", "line"),
    [
        (wait("question", value="how many?"), "step ask is waiting for an answer: how many?"),
        (wait("question", value=APPROVAL), "step ask is waiting for an approval: Send it?"),
        (wait("question", value={"type": "approval"}), "step ask is waiting for an approval"),
        (wait("event", signalType="paid"), "step ask is waiting for the signal 'paid'"),
    ],
)
def test_a_wait_is_one_line(waits: Wait, line: str) -> None:
    assert format_wait(waits) == line


def test_a_timer_has_its_due_time() -> None:
    assert format_wait(wait("timer", dueAt=AT)).startswith("step ask is waiting for a timer, until 2026-01-0")


def test_each_wait_has_a_command_that_continues_the_run() -> None:
    assert next_commands(run(), [wait("question")], None) == ["statewright runs resume run_1 --answer VALUE"]
    both = [wait("question"), wait("question", id="w2"), wait("question", value=APPROVAL), wait("timer")]
    assert next_commands(run(), both, "http://a") == [
        "statewright runs resume run_1 --answer w1=VALUE --url http://a",
        "statewright runs resume run_1 --answer w2=VALUE --url http://a",
        "statewright runs approve run_1 --url http://a",
    ]
    event = [wait("event", signalType="it's paid")]
    assert next_commands(run(), event, None) == ["""statewright runs signal run_1 'it'"'"'s paid' --payload '{}'"""]
    assert next_commands(run("paused"), [], None) == ["statewright runs resume run_1"]


def test_an_error_is_shown_with_its_step_and_code() -> None:
    assert format_run_error(run(error={"message": "no luck", "code": "E", "step": "a"})) == "Step a: no luck [E]"
    assert format_run_error(run(error={"message": "no luck"})) == "no luck"
    assert format_run_error(run(error=None)) == "The run failed."
    assert format_run_error(run(error="torn")) == "torn"


def test_long_values_are_shortened() -> None:
    assert short_json("x" * 200) == "x" * 97 + "..."
    assert short_json({"a": 1}) == '{"a": 1}'
    assert short_json("two\nlines") == '"two\\nlines"'

"""The changes of one write, and the removal of secrets from them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from statewright.runs import Advance, Announce, Insert, NewEvent, Signal, StepRun, Update
from statewright.service.engine.changeset import ChangeSet, without_secrets

STEP = StepRun(id="s", run_id="r", task_id="t", name="pay", type="node")


def redact(value: Any) -> Any:
    """Return a value without the secret, at any depth."""
    if isinstance(value, dict):
        return {key: redact(item) for key, item in value.items()}
    return value.replace("1234", "***") if isinstance(value, str) else value


def test_events_of_a_step_name_it() -> None:
    changeset = ChangeSet()
    changeset.add_event("WORKFLOW_STARTED", {"graph": "g"})
    changeset.add_event("STEP_FAILED", {"attempt": 1}, STEP)
    assert changeset.events == [
        NewEvent("WORKFLOW_STARTED", {"graph": "g"}, None),
        NewEvent("STEP_FAILED", {"stepName": "pay", "attempt": 1}, "s"),
    ]


def test_secrets_are_removed_from_events_errors_and_messages(now: datetime) -> None:
    error = {"message": "the key is 1234", "code": "ValueError"}
    clean = {"message": "the key is ***", "code": "ValueError"}
    advance, update, announce = without_secrets(
        [
            Advance("r", now, {"error": error, "due_at": None}, [NewEvent("X", {"error": error}, "s")]),
            Update(StepRun, "s", {"error": error, "attempt": 2}),
            Announce("default", "workflow.failed", {"error": error, "output": None}, now),
        ],
        redact,
    )
    assert isinstance(advance, Advance)
    assert (advance.values, list(advance.events)) == (
        {"error": clean, "due_at": None},
        [NewEvent("X", {"error": clean}, "s")],
    )
    assert isinstance(update, Update)
    assert update.values == {"error": clean, "attempt": 2}
    assert isinstance(announce, Announce)
    assert announce.data == {"error": clean, "output": None}


def test_outputs_are_not_redacted(now: datetime) -> None:
    signal = Insert(Signal(id="g", run_id="r", type="paid", payload={"card": "1234"}, created_at=now))
    output = Advance("r", now, {"output": {"card": "1234"}, "error": None})
    announcement = Announce("default", "workflow.completed", {"output": {"card": "1234"}, "graph": "1234"}, now)
    changes = without_secrets([signal, output, announcement], redact)
    assert "1234" in repr(changes[0])
    assert output.values == {"output": {"card": "1234"}, "error": None}
    assert announcement.data == {"output": {"card": "1234"}, "graph": "***"}

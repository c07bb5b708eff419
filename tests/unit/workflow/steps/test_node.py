"""Failed results of steps."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.workflow.steps import StepFailed, StepFailure, StepResult, read_definition
from statewright.workflow.steps.node import make_failure

STEP = read_definition({"name": "n", "version": "1", "steps": [{"type": "task", "name": "a", "handler": "h"}]}).step(
    "a"
)


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (None, "Step 'a' failed without a reason. Return an error with a message.", "STEP_FAILED"),
        (StepFailure(""), "Step 'a' failed.", "STEP_FAILED"),
        (StepFailure("no", "E1", (1, 2)), "no", "E1"),
    ],
)
def test_a_failed_result_becomes_an_error(error: StepFailure | None, message: str, code: str) -> None:
    failure = make_failure(StepResult("failed", error=error), STEP)
    assert isinstance(failure, StepFailed)
    assert (str(failure), failure.code) == (message, code)
    assert failure.details == ([1, 2] if error is not None and error.details else None)


def test_details_must_be_json() -> None:
    details: Any = object()
    with pytest.raises(InvalidUpdateError, match="The error of step 'a'"):
        make_failure(StepResult("failed", error=StepFailure("no", details=details)), STEP)
